// Numbers of eight bits and their scales (plan/blocks/eight_bit.hpp).
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_kind.hpp"

namespace orrery::plan {

struct Amax {
    static constexpr std::string_view kDoc =
        "the largest magnitude of a tensor, from which its scale follows";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Amax::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.may_read("input", elements);  // histories are read where they are written
        v.writes("amax", 1);
    }
    bool operator==(const Amax&) const = default;
};

// `copies`: 1 by rows, 2 by columns, 4 by columns and transposed, or the sum of what is made at
// once.
struct Quantize {
    static constexpr std::string_view kDoc = "eight-bit copies with their scales";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0, copies = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Quantize::rows);
        v.size("width", &Quantize::width);
        v.size("copies", &Quantize::copies);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows * width);
        v.may_read("amax", 1);
        v.may_read("history", 1);
        v.writes_several("copies and scales");
    }
    bool operator==(const Quantize&) const = default;
};

struct Transpose {
    static constexpr std::string_view kDoc = "an eight-bit copy and its scales, transposed";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Transpose::rows);
        v.size("width", &Transpose::width);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows * width);
        v.may_read("scales", 1);
        v.writes("output", rows * width);
        v.may_write("scales", 1);
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
