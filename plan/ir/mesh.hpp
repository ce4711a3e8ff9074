// Who is who: ranks and their coordinates in the grid of parallel dimensions, tensor fastest, then
// context, then data, pipeline slowest (Megatron's tp-cp-dp-pp order). Rank r sits on device r;
// devices fill nodes in order.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/ir/kinds.hpp"

namespace orrery::plan {

using Rank = std::int64_t;

struct Coordinates {
    std::int64_t tensor = 0;
    std::int64_t context = 0;
    std::int64_t data = 0;
    std::int64_t pipeline = 0;
    bool operator==(const Coordinates&) const = default;
};

struct Mesh {
    std::int64_t tensor = 1;
    std::int64_t context = 1;
    std::int64_t data = 1;
    std::int64_t pipeline = 1;
    // Ranks of a data group, in a row, that share out its states; more than one and fewer than all,
    // or 0: all of them do. Experts' states are shared out within the same part of a stage, which
    // has all experts as often as every other part.
    std::int64_t shard = 0;
    // Ranks of a stage, in a row, among which a layer's experts are spread, and how many of these,
    // in a row, have shares of the same ones; 0: it has none. Experts fold over tensor × context ×
    // data as Megatron Core folds them: in a stage rank r is member r mod expert of its group.
    std::int64_t expert = 0;
    std::int64_t expert_split = 1;

    bool operator==(const Mesh&) const = default;

    std::int64_t ranks() const { return tensor * context * data * pipeline; }
    Coordinates coordinates(Rank rank) const;
    Rank rank(const Coordinates& at) const;

    // Number of members of each group of this kind. embedding: 2, or 1 without a pipeline.
    // Where all of a data group share out its states, shard is that group and replica one rank;
    // so it is of those that hold the same experts.
    std::int64_t group_size(GroupKind kind) const;

    // Members of the group of this kind that `rank` belongs to, ascending. For embedding the
    // groups tie the first and the last pipeline rank; ranks between are alone.
    std::vector<Rank> group(GroupKind kind, Rank rank) const;

    // The rank's number in its expert group.
    std::int64_t expert_member(Rank rank) const {
        return expert > 0 ? rank % stage_ranks() % expert : 0;
    }

    // The rank with the same other coordinates at another pipeline position.
    Rank pipeline_peer(Rank rank, std::int64_t pipeline_rank) const;

  private:
    std::int64_t stage_ranks() const { return tensor * context * data; }
    std::vector<Rank> part_of(GroupKind whole, GroupKind shards, GroupKind kind, Rank self) const;
};

}  // namespace orrery::plan
