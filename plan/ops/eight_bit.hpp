// Numbers of eight bits and their scales (plan/blocks/eight_bit.hpp).
#pragma once

#include "plan/ops/experts.hpp"
#include "plan/ops/fields.hpp"
#include "plan/ops/op_kind.hpp"

namespace orrery::plan {

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
        v.may_read("input", elements);  // histories are read where they are written
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
        v.may_read("amax", matrices);
        v.may_read("history", matrices);
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
        v.may_read("amax", local());
        v.may_read("history", local());
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

struct UpdateScales {
    static constexpr std::string_view kDoc =
        "scales from the largest magnitudes of the steps before";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &UpdateScales::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_several("histories");
        v.writes_several("histories");
    }
    bool operator==(const UpdateScales&) const = default;
};

}  // namespace orrery::plan
