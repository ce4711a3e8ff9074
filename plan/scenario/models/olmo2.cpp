// OLMo 2 (OLMo Team 2025, arXiv 2501.00656): a Llama whose norms stand behind the branches and not
// before them, with a norm of all queries together and one of all keys.
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void read_olmo2(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.norm_epsilon = 1e-5;
    read_llama_like(reading, section, usual, model);
    read_silu(section, model);
    model.layer().norm_before = false;
    model.layer().norm_after = true;
    model.attention().qk_norm = QkNorm::width;
    refuse_attention_bias(reading, section);
}

void write_olmo2(const Model& model, Json& out) {
    write_llama_like(model, out);
}

}  // namespace

Family olmo2() {
    return {"olmo2", llama_like_keys(), read_olmo2, write_olmo2};
}

}  // namespace orrery::plan
