// Small mixtures of experts and the layouts that they are trained in.
#pragma once

#include <string>
#include <vector>

#include "tests/parity/layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {

// How experts are spread, beside what the settings of a layout say.
struct ExpertLayout {
    std::string name;
    Sets sets;
    std::int64_t spread = 1;  // expert_parallel
    std::int64_t split = 1;   // expert_tensor_parallel
};

// Eight experts of which two are chosen.
inline plan::ExpertMlp some_experts() {
    plan::ExpertMlp mlp;
    mlp.routing.experts = 8;
    mlp.routing.chosen = 2;
    mlp.routing.normalizes = true;
    mlp.expert.ffn_hidden = 32;
    mlp.expert.activation = plan::Activation::swiglu;
    mlp.expert.bias = false;
    return mlp;
}

// A Llama whose layers are of experts. There is room for every row.
inline plan::Scenario expert_scenario(const plan::ExpertMlp& mlp, const ExpertLayout& layout) {
    plan::Scenario made = scenario(kLlama, layout.sets);
    for (plan::LayerSpec& kind : made.model.kinds)
        kind.mlp = mlp;
    made.layout.expert_parallel = layout.spread;
    made.layout.expert_tensor_parallel = layout.split;
    made.layout.expert_row_bound = static_cast<double>(mlp.routing.experts);
    return made;
}

inline std::vector<ExpertLayout> expert_layouts() {
    std::vector<ExpertLayout> all;
    auto add = [&](const std::string& name, const std::vector<std::string>& keys,
                   std::int64_t spread = 1, std::int64_t split = 1) {
        all.push_back({name, layout(name, keys).sets, spread, split});
    };
    const std::string tp2 = "tensor_parallel=2", tp4 = "tensor_parallel=4",
                      sp = "sequence_parallel=true", dp2 = "data_parallel=2",
                      dp4 = "data_parallel=4", dp8 = "data_parallel=8", pp2 = "pipeline_parallel=2",
                      c2 = "context_parallel=2", mb2 = "micro_batch_size=2";
    auto zero = [](int stage) { return "zero_stage=" + std::to_string(stage); };
    add("data_2", {dp2});
    add("pipeline_2", {pp2});
    add("sequence_2", {tp2, sp});
    add("context_2", {c2});
    add("micro_batch_2", {mb2});
    add("spread_2", {dp2}, 2);
    add("spread_4", {dp4}, 4);
    add("spread_8", {dp8}, 8);
    add("spread_2_data_2", {dp4}, 2);
    add("spread_2_data_4", {dp8}, 2);
    add("spread_4_data_2", {dp8}, 4);
    add("spread_2_samples", {dp2, mb2}, 2);
    add("split_2", {dp2}, 1, 2);
    add("split_4", {dp4}, 1, 4);
    add("spread_2_split_2", {dp4}, 2, 2);
    add("spread_2_split_2_data_2", {dp8}, 2, 2);
    add("spread_4_split_2", {dp8}, 4, 2);
    add("spread_2_split_4", {dp8}, 2, 4);
    add("spread_2_tensor", {tp2, sp}, 2);
    add("split_2_tensor", {tp2, sp}, 1, 2);
    add("spread_4_tensor", {tp4, sp}, 4);
    add("spread_2_split_2_tensor", {tp4, sp}, 2, 2);
    add("spread_2_tensor_data", {tp2, sp, dp2}, 2);
    add("spread_4_tensor_data", {tp2, sp, dp2}, 4);
    add("spread_8_tensor_data", {tp2, sp, dp4}, 8);
    add("spread_2_split_2_tensor_data", {tp2, sp, dp2}, 2, 2);
    add("spread_2_context", {c2}, 2);
    add("spread_4_context_data", {c2, dp2}, 4);
    add("split_2_context", {c2}, 1, 2);
    add("spread_4_gathered", {"context_parallel=4", "context_algorithm=all_gather"}, 4);
    add("spread_2_exchanged", {c2, "context_algorithm=all_to_all", mb2}, 2);
    add("spread_8_tensor_context_data", {tp2, sp, c2, dp2}, 8);
    add("spread_2_pipeline", {pp2, dp2}, 2);
    add("spread_4_pipeline", {pp2, dp4}, 4);
    add("spread_2_gpipe", {pp2, dp2, "schedule=gpipe"}, 2);
    add("spread_2_interleaved", {pp2, dp2, "virtual_pipeline=2", "schedule=interleaved"}, 2);
    add("spread_2_zb_h1", {pp2, dp2, "schedule=zb-h1"}, 2);
    add("spread_2_zb_v", {pp2, dp2, "virtual_pipeline=2", "schedule=zb-v"}, 2);
    add("spread_2_tensor_pipeline", {pp2, tp2, sp}, 2);
    add("spread_4_tensor_pipeline_data", {pp2, tp2, sp, dp2}, 4);
    for (int stage = 1; stage <= 3; ++stage) {
        const std::string s = "zero" + std::to_string(stage);
        add(s + "_data_2", {dp2, zero(stage)});
        add(s + "_spread_2", {dp2, zero(stage)}, 2);
        add(s + "_spread_2_data_2", {dp4, zero(stage)}, 2);
        add(s + "_spread_2_split_2_data_2", {dp8, zero(stage)}, 2, 2);
        add(s + "_spread_4_tensor_data", {tp2, sp, dp4, zero(stage)}, 4);
        add(s + "_spread_2_pipeline", {pp2, dp4, zero(stage)}, 2);
    }
    add("late_spread_2_data_2", {dp4, "training.overlap_gradient_reduce=false"}, 2);
    add("small_buckets_spread_2_data_2", {dp4, zero(1), "training.gradient_bucket_mb=0.02"}, 2);
    add("recompute_full_spread_2", {dp2, "recompute=full"}, 2);
    add("recompute_full_sequence_spread_2_zero2", {tp2, sp, dp2, zero(2), "recompute=full"}, 2);
    add("recompute_every_2_spread_2", {dp2, "recompute=every_k", "recompute_every=2"}, 2);
    return all;
}

}  // namespace orrery::parity
