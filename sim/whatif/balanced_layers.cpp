#include "sim/whatif/balanced_layers.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "plan/assemble/build_plan.hpp"
#include "sim/chunks.hpp"
#include "sim/whatif/what_if.hpp"

namespace orrery::sim {
namespace {

// By stage: of the median chunk among those on nodes of its kinds, whose ends have nothing but
// layers.
std::vector<double> times_of_layer(const std::vector<double>& times,
                                   const std::vector<std::int64_t>& layers,
                                   const std::vector<NodeKinds>& kinds) {
    std::map<NodeKinds, std::vector<double>> of_layer;
    for (std::size_t stage = 0; stage < times.size(); ++stage)
        of_layer[kinds[stage]].push_back(times[stage] / static_cast<double>(layers[stage]));
    for (auto& [kind, of_chunks] : of_layer)
        std::sort(of_chunks.begin(), of_chunks.end());
    std::vector<double> medians;
    for (const NodeKinds kind : kinds)
        medians.push_back(of_layer[kind][of_layer[kind].size() / 2]);
    return medians;
}

std::vector<std::int64_t> dealt_out(const std::vector<double>& times,
                                    const std::vector<std::int64_t>& layers,
                                    const std::vector<NodeKinds>& kinds) {
    const std::vector<double> layer = times_of_layer(times, layers, kinds);
    std::vector<double> own;
    std::int64_t left = -static_cast<std::int64_t>(layers.size());
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
        own.push_back(times[stage] - layer[stage] * static_cast<double>(layers[stage]));
        left += layers[stage];
    }
    std::vector<std::int64_t> dealt(layers.size(), 1);  // a chunk without layers is none
    for (; left > 0; --left) {
        std::size_t shortest = 0;
        const auto with_one_more = [&](std::size_t stage) {
            return own[stage] + layer[stage] * static_cast<double>(dealt[stage] + 1);
        };
        for (std::size_t stage = 1; stage < dealt.size(); ++stage)
            if (with_one_more(stage) < with_one_more(shortest)) shortest = stage;
        ++dealt[shortest];
    }
    return dealt;
}

// By stage, those of its pipeline rank's nodes.
std::vector<NodeKinds> kinds_of(const plan::Plan& plan, const Chunks& chunks,
                                const plan::Cluster& cluster) {
    const std::int64_t of_rank = plan.mesh.ranks() / plan.mesh.pipeline;
    std::vector<NodeKinds> kinds;
    for (const std::int32_t rank : chunks.pipeline_ranks()) {
        NodeKinds of_stage = 0;
        for (std::size_t kind = cluster.kind_of_device(rank * of_rank);
             kind <= cluster.kind_of_device((rank + 1) * of_rank - 1); ++kind)
            of_stage |= kOwnNodes << kind;
        kinds.push_back(of_stage);
    }
    return kinds;
}

Setting setting_of(const std::vector<std::int64_t>& layers) {
    std::string list;
    for (const std::int64_t count : layers)
        list += (list.empty() ? "[" : ",") + std::to_string(count);
    return {"layout.layers_per_stage", list + ']'};
}

}  // namespace

std::optional<BalancedLayers> balanced_layers(const plan::Scenario& scenario,
                                              const Profile& profile, const Prediction& prediction,
                                              const ReadWith& read_with) {
    const std::vector<std::int64_t>& now = scenario.layout.layers_per_stage;
    if (!prediction.step.heaviest_chunk) return std::nullopt;
    std::vector<double> times;
    std::vector<NodeKinds> kinds;
    {
        const plan::Plan plan = plan::build_plan(scenario);
        const Machine machine = build_machine(plan, scenario, profile, false);
        const Chunks chunks(plan, machine);
        times = chunks.times();
        kinds = kinds_of(plan, chunks, scenario.cluster);
    }
    if (times.size() != now.size()) return std::nullopt;
    const std::vector<std::int64_t> dealt = dealt_out(times, now, kinds);
    if (dealt == now) return std::nullopt;
    BalancedLayers balanced{setting_of(dealt)};
    const std::optional<plan::Scenario> changed = read_with(overrides_of({balanced.setting}));
    if (!changed) return std::nullopt;
    balanced.step_time_s =
        to_seconds(step_if(nullptr, plan::build_plan(*changed), *changed, profile));
    balanced.gain_s = prediction.step.time_s - balanced.step_time_s;
    if (balanced.gain_s <= 0) return std::nullopt;
    return balanced;
}

}  // namespace orrery::sim
