// Attention, and what it is made of where it is not fused. Heads are those that the op sees, of
// this rank; keys of a query are those before it and its own.
#pragma once

#include <algorithm>

#include "plan/ops/op_family.hpp"
#include "plan/ops/positions.hpp"

namespace orrery::plan {

// What is dropped, and by which random numbers: those of a place in its layer, by the step and the
// element. Rate 0: nothing.
struct Drop {
    double rate = 0;
    std::int64_t place = 0;  // 1 attention's probabilities, 2 the first residual, 3 the second

    template <typename V>
    static void fields(V&& v) {
        v.number("drop_rate", &Drop::rate);
        v.number("drop_place", &Drop::place);
    }
    bool operator==(const Drop&) const = default;
};
inline constexpr std::int64_t kDropPlaces = 4;  // that a layer has room for

// What attention computes besides its sizes.
struct AttentionForm {
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t value_dim = 0;    // of values, and of what comes of a head; 0: head_dim
    std::int64_t total_heads = 0;  // of the model, over which random numbers and slopes count
    double scale = 1;              // of the scores
    // ALiBi adds alibi_slope(total_heads, head) times this to a score for each position.
    double alibi = 0;
    // Scaled scores become soft_cap·tanh(score ÷ soft_cap); 0: stay.
    double soft_cap = 0;
    // Each head has a score more, an operand, that counts in the sum of exponentials alone.
    bool sinks = false;
    Drop drop{};

    std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.extent("heads", &Op::heads);
        v.extent("kv_heads", &Op::kv_heads);
        v.extent("head_dim", &Op::head_dim);
        v.number("value_dim", &Op::value_dim);
        v.number("total_heads", &Op::total_heads);
        v.number("scale", &Op::scale);
        v.number("alibi", &Op::alibi);
        v.number("soft_cap", &Op::soft_cap);
        v.number("sinks", &Op::sinks);
        v.part(&Op::drop);
    }
    bool operator==(const AttentionForm&) const = default;
};

// Products over a head's elements of queries and keys, and over those of values.
struct AttentionProducts {
    double of_keys = 0, of_values = 0;
};
inline constexpr AttentionProducts kForwardProducts{1, 1};   // QKᵀ; PV
inline constexpr AttentionProducts kBackwardProducts{3, 2};  // QKᵀ again, dQ, dK; dP, dV

struct AttentionSizes : AttentionForm {
    std::int64_t batch = 0, queries = 0, keys = 0;

    // Of packed rows: heads of queries, those of keys and values, all three; and of what comes of
    // all heads.
    std::int64_t width() const { return heads * head_dim; }
    std::int64_t kv_width() const { return kv_heads * (head_dim + values()); }
    std::int64_t qkv_width() const { return width() + kv_width(); }
    std::int64_t context_width() const { return heads * values(); }
    // Nothing is added to scores, and nothing dropped of what comes of them.
    bool is_softmax_of_products() const {
        return alibi == 0 && soft_cap == 0 && !sinks && drop.rate == 0;
    }
    // Of products per query, key and head; multiply and add count two.
    double flops_of(const AttentionProducts& products, std::int64_t attended) const {
        return 2.0 * static_cast<double>(batch) * static_cast<double>(queries) *
               static_cast<double>(attended) * static_cast<double>(heads) *
               (products.of_keys * static_cast<double>(head_dim) +
                products.of_values * static_cast<double>(values()));
    }
    // Where any order does: of fp32, sums of the gradient of queries, then, each from where 256
    // bytes begin, Σ dcontext·context of each row, and a workspace: where query heads share keys,
    // for 16-bit gradients of keys and values of each head. It is what cuDNN 9.19 asks for on GPUs
    // of compute capability 9 and 10.
    struct Room {
        std::int64_t row_sums, workspace, elements;
    };
    Room room() const {
        const auto whole_lines = [](std::int64_t count) { return (count + 63) / 64 * 64; };
        const std::int64_t rows = batch * queries * heads;
        Room room{};
        room.row_sums = whole_lines(rows * head_dim);
        room.workspace = room.row_sums + whole_lines(rows);
        room.elements = room.workspace + 1024;
        if (kv_heads < heads) room.elements += rows * (head_dim + values()) / 2;
        return room;
    }
    bool operator==(const AttentionSizes&) const = default;
};

// Of all keys that a query may see.
struct WindowedAttention : AttentionSizes {
    std::int64_t window = 0;  // keys that a query sees; 0: all before it

    std::int64_t attended() const { return window > 0 ? std::min(keys, window) : keys; }
    bool operator==(const WindowedAttention&) const = default;
};

struct Attention : WindowedAttention {
    static constexpr std::string_view kDoc =
        "causal attention in tiles, which keeps the log-sum-exp of each row";
    static constexpr OpFamily kFamily = OpFamily::attention;

    // The full square, or the window for every query: what the mask leaves is a matter of pricing.
    double flops() const { return flops_of(kForwardProducts, attended()); }
    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &Attention::batch);
        v.size("queries", &Attention::queries);
        v.size("keys", &Attention::keys);
        AttentionForm::fields<Attention>(v);
        v.extent("window", &Attention::window);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("qkv", batch * queries * qkv_width());
        if (sinks) v.reads("sinks", heads);
        v.writes("context", batch * queries * context_width());
        v.writes("lse", batch * heads * queries);
    }
    bool operator==(const Attention&) const = default;
};

struct AttentionBackward : WindowedAttention {
    static constexpr std::string_view kDoc = "its gradients, of queries, keys and values at once";
    static constexpr OpFamily kFamily = OpFamily::attention;
    // That of queries may be summed in any order, so that its last bits differ from run to run; it
    // then has room for what such a kernel needs.
    bool any_order = false;

