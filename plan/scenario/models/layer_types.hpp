// Layers of two kinds: some see a sliding window of tokens, some all of them. Internal to
// plan/scenario/models.
#pragma once

#include "plan/scenario/models/keys.hpp"

namespace orrery::plan {

constexpr std::int32_t kFullKind = 0, kSlidingKind = 1;
constexpr const char* kFullWord = "full_attention";
constexpr const char* kSlidingWord = "sliding_attention";

// Names the first kind "full", and adds one like it, "sliding", that sees a window.
void add_sliding_kind(Model& model, std::int64_t window);

// The key "layer_types" has a word for each layer, "full_attention" or "sliding_attention"; where
// it is absent, every `usual_period`-th layer is a full one and the others slide (0: all are full).
// Sets which kind each layer is; both have to be there. Reported where the words are others, or not
// as many as the layers.
void read_layer_types(Reading& reading, Section& section, Model& model, std::int64_t usual_period);
// layer_types, and sliding_window, null where there is none. What may be null is written last: a
// resolved text has it there when it is read again, too.
void write_sliding_layers(const Model& model, Json& out);

// Qwen's: layers from max_window_layers on see sliding_window where use_sliding_window.
void read_qwen_windows(Reading& reading, Section& section, Model& model);
void write_qwen_windows(const Model& model, Json& out);

}  // namespace orrery::plan
