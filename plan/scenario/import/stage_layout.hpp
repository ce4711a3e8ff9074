// Megatron-LM's --pipeline-model-parallel-layout: what each stage of a pipeline holds, a letter a
// layer (megatron/core/transformer/pipeline_parallel_layer_layout.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace orrery::plan::imports {

struct StageLayout {
    std::vector<std::int64_t> layers;  // of each stage, in the order of the pipeline
    std::int64_t mtp_layers = 0;       // all of them on the last stage
};

// "Et*3|(tt|)*29t|mL": the embedding with three layers, 29 stages of two, one of one, and the last
// with multi-token prediction and the loss. Nothing where it is no such text, or has the embedding
// elsewhere than first, or multi-token prediction or the loss elsewhere than last.
std::optional<StageLayout> read_stage_layout(std::string_view text);

}  // namespace orrery::plan::imports
