// Phi-3 and Phi-4 (Abdin et al. 2024, arXiv 2404.14219): a Llama whose checkpoints hold queries,
// keys and values in one matrix, gate and up in another; a window where sliding_window is not null,
// and rotary positions on a part of each head.
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

constexpr RotaryKeys kPartial = {"rope_theta", "partial_rotary_factor", 1};

void read_phi3(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.norm_epsilon = 1e-5;
    usual.rotary = kPartial;
    read_llama_like(reading, section, usual, model);
    read_silu(section, model);
    section.number("resid_pdrop", model.hidden_dropout, kProbability);
    double embedding = 0;  // Hugging Face's modeling code has no such dropout
    section.number("embd_pdrop", embedding, kProbability);
    section.integer("sliding_window", model.attention().window, {}, Presence::optional,
                    "attention_window");
}

void write_phi3(const Model& model, Json& out) {
    write_llama_like(model, out, kPartial);
    out["resid_pdrop"] = plain(model.hidden_dropout);
    if (model.attention().window > 0) out["sliding_window"] = model.attention().window;
}

}  // namespace

Family phi3() {
    std::vector<const char*> keys = llama_like_keys();
    keys.push_back("partial_rotary_factor");
    return {"phi3", std::move(keys), read_phi3, write_phi3};
}

}  // namespace orrery::plan
