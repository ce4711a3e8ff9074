#include "runtime/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "plan/check.hpp"
#include "runtime/number.hpp"

namespace orrery::runtime {
namespace {

// Elements summed up before they are stored: the sums stay in the first-level cache, and all
// addends of an element have been read before it is overwritten.
constexpr std::int64_t kBlock = 1024;

// What an element is added up in. Integers are unsigned, so that overflow is defined.
inline float widened(BFloat16 x) {
    return to_float(x);
}
inline float widened(Half x) {
    return to_float(x);
}
inline float widened(float x) {
    return x;
}
inline double widened(double x) {
    return x;
}
inline std::uint32_t widened(std::int32_t x) {
    return static_cast<std::uint32_t>(x);
}
inline std::uint32_t widened(std::uint8_t x) {
    return x;
}

template <typename Element, typename Sum>
Element narrowed(Sum sum) {
    if constexpr (std::is_same_v<Element, BFloat16>)
        return to_bfloat16(sum);
    else if constexpr (std::is_same_v<Element, Half>)
        return to_half(sum);
    else
        return static_cast<Element>(sum);
}

struct Add {
    template <typename Element, typename Sum>
    static Sum join(Sum so_far, Element next) {
        return so_far + widened(next);
    }
};

struct Largest {
    template <typename Element, typename Value>
    static Value join(Value so_far, Element next) {
        const Value value = widened(next);
        if constexpr (std::is_floating_point_v<Value>)
            return value > so_far || std::isnan(value) ? value : so_far;
        else if constexpr (std::is_signed_v<Element>)
            return static_cast<Value>(std::max(static_cast<Element>(so_far), next));
        else
            return std::max(so_far, value);
    }
};

template <typename Element, typename Join>
void reduce_as(std::span<const void* const> addends, std::int64_t first, std::int64_t count,
               void* result) {
    using Sum = decltype(widened(Element{}));
    std::array<Sum, kBlock> sums;
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
        const auto n = static_cast<std::size_t>(std::min(kBlock, count - begin));
        const auto block_of = [&](const void* addend) {
            return static_cast<const Element*>(addend) + first + begin;
        };
        const Element* start = block_of(addends[0]);
        for (std::size_t i = 0; i < n; ++i)
            sums[i] = widened(start[i]);
        for (const void* addend : addends.subspan(1)) {
            const Element* next = block_of(addend);
            for (std::size_t i = 0; i < n; ++i)
                sums[i] = Join::join(sums[i], next[i]);
        }
        Element* out = static_cast<Element*>(result) + begin;
        for (std::size_t i = 0; i < n; ++i)
            out[i] = narrowed<Element>(sums[i]);
    }
}

template <typename Element>
void reduce_elements(Reduction reduction, std::span<const void* const> addends, std::int64_t first,
                     std::int64_t count, void* result) {
    switch (reduction) {
        case Reduction::sum:
            return reduce_as<Element, Add>(addends, first, count, result);
        case Reduction::max:
            return reduce_as<Element, Largest>(addends, first, count, result);
    }
}

}  // namespace

void reduce(plan::DType dtype, Reduction reduction, std::span<const void* const> addends,
            std::int64_t first, std::int64_t count, void* result) {
    ORRERY_CHECK(!addends.empty(), "nothing to reduce");
    switch (dtype) {
        case plan::DType::u8:
            return reduce_elements<std::uint8_t>(reduction, addends, first, count, result);
        case plan::DType::i32:
            return reduce_elements<std::int32_t>(reduction, addends, first, count, result);
        case plan::DType::bf16:
            return reduce_elements<BFloat16>(reduction, addends, first, count, result);
        case plan::DType::fp16:
            return reduce_elements<Half>(reduction, addends, first, count, result);
        case plan::DType::fp32:
            return reduce_elements<float>(reduction, addends, first, count, result);
        case plan::DType::fp64:
            return reduce_elements<double>(reduction, addends, first, count, result);
        case plan::DType::fp8_e4m3:
        case plan::DType::fp8_e5m2:
            break;
    }
    ORRERY_CHECK(false, "scaled numbers are not summed");
}

}  // namespace orrery::runtime
