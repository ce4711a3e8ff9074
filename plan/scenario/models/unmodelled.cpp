// What a config.json may say that a plan cannot have. A config.json that other people wrote has
// keys that we do not read; those which would change the computation are refused, the rest are
// carried along.
#include <fmt/format.h>

#include "plan/scenario/models/family.hpp"

namespace orrery::plan {
namespace {

// What a key may hold without changing a dense decoder: nothing at all, null, or one of these.
struct Harmless {
    const char* key;
    std::vector<Json> values;
    const char* what;
};

const std::vector<Harmless>& refused_keys() {
    static const std::vector<Harmless> keys = {
        {"sliding_window", {}, "attention over a sliding window"},
        {"attention_chunk_size", {}, "attention in chunks"},
        {"num_experts", {0, 1}, "mixtures of experts"},
        {"num_local_experts", {0, 1}, "mixtures of experts"},
        {"n_routed_experts", {0, 1}, "mixtures of experts"},
        {"output_router_logits", {false}, "losses that balance experts"},
        {"router_jitter_noise", {0, 0.0}, "noise on what the router reads"},
        {"q_lora_rank", {}, "latent attention"},
        {"kv_lora_rank", {}, "latent attention"},
        {"num_nextn_predict_layers", {0}, "prediction of several tokens"},
        {"quantization_config", {}, "quantised weights"},
        {"partial_rotary_factor", {1, 1.0}, "rotary positions on a part of a head"},
        {"parallel_residual", {false}, "parallel residual branches"},
        {"use_parallel_residual", {false}, "parallel residual branches"},
        {"multi_query", {false}, "multi-query attention in this family"},
        {"add_cross_attention", {false}, "cross attention"},
        {"is_encoder_decoder", {false}, "encoders"},
        {"scale_attn_weights", {true}, "unscaled attention"},
        {"scale_attn_by_inverse_layer_idx", {false}, "attention scaled by layer"},
        {"reorder_and_upcast_attn", {false}, "attention in fp32"},
        {"apply_residual_connection_post_layernorm", {false}, "residuals that start at a norm"},
        {"do_layer_norm_before", {true}, "norms after the residual"},
        {"_remove_final_layer_norm", {false}, "a model without its last norm"},
        {"layer_norm_elementwise_affine", {true}, "norms without weights"},
        {"activation_dropout", {0}, "dropout within the MLP"},
        {"layerdrop", {0}, "layers that are dropped at random"},
        {"final_logit_softcapping", {}, "capped logits"},
        {"attn_logit_softcapping", {}, "capped attention scores"},
        {"use_qk_norm", {false}, "norms of queries and keys"},
        {"qk_layernorm", {false}, "norms of queries and keys"},
        {"clip_qkv", {}, "clipped queries, keys and values"},
    };
    return keys;
}

bool is_harmless(const Harmless& entry, const Json& value) {
    for (const Json& allowed : entry.values)
        if (value == allowed) return true;
    return false;
}

void refuse_layer_types(Reading& reading, const Section& section) {
    const Json* layer_types = section.find("layer_types");
    if (layer_types == nullptr) return;
    bool full = layer_types->is_array();
    if (full) {
        for (const Json& type : *layer_types)
            full = full && type == "full_attention";
    }
    if (full) return;
    reading
        .report("S010", section.pointer("layer_types"),
                "layer_types changes the computation in a way that is not modelled")
        .help.push_back("only \"full_attention\" layers are modelled");
}

}  // namespace

void refuse_unmodelled(Reading& reading, Section& section) {
    for (const Harmless& entry : refused_keys()) {
        if (section.reads(entry.key)) continue;
        section.tolerate(entry.key);
        const Json* value = section.find(entry.key);
        if (value == nullptr || is_harmless(entry, *value)) continue;
        Diagnostic& fault = reading.report(
            "S010", section.pointer(entry.key),
            fmt::format("{} changes the computation in a way that is not modelled", entry.key));
        fault.note = fmt::format("not modelled: {}", entry.what);
        fault.help.push_back("remove the key or set it to null to train the model without it");
    }
    if (section.reads("layer_types")) return;
    section.tolerate("layer_types");
    refuse_layer_types(reading, section);
}

void refuse_other_families(Reading& reading, const Section& section, const Family& family) {
    for (const Family& other : families()) {
        for (const char* key : other.keys) {
            const Json* value = section.find(key);
            if (value == nullptr || section.reads(key) || !reading.good_at(section.pointer(key)))
                continue;
            if (*value == false) continue;  // off, as it is where nobody knows the key
            std::vector<std::string> owners;
            for (const Family& owner : families())
                for (const char* owned : owner.keys)
                    if (std::string_view(owned) == key)
                        owners.push_back(fmt::format("\"{}\"", owner.name));
            reading
                .report("S004", section.pointer(key),
                        fmt::format("{} is not a key of model_type \"{}\"", key, family.name))
                .help.push_back(fmt::format("it is a key of {}; remove it or change model_type",
                                            fmt::join(owners, ", ")));
        }
    }
}

}  // namespace orrery::plan
