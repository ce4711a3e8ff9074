// Attention of one shape, forward and backward, against the oracle.
#pragma once

#include "plan/ops/attention.hpp"
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

// As an op of a plan has them.
inline plan::AttentionSizes sizes_of(const AttentionShape& shape) {
    plan::AttentionSizes sizes;
    sizes.batch = shape.batch;
    sizes.queries = sizes.keys = shape.sequence;
    sizes.heads = shape.heads;
    sizes.kv_heads = shape.kv_heads;
    sizes.head_dim = shape.head_dim;
    sizes.value_dim = shape.value_dim;
    return sizes;
}

void check_attention_case(World& world, const AttentionCase& a);
// Adds to the gradients of sinks, or overwrites them; that of queries may be summed in any order.
void check_attention_backward(World& world, const AttentionCase& a, bool accumulate,
                              bool any_order = false);

}  // namespace orrery::runtime::gpu_check