    double flops() const { return flops_of(kBackwardProducts, attended()); }
    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &AttentionBackward::batch);
        v.size("queries", &AttentionBackward::queries);
        v.size("keys", &AttentionBackward::keys);
        AttentionForm::fields<AttentionBackward>(v);
        v.number("any_order", &AttentionBackward::any_order);
        v.extent("window", &AttentionBackward::window);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dcontext", batch * queries * context_width());
        v.reads("qkv", batch * queries * qkv_width());
        v.reads("context", batch * queries * context_width());
        v.reads("lse", batch * heads * queries);
        if (sinks) v.reads("sinks", heads);
        v.writes("dqkv", batch * queries * qkv_width());
        if (sinks) v.writes("dsinks", heads);
        if (any_order) v.writes("room", room().elements);
    }
    bool operator==(const AttentionBackward&) const = default;
};

// Of a rank's share of the queries on keys of one rank (`hop` places before it in the context
// group) or of all: shares are such that causal work is the same on every rank.
struct AttentionBlock : WindowedAttention {
    static constexpr std::string_view kDoc =
        "attention to the keys of one rank of the context group, or of all";
    static constexpr OpFamily kFamily = OpFamily::attention;
    std::int64_t hop = 0;

    bool gathered() const { return keys > queries; }
    double flops() const { return flops_of(kForwardProducts, keys); }
    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &AttentionBlock::batch);
        v.size("queries", &AttentionBlock::queries);
        v.size("keys", &AttentionBlock::keys);
        AttentionForm::fields<AttentionBlock>(v);
        v.extent("hop", &AttentionBlock::hop);
        v.number("window", &AttentionBlock::window);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("qkv", batch * queries * qkv_width());
        v.reads("kv", batch * keys * kv_width());
        if (sinks) v.reads("sinks", heads);
        if (hop > 0) {  // goes on with those of the hops before
            v.reads("sums", batch * queries * context_width());
            v.reads("lse", batch * heads * queries);
        }
        v.writes("sums or context", batch * queries * context_width());
        v.writes("lse", batch * heads * queries);
    }
    bool operator==(const AttentionBlock&) const = default;
};

struct AttentionBlockBackward : WindowedAttention {
    static constexpr std::string_view kDoc = "its gradients, of those keys and this rank's queries";
    static constexpr OpFamily kFamily = OpFamily::attention;
    std::int64_t hop = 0;

    double flops() const { return flops_of(kBackwardProducts, keys); }
    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &AttentionBlockBackward::batch);
        v.size("queries", &AttentionBlockBackward::queries);
        v.size("keys", &AttentionBlockBackward::keys);
        AttentionForm::fields<AttentionBlockBackward>(v);
        v.extent("hop", &AttentionBlockBackward::hop);
        v.number("window", &AttentionBlockBackward::window);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dcontext", batch * queries * context_width());
        v.reads("qkv", batch * queries * qkv_width());
        v.reads("kv", batch * keys * kv_width());
        v.reads("context", batch * queries * context_width());
        v.reads("lse", batch * heads * queries);
        if (sinks) v.reads("sinks", heads);
        if (hop > 0) v.reads("dq", batch * queries * width());  // goes on with that sum
        v.writes("dkv", batch * keys * kv_width());
        v.writes("dq", batch * queries * width());
        if (sinks) v.writes("dsinks", heads);
    }
    bool operator==(const AttentionBlockBackward&) const = default;
};

// Over the scores of unfused attention: `batch` maps, of samples and heads.
struct Softmax {
    static constexpr std::string_view kDoc = "masked softmax over materialised scores";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t batch = 0, queries = 0, keys = 0;
    std::int64_t heads = 0, total_heads = 0, window = 0;
    double alibi = 0;
    double soft_cap = 0;  // of the scores first
    bool sinks = false;

    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &Softmax::batch);
        v.size("queries", &Softmax::queries);
        v.size("keys", &Softmax::keys);
        v.extent("heads", &Softmax::heads);
        v.number("total_heads", &Softmax::total_heads);
        v.number("window", &Softmax::window);
        v.number("alibi", &Softmax::alibi);
        v.number("soft_cap", &Softmax::soft_cap);
        v.number("sinks", &Softmax::sinks);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("scores", batch * queries * keys);
        if (sinks) v.reads("sinks", heads);
        v.writes("probabilities", batch * queries * keys);
    }
    bool operator==(const Softmax&) const = default;
};

struct SoftmaxBackward {
    static constexpr std::string_view kDoc = "its gradient, from that of the probabilities";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t batch = 0, queries = 0, keys = 0;
    std::int64_t heads = 0;
    double soft_cap = 0;
    bool sinks = false;

    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &SoftmaxBackward::batch);
        v.size("queries", &SoftmaxBackward::queries);
        v.size("keys", &SoftmaxBackward::keys);
        v.extent("heads", &SoftmaxBackward::heads);
        v.number("soft_cap", &SoftmaxBackward::soft_cap);
        v.number("sinks", &SoftmaxBackward::sinks);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dprobabilities", batch * queries * keys);
        v.reads("probabilities", batch * queries * keys);
        if (soft_cap > 0 || sinks) v.reads("scores", batch * queries * keys);
        if (sinks) v.reads("sinks", heads);
        v.writes("dscores", batch * queries * keys);
        if (sinks) v.writes("dsinks", heads);
    }
    bool operator==(const SoftmaxBackward&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_ATTENTION_OPS(OP)                         \
    OP(attention, Attention)                             \
    OP(attention_backward, AttentionBackward)            \
    OP(attention_block, AttentionBlock)                  \
    OP(attention_block_backward, AttentionBlockBackward) \
    OP(softmax, Softmax)                                 \
    OP(softmax_backward, SoftmaxBackward)
// clang-format on
