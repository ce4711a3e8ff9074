// Hierarchical all_reduce: reduce-scatter inside each node, all-reduce of the shards between nodes
// (one group of `nodes` ranks per shard, all at once through the node's NICs), all-gather inside.
// Between nodes a node sends 2(n−1)/n·S instead of the flat ring's 2(N−1)/N·S: half at n = 2.
// The message goes through in chunks, so that the stages run at the same time on different links:
// the slower stage sets the pace and the other adds what its first chunk takes, its latency.
// With one rank per node there is no inside, and what remains is the flat algorithm.
// Source: NCCL's NVLS tree (src/graph/tuning.cc, NCCL_ALGO_NVLS_TREE); Goyal et al. 2017,
// "Accurate, large minibatch SGD", §4.
#include <algorithm>

#include "sim/network/algorithms.hpp"

namespace orrery::sim {

double hierarchical_seconds(const StageCost& inside, const StageCost& between) {
    return std::max(inside.seconds + between.latency_seconds,
                    between.seconds + inside.latency_seconds);
}

}  // namespace orrery::sim
