// Numbers of eight bits and their scales (plan/blocks/eight_bit.hpp).
#pragma once

#include "plan/ops/experts.hpp"
#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"

namespace orrery::plan {

// Values of `copies` of Quantize and QuantizeRows; a sum where several are made at once.
inline constexpr std::int64_t kRowsCopy = 1;
inline constexpr std::int64_t kColumnsCopy = 2;
inline constexpr std::int64_t kTransposedCopy = 4;

// Numbers in a row that share a scale of Float8BlockScaling, and of MXFP8 (OCP Microscaling Formats
// v1.0).
inline constexpr std::int64_t kScaleBlock = 128;
inline constexpr std::int64_t kMicroBlock = 32;

struct Amax {
    static constexpr std::string_view kDoc =
        "the largest magnitude of a tensor, from which its scale follows";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    std::int64_t matrices = 1;  // one after another, each with a largest magnitude of its own

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Amax::elements);
        v.number("matrices", &Amax::matrices);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", elements);
        v.writes("amax", matrices);
    }
    bool operator==(const Amax&) const = default;
};

// `copies`: 1 by rows, 2 by columns, 4 by columns and transposed, or the sum of what is made at
// once. Each of `matrices`, which lie one after another, has scales of its own.
struct Quantize {
    static constexpr std::string_view kDoc = "eight-bit copies with their scales";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0, copies = 0;
    std::int64_t matrices = 1;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Quantize::rows);
        v.size("width", &Quantize::width);
        v.size("copies", &Quantize::copies);
        v.number("matrices", &Quantize::matrices);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows * width);
        v.may_read("largest", matrices);  // from which the scale follows: its own, or of a history
        v.updates("amax", matrices);      // delayed: notes its own for the next step
        v.writes_several("copies and scales");
    }
    bool operator==(const Quantize&) const = default;
};

// As above, of rows that have come to experts (plan/ops/experts.hpp), whose numbers counts tell:
// those of an expert are a matrix.
struct AmaxRows : ExpertRows {
    static constexpr std::string_view kDoc =
        "the largest magnitude of each local expert's rows, from which its scale follows";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &AmaxRows::rows);
        v.size("width", &AmaxRows::width);
        ExpertRows::fields<AmaxRows>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("counts", ranks * experts);
        v.writes("amax", local());
    }
    bool operator==(const AmaxRows&) const = default;
};

struct QuantizeRows : ExpertRows {
    static constexpr std::string_view kDoc =
        "eight-bit copies of experts' rows, with scales for each expert";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0, copies = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &QuantizeRows::rows);
        v.size("width", &QuantizeRows::width);
        v.size("copies", &QuantizeRows::copies);
        ExpertRows::fields<QuantizeRows>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("counts", ranks * experts);
        v.may_read("largest", local());
        v.updates("amax", local());
        v.writes_several("copies and scales");
    }
    bool operator==(const QuantizeRows&) const = default;
};

struct Transpose {
    static constexpr std::string_view kDoc = "an eight-bit copy and its scales, transposed";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t matrices = 1;  // one after another

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Transpose::rows);
        v.size("width", &Transpose::width);
        v.number("matrices", &Transpose::matrices);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows * width);
        v.may_read("scales", matrices);
        v.writes("output", rows * width);
        v.may_write("scales", matrices);
    }
    bool operator==(const Transpose&) const = default;
};

// Of every history, which has the largest magnitudes of so many steps, newest first, behind the
// largest of them all: what a step has noted goes in front, the oldest is forgotten, and noting
// begins anew.
struct UpdateScales {
    static constexpr std::string_view kDoc =
        "scales from the largest magnitudes of the steps before";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;  // of all histories

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &UpdateScales::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_several("histories, then what each notes");
        v.writes_several("histories, then what each notes");
    }
    bool operator==(const UpdateScales&) const = default;
};

// What the parts of a rank have noted, in a row, so that ranks agree on it at once; and back.
struct CollectAmaxes {
    static constexpr std::string_view kDoc = "largest magnitudes of all tensors, one after another";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &CollectAmaxes::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_several("amaxes");
        v.writes("all of them", elements);
    }
    bool operator==(const CollectAmaxes&) const = default;
};
struct SpreadAmaxes {
    static constexpr std::string_view kDoc = "largest magnitudes, agreed on, where each is noted";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &SpreadAmaxes::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("all of them", elements);
        v.writes_several("amaxes");
    }
    bool operator==(const SpreadAmaxes&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_EIGHT_BIT_OPS(OP)      \
    OP(amax, Amax)                    \
    OP(quantize, Quantize)            \
    OP(amax_rows, AmaxRows)           \
    OP(quantize_rows, QuantizeRows)   \
    OP(transpose, Transpose)          \
    OP(update_scales, UpdateScales)   \
    OP(collect_amaxes, CollectAmaxes) \
    OP(spread_amaxes, SpreadAmaxes)
// clang-format on
