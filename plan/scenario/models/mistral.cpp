// Mistral (Jiang et al. 2023): a Llama with grouped queries whose attention sees a sliding window
// unless that is null.
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void read_mistral(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 8;
    read_llama_like(reading, section, usual, model);
    read_silu(section, model);
    model.attention().window = is_null(reading, "sliding_window") ? 0 : 4096;
    section.integer("sliding_window", model.attention().window, {}, Presence::optional,
                    "attention_window");
}

void write_mistral(const Model& model, Json& out) {
    write_llama_like(model, out);
    out["sliding_window"] =
        model.attention().window > 0 ? Json(model.attention().window) : Json(nullptr);
}

}  // namespace

Family mistral() {
    return {"mistral", llama_like_keys(), read_mistral, write_mistral};
}

}  // namespace orrery::plan
