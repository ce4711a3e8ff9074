// The model of a Megatron-LM command line: the family "megatron" of scenarios has the same keys.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plan/ops/positions.hpp"
#include "plan/scenario/import/megatron_parts.hpp"

namespace orrery::plan::imports {
namespace {

using Kind = Direct::Kind;

constexpr const char* kSamples = "which samples are read changes no step";

constexpr Direct kSizes[] = {
    {"--num-layers", "model.num_layers", Kind::whole},
    {"--hidden-size", "model.hidden_size", Kind::whole},
    {"--num-attention-heads", "model.num_attention_heads", Kind::whole},
};

constexpr Direct kOthers[] = {
    {"--kv-channels", "model.kv_channels", Kind::whole},
    {"--max-position-embeddings", "model.max_position_embeddings", Kind::whole},
    {"--swiglu", "model.swiglu", Kind::flag, "false"},
    {"--squared-relu", "model.squared_relu", Kind::flag, "false"},
    {"--apply-layernorm-1p", "model.apply_layernorm_1p", Kind::flag, "false"},
    {"--untie-embeddings-and-output-weights", "model.untie_embeddings_and_output_weights",
     Kind::flag, "false"},
    {"--init-method-std", "model.init_method_std", Kind::number, "0.02"},
    {"--hidden-dropout", "model.hidden_dropout", Kind::number, "0.1"},
    {"--attention-dropout", "model.attention_dropout", Kind::number, "0.1"},
};

constexpr Direct kRotary[] = {
    {"--rotary-base", "model.rotary_base", Kind::number, "10000"},
    {"--rotary-percent", "model.rotary_percent", Kind::number, "1"},
};

constexpr const char* kLatent = "--multi-latent-attention";
constexpr Direct kLatents[] = {
    {kLatent, "model.multi_latent_attention", Kind::flag},
    {"--q-lora-rank", "model.q_lora_rank", Kind::whole},
    {"--kv-lora-rank", "model.kv_lora_rank", Kind::whole, "32"},
    {"--qk-head-dim", "model.qk_head_dim", Kind::whole, "128"},
    {"--qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim", Kind::whole, "64"},
    {"--v-head-dim", "model.v_head_dim", Kind::whole, "128"},
};

// What a model that another file brings settles by itself.
constexpr const char* kOfTheModel[] = {"--num-layers",
                                       "--mtp-num-layers",
                                       "--num-experts",
                                       "--hidden-size",
                                       "--num-attention-heads",
                                       "--ffn-hidden-size",
                                       "--kv-channels",
                                       "--group-query-attention",
                                       "--num-query-groups",
                                       "--max-position-embeddings",
                                       "--position-embedding-type",
                                       "--use-rotary-position-embeddings",
                                       "--no-position-embedding",
                                       "--rotary-base",
                                       "--rotary-percent",
                                       "--use-rope-scaling",
                                       "--rope-scaling-factor",
                                       "--normalization",
                                       "--norm-epsilon",
                                       "--layernorm-epsilon",
                                       "--swiglu",
                                       "--squared-relu",
                                       "--apply-layernorm-1p",
                                       "--disable-bias-linear",
                                       "--add-qkv-bias",
                                       "--qk-layernorm",
                                       kLatent,
                                       "--q-lora-rank",
                                       "--kv-lora-rank",
                                       "--qk-head-dim",
                                       "--qk-pos-emb-head-dim",
                                       "--v-head-dim",
                                       "--rotary-scaling-factor",
                                       "--mscale",
                                       "--mscale-all-dim",
                                       "--untie-embeddings-and-output-weights",
                                       "--init-method-std",
                                       "--hidden-dropout",
                                       "--attention-dropout",
                                       "--vocab-size",
                                       "--tokenizer-type"};

void put_or_usual(Sheet& sheet, bool said, const char* to, Json value, const char* from) {
    if (said)
        sheet.put(to, std::move(value), from);
    else
        sheet.put_usual(to, std::move(value), from);
}

void map_sizes(Sheet& sheet, MegatronFacts& facts) {
    for (const Direct& size : kSizes)
        if (sheet.copy(size).is_null() && !sheet.has(size.key))
            sheet.miss(size.to, fmt::format("{} is not given", size.key));
    facts.layers = sheet.whole({"--num-layers"});
    sheet.copy(kOthers);
    const auto hidden = sheet.whole({"--hidden-size"});
    const auto ffn = sheet.whole({"--ffn-hidden-size"});
    if (ffn)
        sheet.put("model.ffn_hidden_size", *ffn, "--ffn-hidden-size");
    else if (hidden && sheet.has("--swiglu"))
        sheet.put_usual("model.ffn_hidden_size", 4 * *hidden * 2 / 3 / 64 * 64, "--ffn-hidden-size",
                        "two thirds of 4 × hidden, in multiples of 64");
    else if (hidden)
        sheet.put_usual("model.ffn_hidden_size", 4 * *hidden, "--ffn-hidden-size");
}

void map_groups(Sheet& sheet) {
    const bool grouped = sheet.flag({"--group-query-attention"});
    const auto groups = sheet.whole({"--num-query-groups"});
    const auto heads = sheet.whole({"--num-attention-heads"});
    if (grouped) {
        sheet.put("model.num_query_groups", groups.value_or(1),
                  "--group-query-attention, --num-query-groups");
        return;
    }
    sheet.ignore("--num-query-groups", "Megatron-LM reads it with --group-query-attention");
    if (heads) sheet.put_usual("model.num_query_groups", *heads, "--group-query-attention");
}

void map_norm(Sheet& sheet) {
    const auto norm = sheet.word({"--normalization"}, {"LayerNorm", "RMSNorm"});
    put_or_usual(sheet, norm.has_value(), "model.normalization", norm.value_or("LayerNorm"),
                 "--normalization");
    if (norm == "RMSNorm" && sheet.flag({"--qk-layernorm"}))
        sheet.put("model.qk_layernorm", true, "--qk-layernorm");
    const auto epsilon = sheet.number({"--norm-epsilon", "--layernorm-epsilon"});
    put_or_usual(sheet, epsilon.has_value(), "model.norm_epsilon", plain(epsilon.value_or(1e-5)),
                 sheet.has("--layernorm-epsilon") ? "--layernorm-epsilon" : "--norm-epsilon");
    const bool none = sheet.flag({"--disable-bias-linear"});
    put_or_usual(sheet, none, "model.add_bias_linear", !none, "--disable-bias-linear");
    const bool qkv = sheet.flag({"--add-qkv-bias"});
    put_or_usual(sheet, qkv, "model.add_qkv_bias", qkv || !none, "--add-qkv-bias");
}

void map_scaling(Sheet& sheet) {
    const auto factor = sheet.number({"--rope-scaling-factor"});
    if (!sheet.flag({"--use-rope-scaling"})) {
        sheet.ignore("--rope-scaling-factor", "Megatron-LM reads it with --use-rope-scaling");
        return;
    }
    // The other constants stand in Megatron-LM's code: those of Llama 3.1.
    sheet.put("model.rope_scaling",
              {{"rope_type", "llama3"},
               {"factor", plain(factor.value_or(8))},
               {"low_freq_factor", 1},
               {"high_freq_factor", 4},
               {"original_max_position_embeddings", 8192}},
              "--use-rope-scaling, --rope-scaling-factor");
}

void map_positions(Sheet& sheet) {
    const auto type =
        sheet.word({"--position-embedding-type"}, {"learned_absolute", "rope", "none"});
    const bool old_rope = sheet.flag({"--use-rotary-position-embeddings"});
    const bool no_table = sheet.flag({"--no-position-embedding"});
    const std::string kind =
        old_rope ? "rope" : type.value_or(no_table ? "none" : "learned_absolute");
    if (kind == "none") {
        for (const char* option : {"--position-embedding-type", "--no-position-embedding"})
            sheet.refuse(option, "models without positions are not modelled", Changes::model);
        return;
    }
    put_or_usual(sheet, type || old_rope, "model.position_embedding_type", kind,
                 old_rope ? "--use-rotary-position-embeddings" : "--position-embedding-type");
    if (kind == "rope") {
        sheet.copy(kRotary);
        map_scaling(sheet);
        return;
    }
    if (!sheet.has("--max-position-embeddings"))
        sheet.miss("model.max_position_embeddings", "--max-position-embeddings is not given");
    for (const char* option :
         {"--use-rope-scaling", "--rope-scaling-factor", "--rotary-base", "--rotary-percent"})
        sheet.ignore(option, "positions are learned");
}

// Positions of latent attention are stretched by YaRN. By --mscale Megatron-LM scales what it turns
// and scores, too; Hugging Face scales these by mscale_all_dim.
void map_latents(Sheet& sheet) {
    if (!sheet.flag({kLatent})) return;
    sheet.copy(kLatents);
    const double factor = sheet.number({"--rotary-scaling-factor"}).value_or(1);
    const double scale = sheet.number({"--mscale"}).value_or(1);
    const double all = sheet.number({"--mscale-all-dim"}).value_or(0);
    if (factor <= 1) return;
    sheet.put("model.rope_scaling",
              {{"rope_type", "yarn"},
               {"factor", plain(factor)},
               {"original_max_position_embeddings", 4096},
               {"attention_factor", yarn_scale(scale, factor) / yarn_scale(all, factor)},
               {"mscale_all_dim", plain(scale)}},
              "--rotary-scaling-factor, --mscale, --mscale-all-dim");
}

void map_vocabulary(Sheet& sheet) {
    const auto tokenizer = sheet.text({"--tokenizer-type"});
    sheet.ignore("--tokenizer-type", kSamples);
    if (const auto size = sheet.whole({"--vocab-size"})) {
        // NullTokenizer adds a token that ends documents.
        const bool one_more = tokenizer == "NullTokenizer";
        sheet.put("model.vocab_size", *size + (one_more ? 1 : 0), "--vocab-size",
                  one_more ? "NullTokenizer adds the end of a document" : "");
    } else if (!sheet.has("--vocab-size")) {
        sheet.miss("model.vocab_size", fmt::format("{} reads it from its files",
                                                   tokenizer ? *tokenizer : "the tokenizer"));
    }
}

void map_further_tokens(Sheet& sheet, bool of_another_file, MegatronFacts& facts) {
    constexpr const char* kLayers = "--mtp-num-layers";
    constexpr const char* kFactor = "--mtp-loss-scaling-factor";
    facts.mtp_layers = sheet.whole({kLayers}).value_or(0);
    if (facts.mtp_layers == 0) {
        sheet.ignore(kLayers, "no further token is predicted");
        sheet.ignore(kFactor, fmt::format("Megatron-LM reads it with {}", kLayers));
        return;
    }
    if (!of_another_file) sheet.put("model.mtp_num_layers", facts.mtp_layers, kLayers);
    sheet.copy({kFactor, "training.mtp_loss_scaling_factor", Direct::Kind::number});
}

void refer(Sheet& sheet, const std::string& model, MegatronFacts& facts) {
    sheet.put("model", model, "--model");
    facts.layers = sheet.whole({"--num-layers"});
    sheet.state("--num-layers", "layers");
    sheet.state("--hidden-size", "hidden");
    sheet.state("--num-attention-heads", "heads");
    sheet.state("--ffn-hidden-size", "ffn_hidden");
    for (const char* option : kOfTheModel)
        sheet.ignore(option, "the model is " + model);
}

}  // namespace

bool is_of_megatron_model(const std::string& option) {
    return std::find(std::begin(kOfTheModel), std::end(kOfTheModel), option) !=
           std::end(kOfTheModel);
}

void map_megatron_model(Sheet& sheet, const Wishes& wishes, MegatronFacts& facts) {
    map_further_tokens(sheet, !wishes.model.empty(), facts);
    if (!wishes.model.empty()) {
        refer(sheet, wishes.model, facts);
        return;
    }
    sheet.put_usual("model.model_type", "megatron", "Megatron-LM");
    map_sizes(sheet, facts);
    map_groups(sheet);
    map_norm(sheet);
    map_positions(sheet);
    map_latents(sheet);
    map_vocabulary(sheet);
}

}  // namespace orrery::plan::imports
