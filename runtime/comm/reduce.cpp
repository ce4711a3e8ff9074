#include "runtime/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

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
    template <typename Sum>
    static Sum join(Sum earlier, Sum later) {
        return earlier + later;
    }
};

template <typename Element>
struct Largest {
    template <typename Value>
    static Value join(Value earlier, Value later) {
        if constexpr (std::is_floating_point_v<Value>)
            return later > earlier || std::isnan(later) ? later : earlier;
        else if constexpr (std::is_signed_v<Element>)
            return static_cast<Value>(
                std::max(static_cast<Element>(earlier), static_cast<Element>(later)));
        else
            return std::max(earlier, later);
    }
};

// Sums of a block that are not joined yet: of 2^i addends each, i falling. Its first addends are
// read straight from their memory, so that a level costs one pass over the block.
template <typename Element, typename Join>
class PairwiseSums {
  public:
    using Sum = decltype(widened(Element{}));

    void begin(std::size_t elements) {
        elements_ = elements;
        depth_ = 0;
        addends_ = 0;
    }

    void add(const Element* next) {
        if (depth_ == sums_.size()) sums_.emplace_back();
        std::array<Sum, kBlock>& sum = sums_[depth_++];
        for (std::size_t i = 0; i < elements_; ++i)
            sum[i] = widened(next[i]);
        ++addends_;
        for (std::size_t pairs = addends_; pairs % 2 == 0; pairs /= 2)
            join_last();
    }

    // What is left over joins from the shortest on.
    const std::array<Sum, kBlock>& total() {
        while (depth_ > 1)
            join_last();
        return sums_.front();
    }

  private:
    void join_last() {
        --depth_;
        std::array<Sum, kBlock>& sum = sums_[depth_ - 1];
        const std::array<Sum, kBlock>& later = sums_[depth_];
        for (std::size_t i = 0; i < elements_; ++i)
            sum[i] = Join::join(sum[i], later[i]);
    }

    std::vector<std::array<Sum, kBlock>> sums_;
    std::size_t elements_ = 0, depth_ = 0, addends_ = 0;
};

template <typename Element, typename Join>
void reduce_as(std::span<const void* const> addends, std::int64_t first, std::int64_t count,
               void* result) {
    PairwiseSums<Element, Join> sums;
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
        const auto n = static_cast<std::size_t>(std::min(kBlock, count - begin));
        sums.begin(n);
        for (const void* addend : addends)
            sums.add(static_cast<const Element*>(addend) + first + begin);
        Element* out = static_cast<Element*>(result) + begin;
        const auto& total = sums.total();
        for (std::size_t i = 0; i < n; ++i)
            out[i] = narrowed<Element>(total[i]);
    }
}

template <typename Element>
void reduce_elements(Reduction reduction, std::span<const void* const> addends, std::int64_t first,
                     std::int64_t count, void* result) {
    switch (reduction) {
        case Reduction::sum:
            return reduce_as<Element, Add>(addends, first, count, result);
        case Reduction::max:
            return reduce_as<Element, Largest<Element>>(addends, first, count, result);
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
