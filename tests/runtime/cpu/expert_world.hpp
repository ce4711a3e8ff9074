// Experts of all members of a group, in one process: whom tokens choose, and where rows then lie.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernels/expert_rules.hpp"

namespace orrery::runtime {

// A group and so many tokens of each member, each of which chooses `chosen` experts at random.
struct ExpertGroup {
    std::int64_t experts = 4, ranks = 1, split = 1, chosen = 2, tokens = 5;
    std::vector<std::vector<std::int32_t>> choices{};  // of each member, [tokens, chosen]
    std::vector<std::int32_t> counts{};                // [ranks, experts]

    ExpertPlaces places(std::int64_t member) const {
        return {experts, ranks, split, member, counts.data()};
    }
};

// Experts are chosen the less often the higher their number; `idle` of the last ones never.
ExpertGroup random_group(const ExpertGroup& sizes, std::int64_t idle, std::uint32_t seed);

// Several ways to spread experts: one rank, several, with a split, one expert and several a rank,
// one chosen and all, some without rows.
std::vector<ExpertGroup> some_groups();

// A row that a token sends to an expert.
struct Sent {
    std::int64_t member = 0, token = 0, slot = 0, expert = 0;
    bool operator==(const Sent&) const = default;
};

// By definition, from loops over everything: rows as permute leaves them, as they come in, as
// group_rows orders them.
std::vector<Sent> permuted_rows(const ExpertGroup& group, std::int64_t member);
std::vector<Sent> received_rows(const ExpertGroup& group, std::int64_t member);
std::vector<Sent> grouped_rows(const ExpertGroup& group, std::int64_t member);
// What comes back to a member, from member after member, and from which share.
struct Returned {
    Sent row;
    std::int64_t share = 0;
};
std::vector<Returned> returned_rows(const ExpertGroup& group, std::int64_t member);

}  // namespace orrery::runtime
