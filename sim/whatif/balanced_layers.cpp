#include "sim/whatif/balanced_layers.hpp"

#include <algorithm>
#include <string>

#include "plan/assemble/build_plan.hpp"
#include "sim/chunks.hpp"
#include "sim/whatif/what_if.hpp"

namespace orrery::sim {
namespace {

// Of the median chunk, whose ends have nothing but layers.
double time_of_layer(const std::vector<double>& times, const std::vector<std::int64_t>& layers) {
    std::vector<double> of_layer;
    for (std::size_t stage = 0; stage < times.size(); ++stage)
        of_layer.push_back(times[stage] / static_cast<double>(layers[stage]));
    const auto median = of_layer.begin() + static_cast<std::ptrdiff_t>(of_layer.size() / 2);
    std::nth_element(of_layer.begin(), median, of_layer.end());
    return *median;
}

std::vector<std::int64_t> dealt_out(const std::vector<double>& times,
                                    const std::vector<std::int64_t>& layers) {
    const double layer = time_of_layer(times, layers);
    std::vector<double> own;
    std::int64_t left = -static_cast<std::int64_t>(layers.size());
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
        own.push_back(times[stage] - layer * static_cast<double>(layers[stage]));
        left += layers[stage];
    }
    std::vector<std::int64_t> dealt(layers.size(), 1);  // a chunk without layers is none
    for (; left > 0; --left) {
        std::size_t shortest = 0;
        const auto with_one_more = [&](std::size_t stage) {
            return own[stage] + layer * static_cast<double>(dealt[stage] + 1);
        };
        for (std::size_t stage = 1; stage < dealt.size(); ++stage)
            if (with_one_more(stage) < with_one_more(shortest)) shortest = stage;
        ++dealt[shortest];
    }
    return dealt;
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
    {
        const plan::Plan plan = plan::build_plan(scenario);
        const Machine machine = build_machine(plan, scenario, profile, false);
        times = Chunks(plan, machine).times();
    }
    if (times.size() != now.size()) return std::nullopt;
    const std::vector<std::int64_t> dealt = dealt_out(times, now);
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
