// What the configs of Gemma 1, 2 and 3 share beyond those of Llama. Internal to
// plan/scenario/models.
#pragma once

#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {

// GeGLU, norms that multiply by 1 + weight, a scaled look-up.
void read_gemma_like(Section& section, Model& model);

// Of Gemma 2 and 3: norms before and behind both branches, and scores divided by the root of
// query_pre_attn_scalar.
void read_gemma_norms(Reading& reading, Section& section, Model& model);

// Soft caps of scores and logits, by default these; null: none.
void read_soft_caps(Reading& reading, Section& section, Model& model, double of_scores,
                    double of_logits);
void write_soft_caps(const Model& model, Json& out);

// A key of a window, 4096 by default; null: none. Read before kinds of layers are told apart.
std::int64_t read_window(Reading& reading, Section& section);

}  // namespace orrery::plan
