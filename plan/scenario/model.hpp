// A decoder by what it computes: what stands before its layers, the layers, what stands behind
// them. It is read from its family's Hugging Face config.json (the families are in
// plan/scenario/models); whoever builds or prices it asks for these features, never for the family.
// The values here are those of GPT-2.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "plan/ops/experts.hpp"
#include "plan/ops/positions.hpp"

namespace orrery::plan {

enum class Norm : std::uint8_t { layer_norm, rms_norm };
enum class Activation : std::uint8_t { gelu, relu, squared_relu, swiglu, geglu, clamped_swiglu };
// tanh: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), an approximation; erf: x·Φ(x) (Hendrycks and
// Gimpel 2016, arXiv 1606.08415).
enum class Gelu : std::uint8_t { tanh, erf };
// What is normed of queries and keys: nothing; each head by itself, with one weight for all heads
// (Dehghani et al. 2023, arXiv 2302.05442; Qwen3, Gemma 3); all heads together (OLMo 2, arXiv
// 2501.00656); each head without a weight (Llama 4). Before positions turn them, by RMSNorm.
enum class QkNorm : std::uint8_t { none, heads, width, unweighted };

// Narrow rows that queries, and keys with values, are products of (DeepSeek-AI 2024, arXiv
// 2405.04434, section 2.1). Of a head's queries and keys the last rotary_dim elements are turned by
// positions, and come of the layer's input at once, those of keys for all heads together.
struct Latents {
    std::int64_t q_rank = 0;   // width of those of queries; 0: these are a product with the input
    std::int64_t kv_rank = 0;  // of those of keys and values; 0: there are no latents
    bool interleaved = true;   // a turned pair is two neighbours, not one of either half

    bool on() const { return kv_rank > 0; }
    bool operator==(const Latents&) const = default;
};

// softmax(scale·Q·Kᵀ)·V over the keys before a query and its own.
struct SoftmaxAttention {
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t value_dim = 0;  // of a head's values; 0: head_dim
    Latents latents;
    std::int64_t window = 0;  // tokens that a query sees, its own with them; 0: all
    std::int64_t chunk = 0;   // … of the chunk of so many tokens that it is in; 0: no chunks
    // Queries grow with their position, once in so many (plan/ops/heads.hpp); 0: they do not.
    std::int64_t temper_floor = 0;
    double temper_scale = 0;
    std::int64_t rotary_dim = 0;  // elements of each head that rotary positions turn; 0: none
    double rope_theta = 10000;    // base of the rotary frequencies
    RopeScaling rope_scaling;
    bool alibi = false;
    bool scaled_alibi =
        false;  // it is added before the scores are multiplied by scale(), not after
    bool qkv_bias = true;
    bool projection_bias = true;
    QkNorm qk_norm = QkNorm::none;
    double query_scalar = 0;  // scores are divided by its root; 0: by that of head_dim
    double soft_cap = 0;      // scores become soft_cap·tanh(score ÷ soft_cap); 0: stay
    bool sinks = false;       // each head has a score that counts in the softmax and has no value
    double dropout = 0.0;     // on probabilities

    std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
    // Elements of all heads' queries, of packed rows, and of what comes of attention.
    std::int64_t q_width() const { return heads * head_dim; }
    std::int64_t qkv_width() const { return q_width() + kv_heads * (head_dim + values()); }
    std::int64_t context_width() const { return heads * values(); }

    // Of scores, what stretched positions multiply queries and keys by included, where that is all
    // of their elements.
    double scale() const {
        const RopeScaling& stretched = rope_scaling;
        const double root = latents.on() ? yarn_scale(stretched.mscale_all_dim, stretched.factor)
                                         : stretched.attention_factor;
        return root * root /
               std::sqrt(query_scalar > 0 ? query_scalar : static_cast<double>(head_dim));
    }
    // What ALiBi's slopes are multiplied by before they are added to scaled scores.
    double alibi_factor() const {
        if (!alibi) return 0;
        return scaled_alibi ? scale() : 1;
    }
    bool operator==(const SoftmaxAttention&) const = default;
};

struct DenseMlp {
    std::int64_t ffn_hidden = 0;
    Activation activation = Activation::gelu;
    Gelu gelu = Gelu::tanh;  // where the activation has one
    double limit = 0;        // of a clamped SwiGLU: of what it reads
    bool bias = true;

    bool gated() const {
        return activation == Activation::swiglu || activation == Activation::geglu ||
               activation == Activation::clamped_swiglu;
    }
    bool operator==(const DenseMlp&) const = default;
};

// A mixture of experts, each a gated MLP of its own, and one that every token goes through (Dai et
// al. 2024, arXiv 2401.06066).
struct ExpertMlp {
    Routing routing;
    DenseMlp expert;              // of each
    std::int64_t shared_ffn = 0;  // width of what every token goes through; 0: none
    bool shared_gate = false;     // it is multiplied by a sigmoid of a product with the token
    bool router_bias = false;     // the router's product has one, which gradients step
    bool weighs_inputs = false;   // rows are multiplied by their weights before an expert reads
                                  // them, and not what comes of them

