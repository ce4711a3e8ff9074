// --set: lines of key=value over a sound scenario.
#include "tests/fuzz/reading.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

void run(std::string_view input) {
    read_checked(kSmallScenario, sets_in(input));
}

std::vector<std::string> seeds() {
    std::vector<std::string> texts = {
        "layout.tensor_parallel=2\nlayout.sequence_parallel=true\n",
        "layout.pipeline_parallel=2\nlayout.layers_per_stage=[1,1]\nlayout.layers_per_stage.1=1\n",
        "model=models/llama3-8b.json\nmodel.num_hidden_layers=4\n",
        "training.framework=megatron-2021\ntraining.framework.flags.launch_us.value=7\n",
        "training.optimizer={\"clip_norm\":0}\ntraining.optimizer.beta1=0.5\n",
        "cluster=clusters/cpu-8.json\ncluster.nodes=3\ncluster.profile=profiles/cpu-core.json\n",
        "layout.data_parallel=auto\nlayout.zero_stage=3\nlayout.recompute=full\n",
        "run.checkpoint.path=x\nrun.checkpoint.every_steps=5\nrun.steps=9\n",
    };
    for (const std::string& set : extreme_sets())
        texts.push_back(set);
    return texts;
}

}  // namespace

const Target kOverrides = {"overrides", 2048, run, seeds};

}  // namespace orrery::fuzz
