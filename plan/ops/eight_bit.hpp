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
    bool operator==(const UpdateScales&) const = default;
};

}  // namespace orrery::plan
