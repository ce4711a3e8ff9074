#include <algorithm>

#include "plan/passes/passes.hpp"

namespace orrery::plan {

Sharding sharding_of(const Scenario& scenario) {
    const std::int64_t stage =
        scenario.layout.zero_ranks() > 1 ? scenario.layout.zero_stage : std::int64_t{0};
    return {stage >= 1, stage >= 2, stage >= 3};
}

namespace {

// Rajbhandari 2020: K = 12 with fp32 masters beside 16-bit parameters; fp32 parameters are their
// own masters: 8. In memory the widest types come first, so that each lies where its type may.
void add_optimizer_states(const Dims& dims, Extent extent, std::int64_t elements, Bucket& bucket) {
    std::vector<BucketState> kept = {{StateKind::first_moments, extent, dims.first_moment},
                                     {StateKind::second_moments, extent, dims.second_moment}};
    if (dims.keeps_masters()) kept.push_back({StateKind::masters, extent, dims.main_parameters});
    std::vector<BucketState*> by_width;
    for (BucketState& state : kept)
        by_width.push_back(&state);
    std::stable_sort(by_width.begin(), by_width.end(),
                     [](const BucketState* a, const BucketState* b) {
                         return size_bytes(a->dtype) > size_bytes(b->dtype);
                     });
    std::int64_t offset = 0;
    for (BucketState* const state : by_width) {
        state->offset = offset;
        offset += elements * size_bytes(state->dtype);
    }
    bucket.states.insert(bucket.states.end(), kept.begin(), kept.end());
}

}  // namespace

void share_out(ProgramBuilder& builder, Bucket& bucket) {
    const Sharding sharding = builder.sharding_of(bucket);
    const Dims& dims = builder.dims;
    if (bucket.frozen) {
        if (bucket.elements == 0) return;
        if (sharding.parameters)
            bucket.shares = {
                {builder.shard_group(bucket), builder.padded(bucket, bucket.elements)}};
        bucket.states = {{StateKind::parameters,
                          sharding.parameters ? Extent::shard : Extent::whole, dims.dtype}};
        return;
    }
    if (sharding.optimizer)
        bucket.shares = {{builder.shard_group(bucket), builder.padded(bucket, bucket.elements)}};
    const Extent gradients = sharding.gradients   ? Extent::shard
                             : sharding.optimizer ? Extent::in_place
                                                  : Extent::whole;
    bucket.states = {{StateKind::gradients, gradients, builder.gradient_dtype()}};
    if (bucket.elements == 0) return;
    // What the other ranks changed is gathered, or it is not until the next step begins.
    const bool ahead = sharding.optimizer && gathers_parameters_ahead(builder.scenario);
    const Extent parameters = sharding.parameters ? Extent::shard
                              : ahead             ? Extent::in_place
                                                  : Extent::whole;
    bucket.states.insert(bucket.states.begin(), {StateKind::parameters, parameters, dims.dtype});
    add_optimizer_states(dims, sharding.optimizer ? Extent::shard : Extent::whole,
                         bucket.stepped(builder.mesh), bucket);
}

}  // namespace orrery::plan
