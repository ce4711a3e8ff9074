// Llama 4 (Meta 2025; Hugging Face's modeling_llama4.py): layers that see chunks of the sequence
// and turn positions, and every fourth without either; mixtures of experts that read weighed rows,
// beside an MLP that every token goes through. A pair of elements that positions turn is one of
// either half of a head here, and two neighbours in published weights.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/models/experts.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

constexpr ExpertKeys kLlama4Keys = {"num_local_experts", "num_experts_per_tok", 16, 1};
constexpr std::int32_t kChunkedKind = 0, kWholeKind = 1;

// Of queries of layers without rotary positions.
void read_temperature(Section& section, SoftmaxAttention& attention) {
    constexpr const char* kTuned = "attn_temperature_tuning";
    std::int64_t floor = 8192;
    double scale = 0.1;
    section.integer("floor_scale", floor, {1, kLargestCount});
    section.number("attn_scale", scale, kPositive);
    section.known(kTuned);
    const Json* tuned = section.find(kTuned);
    const bool off = tuned != nullptr && (*tuned == false || *tuned == 0 || tuned->is_null());
    if (off) return;
    attention.temper_floor = floor;
    attention.temper_scale = scale;
}

// 1: positions are turned. An empty list is what Hugging Face writes for every fourth 0.
void read_turned_layers(Reading& reading, Section& section, Model& model) {
    constexpr const char* kTurned = "no_rope_layers";
    std::int64_t period = 4;
    section.integer("no_rope_layer_interval", period, {1, kMostLayers});
    section.known(kTurned);
    section.known("layer_types");
    if (!reading.good({"model.layers"}) || !section.good("no_rope_layer_interval")) return;
    const Json* turned = section.find(kTurned);
    const bool listed = turned != nullptr && turned->is_array() && !turned->empty();
    if (listed && static_cast<std::int64_t>(turned->size()) != model.layers) {
        reading
            .report("S011", section.pointer(kTurned),
                    "no_rope_layers needs a number for each layer")
            .arithmetic = fmt::format("{} numbers, {} = {}", turned->size(),
                                      reading.shown("model.layers"), model.layers);
        return;
    }
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        const bool turns =
            listed ? (*turned)[static_cast<std::size_t>(layer)] != 0 : (layer + 1) % period != 0;
        model.kind_of_layer.push_back(turns ? kChunkedKind : kWholeKind);
    }
}

std::vector<bool> read_moe_layers(Reading& reading, Section& section, const Model& model) {
    constexpr const char* kLayers = "moe_layers";
    std::int64_t step = 1;
    section.integer("interleave_moe_layer_step", step, {1, kMostLayers});
    section.known(kLayers);
    if (!reading.good({"model.layers"}) || !section.good("interleave_moe_layer_step")) return {};
    std::vector<bool> dense(static_cast<std::size_t>(model.layers), true);
    const Json* layers = section.find(kLayers);
    if (layers == nullptr || layers->is_null()) {
        for (std::int64_t layer = step - 1; layer < model.layers; layer += step)
            dense[static_cast<std::size_t>(layer)] = false;
        return dense;
    }
    for (const Json& layer : *layers) {
        if (!layers->is_array() || !layer.is_number_integer() || layer < 0 ||
            layer >= model.layers) {
            reading
                .report("S011", section.pointer(kLayers),
                        "moe_layers names layers by their number, from 0 on")
                .arithmetic = fmt::format("{}, {} = {}", layer.dump(),
                                          reading.shown("model.layers"), model.layers);
            break;
        }
        dense[layer.get<std::size_t>()] = false;
    }
    return dense;
}

void read_llama4(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 8;
    usual.head_dim = 128;
    usual.rope_theta = 500000;
    usual.norm_epsilon = 1e-5;
    read_llama_like(reading, section, usual, model);
    refuse_attention_bias(reading, section);
    read_silu(section, model);
    SoftmaxAttention& turned = model.attention();
    turned.chunk = is_null(reading, "attention_chunk_size") ? 0 : 8192;
    section.integer("attention_chunk_size", turned.chunk, {1, kLargestCount}, Presence::optional,
                    "attention_chunk");
    bool normed = true;
    section.boolean("use_qk_norm", normed);
    if (normed) turned.qk_norm = QkNorm::unweighted;
    model.kinds.front().name = "chunked";
    model.kinds.push_back(model.kinds.front());
    model.kinds.back().name = "full";
    SoftmaxAttention& whole = model.kinds.back().attention();
    whole.chunk = whole.rotary_dim = 0;
    whole.qk_norm = QkNorm::none;
    read_temperature(section, whole);
    read_turned_layers(reading, section, model);

    ExpertMlp experts;
    experts.expert = model.mlp();
    experts.shared_ffn = experts.expert.ffn_hidden;
    experts.weighs_inputs = true;
    experts.routing.score = RouterScore::sigmoid;
    read_routing(reading, section, kLlama4Keys, experts.routing);
    std::int64_t dense_width = 16384;
    section.integer("intermediate_size_mlp", dense_width, {1, kMostFfn});
    for (LayerSpec& kind : model.kinds)
        kind.dense().ffn_hidden = dense_width;
    const std::vector<bool> dense = read_moe_layers(reading, section, model);
    if (reading.good({"model.layers"}) && experts.routing.experts > 0 && !dense.empty() &&
        static_cast<std::int64_t>(model.kind_of_layer.size()) == model.layers)
        set_experts(model, experts, dense);
}

void write_llama4(const Model& model, Json& out) {
    write_llama_like(model, out);
    Json turned = Json::array(), mixed = Json::array();
    const SoftmaxAttention* chunked = nullptr;
    const SoftmaxAttention* whole = nullptr;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        const LayerSpec& kind = model.kinds[model.kind_of(layer)];
        const bool turns = kind.attention().rotary_dim > 0;
        (turns ? chunked : whole) = &kind.attention();
        turned.push_back(turns ? 1 : 0);
        if (kind.experts() != nullptr) mixed.push_back(layer);
    }
    out["no_rope_layers"] = std::move(turned);
    out["moe_layers"] = std::move(mixed);
    const ExpertMlp* experts = model.experts();
    write_routing(experts != nullptr ? experts->routing : Routing{0, 1}, kLlama4Keys, out);
    if (const std::int64_t width = out.value("intermediate_size", std::int64_t{0}); width > 0)
        out["intermediate_size_mlp"] = width;
    if (experts != nullptr) out["intermediate_size"] = experts->expert.ffn_hidden;
    if (whole != nullptr) {
        out["attn_temperature_tuning"] = whole->temper_floor > 0;
        if (whole->temper_floor > 0) {
            out["floor_scale"] = whole->temper_floor;
            out["attn_scale"] = plain(whole->temper_scale);
        }
    }
    if (chunked == nullptr) return;
    out["use_qk_norm"] = chunked->qk_norm == QkNorm::unweighted;
    out.erase("attention_chunk_size");
    out["attention_chunk_size"] = chunked->chunk > 0 ? Json(chunked->chunk) : Json(nullptr);
}

}  // namespace

Family llama4() {
    std::vector<const char*> keys = llama_like_keys();
    keys.insert(keys.end(), {"num_local_experts", "intermediate_size_mlp", "no_rope_layers",
                             "attention_chunk_size", "interleave_moe_layer_step", "moe_layers"});
    return {"llama4_text", std::move(keys), read_llama4, write_llama4};
}

}  // namespace orrery::plan
