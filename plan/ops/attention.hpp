// Attention, what it is made of where it is not fused, and what turns and moves its heads. Heads
// are those that the op sees, of this rank; keys of a query are those before it and its own.
#pragma once

#include <algorithm>

#include "plan/ops/op_kind.hpp"
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
    // Of products per query, key and head; multiply and add count two.
    double flops_of(const AttentionProducts& products, std::int64_t attended) const {
        return 2.0 * static_cast<double>(batch) * static_cast<double>(queries) *
               static_cast<double>(attended) * static_cast<double>(heads) *
               (products.of_keys * static_cast<double>(head_dim) +
                products.of_values * static_cast<double>(values()));
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

    double flops() const { return flops_of(kBackwardProducts, attended()); }
    template <typename V>
    static void fields(V&& v) {
        v.size("batch", &AttentionBackward::batch);
        v.size("queries", &AttentionBackward::queries);
        v.size("keys", &AttentionBackward::keys);
        AttentionForm::fields<AttentionBackward>(v);
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

// RMSNorm of the queries and keys of packed rows, values as they are: each head by itself, or all
// heads of the tensor group's `ranks` together, by sums over rows that are an operand then.
struct NormalizeQkFields {
    std::int64_t rows = 0, width = 0;
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t ranks = 0;  // 0: each head by itself
    double epsilon = 1e-6;
    double weight_offset = 0;
    bool weighted = true;  // else by a weight of 1 (Llama 4), each head by itself

    std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
    // One for each of a head's elements, or of all heads' where they are normed together.
    std::int64_t q_weights() const { return (ranks > 0 ? heads : 1) * head_dim; }
    std::int64_t k_weights() const { return (ranks > 0 ? kv_heads : 1) * head_dim; }

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.size("rows", &Op::rows);
        v.size("width", &Op::width);
        v.extent("heads", &Op::heads);
        v.extent("kv_heads", &Op::kv_heads);
        v.extent("head_dim", &Op::head_dim);
        v.number("ranks", &Op::ranks);
        v.number("epsilon", &Op::epsilon);
        v.number("weight_offset", &Op::weight_offset);
        v.number("weighted", &Op::weighted);
    }
    bool operator==(const NormalizeQkFields&) const = default;
};

struct NormalizeQk : NormalizeQkFields {
    static constexpr std::string_view kDoc = "RMSNorm of queries and of keys, before positions";
    static constexpr OpFamily kFamily = OpFamily::memory;
    template <typename V>
    static void fields(V&& v) {
        NormalizeQkFields::fields<NormalizeQk>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("qkv", rows * qkv_width());
        if (weighted) v.reads("q weight", q_weights());
        if (weighted) v.reads("k weight", k_weights());
        if (ranks > 0) v.reads("sums of squares", 2 * rows);
        v.writes("qkv", rows * qkv_width());
    }
    bool operator==(const NormalizeQk&) const = default;
};

struct NormalizeQkBackward : NormalizeQkFields {
    static constexpr std::string_view kDoc = "its gradients";
    static constexpr OpFamily kFamily = OpFamily::memory;
    template <typename V>
    static void fields(V&& v) {
        NormalizeQkFields::fields<NormalizeQkBackward>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dqkv", rows * qkv_width());
        v.reads("qkv", rows * qkv_width());
        if (weighted) v.reads("q weight", q_weights());
        if (weighted) v.reads("k weight", k_weights());
        if (ranks > 0) {
            v.reads("sums of squares", 2 * rows);
            v.reads("sums of products", 2 * rows);
        }
        v.writes("dqkv", rows * qkv_width());
        v.may_write("dq weight", q_weights());  // not of frozen ones
        v.may_write("dk weight", k_weights());
    }
    bool operator==(const NormalizeQkBackward&) const = default;
};

// Two numbers a row, of queries and of keys: Σ x²; or, for its gradient, Σ dy·weight·x.
struct NormalizeQkSums {
    static constexpr std::string_view kDoc =
        "what a norm over all heads needs of each rank's: sums of squares, or of products with "
        "gradients";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    bool of_gradients = false;
    double weight_offset = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &NormalizeQkSums::rows);
        v.size("width", &NormalizeQkSums::width);
        v.extent("heads", &NormalizeQkSums::heads);
        v.extent("kv_heads", &NormalizeQkSums::kv_heads);
        v.extent("head_dim", &NormalizeQkSums::head_dim);
        v.number("of_gradients", &NormalizeQkSums::of_gradients);
        v.number("weight_offset", &NormalizeQkSums::weight_offset);
    }
    template <typename V>
    void operands(V&& v) const {
        const std::int64_t qkv = rows * (heads + 2 * kv_heads) * head_dim;
        if (of_gradients) v.reads("dqkv", qkv);
        v.reads("qkv", qkv);
        if (of_gradients) {
            v.reads("q weight", heads * head_dim);
            v.reads("k weight", kv_heads * head_dim);
        }
        v.writes("sums", 2 * rows);
    }
    bool operator==(const NormalizeQkSums&) const = default;
};

