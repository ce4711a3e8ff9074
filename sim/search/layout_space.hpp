// The layouts that a search looks at: for each key of the layout that it varies the values that it
// takes, and of these every combination. A value is what the scenario's reader made of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// Keys of the layout that a search varies without reading the scenario again, in the order in which
// combinations are counted: the first changes slowest.
const std::vector<std::string_view>& searched_keys();  // "tensor_parallel", …

struct LayoutAxis {
    std::string key;                   // one of searched_keys()
    std::vector<std::string> texts;    // as --set takes them
    std::vector<plan::Layout> values;  // layouts that have them
};

// What is tried of a key where nobody says: degrees that may divide model and cluster, every
// schedule, ZeRO stage and usual kind of recomputation. Nothing where the default is to leave the
// key as it is (offload).
std::vector<std::string> usual_values(std::string_view key, const plan::Scenario& scenario);

class LayoutSpace {
  public:
    // `base` has the values of the keys that no axis varies. Axes may come in any order.
    LayoutSpace(const plan::Layout& base, std::vector<LayoutAxis> axes);

    std::uint64_t size() const { return size_; }
    const std::vector<LayoutAxis>& axes() const { return axes_; }

    // The combination of this number; layers_per_stage and data_parallel are left as in `base`.
    plan::Layout layout(std::uint64_t number) const;
    // Of the keys that change fastest, schedule and numbers of stages: a combination's number
    // modulo this is theirs.
    std::uint64_t stage_combinations() const { return stages_; }
    // Values of the group in which ZeRO shares out, which changes fastest of the other keys, where
    // the first of them is all ranks and none is one; else 1. A combination that breaks a rule
    // with the first breaks it with every other, too.
    std::uint64_t zero_groups() const { return zero_groups_; }
    std::int64_t zero_group(std::uint64_t place) const;
    // The combination that differs in that alone, with the first of its values.
    std::uint64_t with_first_zero_group(std::uint64_t number) const;
    // Whether a scenario with a layout of the space is the same as with another, which is the one
    // that counts: ZeRO among no other ranks, in groups of no fewer than there are, recomputation
    // of what is not kept. Without a pipeline one schedule stands for those with a chunk per rank:
    // others only have more in flight there.
    bool repeats(const plan::Scenario& scenario, std::int64_t data_parallel) const;
    // "layout.tensor_parallel=8", …: of the varied keys.
    std::vector<std::string> sets(std::uint64_t number) const;

  private:
    // Whether an axis has a value of the key for which `is`.
    template <typename Is>
    bool tries(std::string_view key, Is is) const;

    plan::Layout base_;
    std::vector<LayoutAxis> axes_;
    std::vector<std::size_t> places_;  // by axis, of its key in searched_keys()
    std::uint64_t size_ = 1, stages_ = 1, zero_groups_ = 1;
};

// Layers over stages that they do not divide into evenly: one fewer on the first and the last
// stage, which have embedding and head, or on the last alone, or on these and the last ones where
// no more than one in twenty is missing; empty: more would be.
std::vector<std::int64_t> with_ends_lighter(std::int64_t layers, std::int64_t stages);

}  // namespace orrery::sim
