// What norms, turns and scales the heads of packed rows before attention. Heads are those that the
// op sees, of this rank.
#pragma once

#include "plan/ops/op_family.hpp"
#include "plan/ops/positions.hpp"

namespace orrery::plan {

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
    template <typename Writer, typename Op>
    void gradient(Writer& w, const Op& op) const {
        const auto dx = w.gradient_of(op.writes[0]);
        w.emit(RopeBackward{*this}, op.label, {dx}, {dx});
    }
    bool operator==(const Rope&) const = default;
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
    template <typename Writer, typename Op>
    void gradient(Writer& w, const Op& op) const {
        const auto dx = w.gradient_of(op.writes[0]);
        w.emit(*this, op.label, {dx}, {dx});
    }
    bool operator==(const TemperQueries&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_HEAD_OPS(OP)                   \
    OP(qk_norm, NormalizeQk)                  \
    OP(qk_norm_backward, NormalizeQkBackward) \
    OP(qk_norm_sums, NormalizeQkSums)         \
    OP(rope, Rope)                            \
    OP(rope_backward, RopeBackward)           \
    OP(temper_queries, TemperQueries)
// clang-format on
