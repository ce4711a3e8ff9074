// What a copy between tiers of memory takes: latency + bytes ÷ bandwidth of the link (Ren et al.
// 2021, ZeRO-Offload, arXiv 2101.06840, §3; Rajbhandari et al. 2021, ZeRO-Infinity,
// arXiv 2104.07857, §4). Each device has its own way to host memory, with a lane in each direction.
// The storage of a node is shared by its ranks, which do the same at the same time: each has its
// part of the bandwidth.
#pragma once

#include <cstdint>

#include "plan/ir/block.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/kernel_cost.hpp"

namespace orrery::sim {

Price price_copy(const plan::Op& op, const plan::Cluster& cluster, std::int64_t ranks_of_node);

}  // namespace orrery::sim
