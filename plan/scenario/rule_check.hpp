// Scenarios that are made in memory, as a search makes them: settled and held against the rules of
// the reader, the very same ones, without a file, a text or a message for each that breaks one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// What the rules are to fill in: data_parallel as "auto", layers_per_stage as "even".
struct LeftToSettle {
    bool data_parallel = false;
    bool layers_per_stage = false;
};

// Not for two threads at once.
class RuleCheck {
  public:
    // `given`: of the scenario that others are made from (ReadResult); some defaults hold only
    // where nothing is said.
    explicit RuleCheck(const std::vector<std::string>& given);
    ~RuleCheck();
    RuleCheck(const RuleCheck&) = delete;
    RuleCheck& operator=(const RuleCheck&) = delete;

    // of_stages: rules that ask for nothing but the model's layers, the layout's pipeline_parallel,
    // virtual_pipeline and layers_per_stage, and its schedule. of_zero_groups: rules that ask for
    // zero_group_size, of a scenario that broke none with another.
    enum class Asked : std::uint8_t { all, of_stages, of_zero_groups };
    // The code of the first rule that the scenario breaks; empty: none, and but for of_stages it is
    // what a reader of a file with these values would have read.
    std::string first_broken(Scenario& scenario, LeftToSettle left, Asked asked = Asked::all);
    // What the last one that was broken says.
    const std::string& message() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace orrery::plan
