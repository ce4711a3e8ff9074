// Latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1): queries, and keys with
// values, are products of narrow rows. Of a head's queries and keys the first `plain_dim` elements
// have no positions; the last `rotary_dim` have, and those of keys are one row for all heads.
#pragma once

#include "plan/ops/op_family.hpp"
#include "plan/ops/positions.hpp"

namespace orrery::plan {

struct LatentHeadsFields {
    std::int64_t rows = 0, width = 0;  // of packed rows
    std::int64_t heads = 0;
    std::int64_t plain_dim = 0, rotary_dim = 0, value_dim = 0;
    double theta = 10000;
    bool interleaved = false;  // a turned pair is two neighbours, not one of either half
    double turned_scale = 1;   // of what has been turned
    RopeScaling scaling{};

    std::int64_t head_dim() const { return plain_dim + rotary_dim; }
    std::int64_t q_width() const { return heads * head_dim(); }
    std::int64_t kv_width() const { return heads * (plain_dim + value_dim); }
    std::int64_t qkv_width() const { return heads * (2 * head_dim() + value_dim); }

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.size("rows", &Op::rows);
        v.size("width", &Op::width);
        v.extent("heads", &Op::heads);
        v.extent("plain_dim", &Op::plain_dim);
        v.extent("rotary_dim", &Op::rotary_dim);
        v.extent("value_dim", &Op::value_dim);
        v.number("theta", &Op::theta);
        v.number("interleaved", &Op::interleaved);
        v.number("turned_scale", &Op::turned_scale);
        v.part(&Op::scaling);
    }
    bool operator==(const LatentHeadsFields&) const = default;
};

struct LatentHeads : LatentHeadsFields {
    static constexpr std::string_view kDoc =
        "packed rows of heads, turned by their positions, of products with latents and the keys' "
        "common turned part";
    static constexpr OpFamily kFamily = OpFamily::memory;
    template <typename V>
    static void fields(V&& v) {
        LatentHeadsFields::fields<LatentHeads>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("q", rows * q_width());
        v.reads("kv", rows * kv_width());
        v.reads("rotary keys", rows * rotary_dim);
        v.writes("qkv", rows * qkv_width());
    }
    bool operator==(const LatentHeads&) const = default;
};

struct LatentHeadsBackward : LatentHeadsFields {
    static constexpr std::string_view kDoc =
        "their gradients; that of the keys' common part is a sum over heads";
    static constexpr OpFamily kFamily = OpFamily::memory;
    template <typename V>
    static void fields(V&& v) {
        LatentHeadsFields::fields<LatentHeadsBackward>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dqkv", rows * qkv_width());
        v.writes("dq", rows * q_width());
        v.writes("dkv", rows * kv_width());
        v.writes("drotary keys", rows * rotary_dim);
    }
    bool operator==(const LatentHeadsBackward&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_LATENT_OPS(OP)                      \
    OP(latent_heads, LatentHeads)                  \
    OP(latent_heads_backward, LatentHeadsBackward)
// clang-format on
