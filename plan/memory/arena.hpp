// The memory plan, on two levels. Level one lays out the scratch of a block, once, relative to
// wherever its uses put it; level two lays out what outlives blocks, over the steps of a program.
// The executor allocates exactly this arena; the simulator reports it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// Offsets are multiples of this, as cudaMalloc and vector loads like it.
inline constexpr std::int64_t kAlignment = 256;

inline std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Fills scratch_offsets, scratch_bytes and reuse of the block: first fit in order of first use.
// Where memory of A is used again for B, an edge runs from every op that touches A to B's first op,
// unless they are ordered already.
void plan_scratch(Block& block);

// Offset of each stash tensor of a forward block within its stash area (−1: not a stash tensor),
// and the area's bytes; the same of what is recomputed.
struct StashArea {
    std::vector<std::int64_t> offsets;
    std::int64_t bytes = 0;
};
StashArea stash_area(const Block& forward, Role role = Role::stash);

// Where each device scalar of a program's blocks lies among the others, and the bytes that all take
// (entry ""): by name, so that one name is one scalar in all blocks.
std::map<std::string, std::int64_t> scalar_offsets(const std::vector<Block>& blocks,
                                                   const Program& program);

// Fills offsets and reuses of the residents and the sizes of all tiers' arenas: persistent ones,
// then stashes and slots, then buffers of transfers (plan/memory/placement.hpp).
void plan_arena(Program& program);

// Memory of a rank as one line of bytes: the device's arena, then the host's, then the disk's file.
// Offsets of residents count from the start of their tier.
std::int64_t first_address(const Program& program, Tier tier);
std::int64_t address_of(const Program& program, std::int32_t resident);

// The resident that keeps a state between its uses: itself, or what it is a copy of.
std::int32_t keeper_of(const Program& program, std::int32_t resident);

// Who lives when: live bytes by category, at the first moment of the largest total.
struct MemoryPeak {
    std::array<std::int64_t, kMemoryCategories> bytes{};  // by category; sums to `live`
    std::int64_t live = 0;
    std::int32_t step = 0;
    std::string at;  // "2F5 attention"
};
MemoryPeak memory_peak(const Plan& plan, const Program& program);

// Live bytes during each step.
std::vector<std::int64_t> live_bytes_by_step(const Plan& plan, const Program& program);

}  // namespace orrery::plan