    bool operator==(const ExpertMlp&) const = default;
};

// What mixes tokens, and what then works on each of them: a further kind is a further alternative.
using Mixer = std::variant<SoftmaxAttention>;
using Mlp = std::variant<DenseMlp, ExpertMlp>;

// One kind of layer: x + mixer(x), then x + mlp(x), each between the norms that it has.
struct LayerSpec {
    std::string name;  // "sliding", where a model has several kinds
    Mixer mixer;
    Mlp mlp;
    bool norm_before = true;      // of what a branch reads …
    bool norm_after = false;      // … and of what it adds to the residual
    bool parallel_block = false;  // both branches read the layer's input, and one residual adds
                                  // both; else the MLP reads what the mixer has made
    bool shared_norm = false;     // in a parallel block: one norm for both branches

    const SoftmaxAttention& attention() const { return std::get<SoftmaxAttention>(mixer); }
    SoftmaxAttention& attention() { return std::get<SoftmaxAttention>(mixer); }
    const DenseMlp& dense() const { return std::get<DenseMlp>(mlp); }
    DenseMlp& dense() { return std::get<DenseMlp>(mlp); }
    const ExpertMlp* experts() const { return std::get_if<ExpertMlp>(&mlp); }

    int norms() const {
        if (parallel_block && shared_norm) return 1;
        return (norm_before ? 2 : 0) + (norm_after ? 2 : 0);
    }
    bool operator==(const LayerSpec&) const = default;
};

struct Model {
    std::string family = "gpt2";  // model_type of its config.json
    std::string name;
    std::int64_t hidden = 0;
    std::int64_t layers = 0;
    std::int64_t vocabulary = 0;  // true vocabulary, unpadded

    // Each kind of layer once, and which of them each layer is; empty: all are the first.
    std::vector<LayerSpec> kinds{LayerSpec{}};
    std::vector<std::int32_t> kind_of_layer;

    // Layers behind the last one that predict a further token each from what came of the one before
    // and from the next token (multi-token prediction: DeepSeek-AI 2024, arXiv 2412.19437, section
    // 2.2), and which kind they are of. They share the embedding and the head.
    std::int64_t mtp_layers = 0;
    std::int32_t mtp_kind = 0;

    Norm norm = Norm::layer_norm;  // of all layers and of the last norm
    double norm_epsilon = 1e-5;
    double norm_weight_offset =
        0;  // a norm multiplies by this + its weight, which starts at 1 − this

    bool learned_positions = true;
    std::int64_t max_positions = 0;    // longest sequence, where positions are learned
    std::int64_t position_offset = 0;  // rows of the position table before the first position
    bool embedding_norm = false;       // a norm between the embedding and the first layer
    bool tied_embeddings = true;
    bool embedding_dropout = true;    // hidden_dropout also follows the learned positions
    double embedding_scale = 1;       // of what the embedding looks up, before positions; see
                                      // embedding_scale()
    double hidden_dropout = 0.0;      // on what the residual adds
    double logit_soft_cap = 0;        // logits become cap·tanh(logit ÷ cap); 0: stay
    double initializer_range = 0.02;  // standard deviation of the normal that weights start from

    // The first kind: that of all layers, where they are alike; of sizes that all kinds share.
    const LayerSpec& layer() const { return kinds.front(); }
    LayerSpec& layer() { return kinds.front(); }
    const SoftmaxAttention& attention() const { return layer().attention(); }
    SoftmaxAttention& attention() { return layer().attention(); }
    const DenseMlp& mlp() const { return layer().dense(); }
    DenseMlp& mlp() { return layer().dense(); }

    bool has_experts() const {
        for (const LayerSpec& kind : kinds)
            if (kind.experts() != nullptr) return true;
        return false;
    }
    // Layers count on where further tokens are predicted.
    std::size_t kind_of(std::int64_t layer) const {
        if (layer >= layers) return static_cast<std::size_t>(mtp_kind);
        return kind_of_layer.empty()
                   ? 0
                   : static_cast<std::size_t>(kind_of_layer[static_cast<std::size_t>(layer)]);
    }
    // How many layers are of a kind, those that predict further tokens included.
    std::int64_t layers_of(std::size_t kind) const {
        std::int64_t count = static_cast<std::size_t>(mtp_kind) == kind ? mtp_layers : 0;
        if (kind_of_layer.empty()) return count + (kind == 0 ? layers : 0);
        for (const std::int32_t of : kind_of_layer)
            count += static_cast<std::size_t>(of) == kind ? 1 : 0;
        return count;
    }

    // Of the first kind of layers that are mixtures of experts; null: none is.
    const ExpertMlp* experts() const {
        for (const LayerSpec& kind : kinds)
            if (kind.experts() != nullptr) return kind.experts();
        return nullptr;
    }

    bool layer_norm() const { return norm == Norm::layer_norm; }
    // The last stage needs the table of the first: its head is the same matrix, or it embeds what
    // further tokens are predicted from.
    bool embeds_at_both_ends() const { return tied_embeddings || mtp_layers > 0; }
    std::int64_t position_rows() const {
        return learned_positions ? max_positions + position_offset : 0;
    }

    bool operator==(const Model&) const = default;
};

}  // namespace orrery::plan
