// Attention of one shape, forward and backward, against the oracle.
#pragma once

#include "tests/gpu/checks/world.hpp"

namespace orrery::runtime::gpu_check {

struct AttentionCase {
    AttentionShape shape;
    std::int64_t window = 0;
    bool alibi = false;
    double dropout = 0;
    double soft_cap = 0;
    bool sinks = false;
};

void check_attention_case(World& world, const AttentionCase& a);
// Adds to the gradients of sinks, or overwrites them; that of queries may be summed in any order.
void check_attention_backward(World& world, const AttentionCase& a, bool accumulate,
                              bool any_order = false);

}  // namespace orrery::runtime::gpu_check