// Rotary positions, in place on the queries and keys of packed rows: width counts what is turned.
struct RopeFields {
    std::int64_t rows = 0, width = 0;
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t rotary_dim = 0;
    double theta = 10000;
    RopeScaling scaling{};

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.size("rows", &Op::rows);
        v.size("width", &Op::width);
        v.extent("heads", &Op::heads);
        v.extent("kv_heads", &Op::kv_heads);
        v.extent("head_dim", &Op::head_dim);
        v.number("rotary_dim", &Op::rotary_dim);
        v.number("theta", &Op::theta);
        v.part(&Op::scaling);
    }
    bool operator==(const RopeFields&) const = default;
};

struct Rope : RopeFields {
    static constexpr std::string_view kDoc = "turns queries and keys by their positions, in place";
    static constexpr OpFamily kFamily = OpFamily::memory;
    template <typename V>
    static void fields(V&& v) {
        RopeFields::fields<Rope>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("qkv", rows * (heads + 2 * kv_heads) * head_dim);
        v.writes("qkv", rows * (heads + 2 * kv_heads) * head_dim);
    }
    bool operator==(const Rope&) const = default;
};

struct RopeBackward : RopeFields {
    static constexpr std::string_view kDoc = "turns their gradients back";
    static constexpr OpFamily kFamily = OpFamily::memory;
    template <typename V>
    static void fields(V&& v) {
        RopeFields::fields<RopeBackward>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dqkv", rows * (heads + 2 * kv_heads) * head_dim);
        v.writes("dqkv", rows * (heads + 2 * kv_heads) * head_dim);
    }
    bool operator==(const RopeBackward&) const = default;
};

// Of the position p, counted from 0: factor = 1 + scale·ln(1 + ⌊(p + 1)/floor⌋) (Llama 4).
struct TemperQueries {
    static constexpr std::string_view kDoc =
        "queries, or their gradients, times what grows with their position, in place";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;  // of queries
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t floor = 1;
    double scale = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &TemperQueries::rows);
        v.size("width", &TemperQueries::width);
        v.extent("heads", &TemperQueries::heads);
        v.extent("kv_heads", &TemperQueries::kv_heads);
        v.extent("head_dim", &TemperQueries::head_dim);
        v.number("floor", &TemperQueries::floor);
        v.number("scale", &TemperQueries::scale);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("qkv", rows * (heads + 2 * kv_heads) * head_dim);
        v.writes("qkv", rows * (heads + 2 * kv_heads) * head_dim);
    }
    bool operator==(const TemperQueries&) const = default;
};

enum class Rearrangement : std::uint8_t {
    keys,              // k and v of rows of q, k and v
    gradients,         // rows of dq, dk and dv from rows of dq and rows of dk and dv
    heads_apart,       // [rows][heads] → [parts][rows][heads ÷ parts]
    heads_together,    // … and back
    samples_together,  // [parts][samples][rows][width] → [samples][parts][rows][width]
    samples_apart,     // … and back
    columns_apart,     // rows of the first columns, and rows of the last
    columns_together   // … and back
};
template <>
struct Spelling<Rearrangement> {
    static constexpr std::array<std::string_view, 8> names = {
        "keys",          "gradients",     "heads_apart",     "heads_together", "samples_together",
        "samples_apart", "columns_apart", "columns_together"};
};

// Rows of heads to and from the order in which a collective over the context group, or a kernel,
// wants them: of rows with all their heads, of which k and v have kv_width each, v value_width
// where that is another (0: rows of queries alone, or of what comes of them), in so many parts. Of
// columns apart, the last are kv_width.
struct Rearrange {
    static constexpr std::string_view kDoc =
        "copies parts of rows to where a collective or a kernel wants them";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0, kv_width = 0, parts = 0;
    Rearrangement form = Rearrangement::keys;
    std::int64_t value_width = 0;  // 0: kv_width

    std::int64_t values() const { return value_width > 0 ? value_width : kv_width; }
    // Of k and v in a row.
    std::int64_t both() const { return kv_width + values(); }

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Rearrange::rows);
        v.size("width", &Rearrange::width);
        v.size("kv_width", &Rearrange::kv_width);
        v.size("parts", &Rearrange::parts);
        v.number("form", &Rearrange::form);
        v.number("value_width", &Rearrange::value_width);
    }
    template <typename V>
    void operands(V&& v) const {
        const std::int64_t kv = both();
        switch (form) {
            case Rearrangement::keys:
                v.reads("qkv", rows * width);
                v.writes("kv", rows * kv);
                return;
            case Rearrangement::gradients:
                v.reads("dq", rows * (width - kv));
                v.reads("dkv", rows * kv);
                v.writes("dqkv", rows * width);
                return;
            case Rearrangement::heads_apart:
            case Rearrangement::heads_together:
            case Rearrangement::samples_together:
            case Rearrangement::samples_apart:
                v.reads("from", rows * width);
                v.writes("to", rows * width);
                return;
            case Rearrangement::columns_apart:
                v.reads("from", rows * width);
                v.writes("first", rows * (width - kv_width));
                v.writes("last", rows * kv_width);
                return;
            case Rearrangement::columns_together:
                v.reads("first", rows * (width - kv_width));
                v.reads("last", rows * kv_width);
                v.writes("to", rows * width);
                return;
        }
    }
    bool operator==(const Rearrange&) const = default;
};

}  // namespace orrery::plan
