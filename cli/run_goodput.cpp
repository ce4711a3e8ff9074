#include "cli/run_goodput.hpp"

#include "sim/cost/profile.hpp"

namespace orrery::cli {
namespace {

// Where a scenario says nothing of failures, what was published of its scale: of runs of many
// thousands of GPUs the one that was counted cause by cause; of smaller ones the cluster whose rate
// is of hardware alone, over all jobs and eleven months.
constexpr std::int64_t kManyGpus = 4096;

// Of the first layout that a run goes on in when it lost a node; 0: the scenario names none.
double degraded_step_s(const ScenarioInput& input, const plan::Scenario& scenario,
                       const std::atomic<bool>* stop) {
    sim::SimulateOptions how;
    how.keep_trace = false;
    how.part_waiting = false;
    how.stop = stop;
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

std::string assumed_reliability(const plan::Scenario& scenario) {
    if (scenario.reliability) return "";
    return scenario.layout.ranks() >= kManyGpus ? "llama3-405b" : "meta-rsc";
}

sim::Goodput run_goodput(const ScenarioInput& input, const plan::Scenario& scenario,
                         const sim::Prediction& prediction, const sim::GoodputOptions& options) {
    return sim::predict_goodput(scenario, prediction,
                                degraded_step_s(input, scenario, options.stop), options);
}

}  // namespace orrery::cli
