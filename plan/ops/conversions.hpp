// The same numbers in another type or another order.
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"

namespace orrery::plan {

struct Cast {
    static constexpr std::string_view kDoc =
        "a copy of another element type; of eight bits with scales";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Cast::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", elements);
        v.may_read("scales", 1);
        v.writes("output", elements);
        v.may_write("scales", 1);
    }
    bool operator==(const Cast&) const = default;
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

// clang-format off
#define ORRERY_CONVERSION_OPS(OP) \
    OP(cast, Cast)                \
    OP(rearrange, Rearrange)
// clang-format on
