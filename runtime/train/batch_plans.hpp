// A plan for each size of the global batch that a run comes to: with a batch that ramps up, they
// are several. The ranks of a process share them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::runtime {

class BatchPlans {
  public:
    struct Entry {
        plan::Scenario scenario;  // with this batch
        plan::Plan plan;
    };

    // All must outlive the object. `given`: the plan of the whole batch, else null: it is built, as
    // those of smaller ones are. `change`: of each plan, once; may be empty.
    BatchPlans(const plan::Scenario& scenario, const plan::Plan* given,
               const std::function<void(plan::Plan&)>& change)
        : scenario_(scenario), given_(given), change_(change) {}

    // Lives as long as this object. From any thread.
    const Entry& of(std::int64_t global_batch);

    const plan::Scenario& scenario() const { return scenario_; }  // with the whole batch

  private:
    const plan::Scenario& scenario_;
    const plan::Plan* given_;
    const std::function<void(plan::Plan&)>& change_;
    std::mutex mutex_;
    std::map<std::int64_t, std::unique_ptr<Entry>> entries_;
};

}  // namespace orrery::runtime
