#include "cli/run_goodput.hpp"

#include "sim/cost/profile.hpp"

namespace orrery::cli {
namespace {

// Of the first layout that a run goes on in when it lost a node; 0: the scenario names none.
double degraded_step_s(const ScenarioInput& input, const plan::Scenario& scenario) {
    sim::SimulateOptions how;
    how.keep_trace = false;
    how.part_waiting = false;
    for (const plan::ElasticLayout& layout : scenario.run.elastic_layouts) {
        const auto fewer = input.read_with(layout.sets);
        if (!fewer) continue;
        const sim::Prediction prediction =
            sim::simulate(*fewer, sim::load_profiles(fewer->cluster), how, "");
        if (prediction.stuck.empty()) return prediction.step.time_s;
    }
    return 0;
}

}  // namespace

sim::Goodput run_goodput(const ScenarioInput& input, const plan::Scenario& scenario,
                         const sim::Prediction& prediction, const sim::GoodputOptions& options) {
    return sim::predict_goodput(scenario, prediction, degraded_step_s(input, scenario), options);
}

}  // namespace orrery::cli
