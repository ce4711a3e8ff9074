// A scenario that the reader accepts has a plan, its plan runs to the end, and the accounts of the
// step add up: lines of key=value over a sound scenario, as far as the result is small.
#include <algorithm>

#include "plan/assemble/build_plan.hpp"
#include "plan/check.hpp"
#include "plan/text/text.hpp"
#include "sim/prediction.hpp"
#include "tests/fuzz/memory_files.hpp"
#include "tests/fuzz/reading.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

// For speed alone: the reader refuses what is too large to be counted.
bool quick(const plan::Scenario& scenario) {
    const plan::Layout& layout = scenario.layout;
    return layout.ranks() <= 4096 && layout.pipeline_parallel <= 32 &&
           (scenario.model.layers + layout.stages()) * layout.micro_batches() <= 256;
}

void run(std::string_view input) {
    const plan::ReadResult read = read_checked(kSmallScenario, sets_in(input));
    if (!read.scenario || !quick(*read.scenario)) return;
    const plan::Plan plan = plan::build_plan(*read.scenario);
    const plan::ParsedPlan parsed = plan::parse_plan(plan::to_text(plan));
    ORRERY_CHECK(parsed.plan.has_value(), parsed.error);
    ORRERY_CHECK(*parsed.plan == plan, "the plan's text reads to another plan");

    const sim::Profile& profile = shipped_profiles(read.scenario->cluster);
    try {
        const sim::Prediction prediction = sim::simulate(*read.scenario, profile, {}, "");
        ORRERY_CHECK(prediction.stuck.empty(), prediction.stuck);
        double sum = 0;
        for (const double account : prediction.step.breakdown_s) {
            ORRERY_CHECK(account >= 0, "a negative account");
            sum += account;
        }
        const double time = prediction.step.time_s;
        ORRERY_CHECK(time > 0 && sum >= time * (1 - 1e-12) && sum <= time * (1 + 1e-12),
                     "the accounts do not sum to the step");
    } catch (const plan::ScenarioError&) {
        // The device cannot do what is asked for, or not in a time that a step may take …
    } catch (const sim::ProfileError&) {
        // … or its profile has no figures for it, and the message says so.
    }
}

std::vector<std::string> seeds() {
    std::vector<std::string> texts = {
        "layout.tensor_parallel=2\nlayout.sequence_parallel=true\nlayout.recompute=selective\n",
        "layout.pipeline_parallel=2\nlayout.zero_stage=2\n",
        "layout.pipeline_parallel=2\nlayout.schedule=gpipe\nlayout.zero_stage=1\n",
        "model.n_layer=4\nlayout.pipeline_parallel=2\nlayout.virtual_pipeline=2\n"
        "layout.schedule=interleaved\n",
        "layout.zero_stage=3\nlayout.recompute=full\nlayout.micro_batch_size=2\n",
        "model=models/llama3-8b.json\nmodel.num_hidden_layers=2\nmodel.hidden_size=64\n"
        "model.intermediate_size=128\nlayout.tensor_parallel=2\n",
        "training.framework=megatron-2021\nlayout.tensor_parallel=4\n",
        "training.precision=fp32\ntraining.attention_kernel=unfused\ncluster.devices_per_node=3\n"
        "layout.data_parallel=4\n",
    };
    for (const std::string& set : extreme_sets())
        texts.push_back(set);
    return texts;
}

}  // namespace

const Target kPrediction = {"prediction", 1024, run, seeds};

}  // namespace orrery::fuzz
