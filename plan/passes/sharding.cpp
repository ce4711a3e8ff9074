#include "plan/passes/passes.hpp"

namespace orrery::plan {

Sharding sharding_of(const Scenario& scenario) {
    const std::int64_t stage =
        scenario.layout.zero_ranks() > 1 ? scenario.layout.zero_stage : std::int64_t{0};
    return {stage >= 1, stage >= 2, stage >= 3};
}

void share_out(ProgramBuilder& builder, Bucket& bucket) {
    const Sharding& sharding = builder.sharding;
    const Dims& dims = builder.dims;
    if (sharding.optimizer)
        bucket.shares = {{builder.shard_group(), builder.padded(bucket.elements)}};
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
    // Rajbhandari 2020: K = 12 with fp32 masters beside 16-bit parameters; fp32 parameters are
    // their own masters: 8.
    std::vector<StateKind> kept = {StateKind::first_moments, StateKind::second_moments};
    if (dims.keeps_masters()) kept.push_back(StateKind::masters);
    const Extent optimizer = sharding.optimizer ? Extent::shard : Extent::whole;
    std::int64_t offset = 0;
    for (const StateKind kind : kept) {
        bucket.states.push_back({kind, optimizer, dims.wide_dtype, offset});
        offset += bucket.stepped(builder.mesh) * size_bytes(dims.wide_dtype);
    }
}

}  // namespace orrery::plan
