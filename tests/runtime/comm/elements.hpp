// Elements of any type for tests of communication: arbitrary ones that every rank can name, and
// what their sum must be, element by element.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "runtime/number.hpp"

namespace orrery::runtime {

using Bytes = std::vector<std::byte>;

inline constexpr plan::DType kAllDTypes[] = {plan::DType::u8,   plan::DType::i32,
                                             plan::DType::bf16, plan::DType::fp16,
                                             plan::DType::fp32, plan::DType::fp64};

template <typename Element>
Bytes bytes_of(const std::vector<Element>& elements) {
    Bytes bytes(elements.size() * sizeof(Element));
    if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
}

template <typename Element>
std::vector<Element> elements_of(const Bytes& bytes) {
    std::vector<Element> elements(bytes.size() / sizeof(Element));
    if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
}

// Of whole bits for integers, in [−1, 1) for the others.
inline Bytes arbitrary(plan::DType dtype, std::int64_t elements, std::uint64_t seed) {
    std::mt19937_64 bits(seed);
    std::uniform_real_distribution<double> unit(-1, 1);
    const auto make = [&](auto draw) {
        std::vector<decltype(draw())> drawn(static_cast<std::size_t>(elements));
        std::generate(drawn.begin(), drawn.end(), draw);
        return bytes_of(drawn);
    };
    switch (dtype) {
        case plan::DType::u8:
            return make([&] { return static_cast<std::uint8_t>(bits()); });
        case plan::DType::i32:
            return make([&] { return static_cast<std::int32_t>(bits()); });
        case plan::DType::bf16:
            return make([&] { return to_bfloat16(static_cast<float>(unit(bits))); });
        case plan::DType::fp16:
            return make([&] { return to_half(static_cast<float>(unit(bits))); });
        case plan::DType::fp32:
            return make([&] { return static_cast<float>(unit(bits)); });
        case plan::DType::fp64:
            return make([&] { return unit(bits); });
        case plan::DType::fp8_e4m3:
        case plan::DType::fp8_e5m2:
            break;
    }
    return {};
}

// The sum of addends [first, first + count) of one element: of its first 2^i, as many as go into
// them whole without being all, and of the rest.
template <typename Element, typename Sum, typename Widen>
Sum sum_in_pairs_of(const std::vector<Bytes>& addends, std::size_t element, std::size_t first,
                    std::size_t count, Widen widen) {
    if (count == 1) {
        Element one;
        std::memcpy(&one, addends[first].data() + element * sizeof(Element), sizeof(Element));
        return widen(one);
    }
    const std::size_t half = std::bit_floor(count - 1);
    return sum_in_pairs_of<Element, Sum>(addends, element, first, half, widen) +
           sum_in_pairs_of<Element, Sum>(addends, element, first + half, count - half, widen);
}

template <typename Element, typename Sum, typename Widen, typename Narrow>
Bytes sum_as(const std::vector<Bytes>& addends, Widen widen, Narrow narrow) {
    std::vector<Element> result(addends.front().size() / sizeof(Element));
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = narrow(sum_in_pairs_of<Element, Sum>(addends, i, 0, addends.size(), widen));
    return bytes_of(result);
}

inline Bytes sum_in_pairs(plan::DType dtype, const std::vector<Bytes>& addends) {
    const auto wide = [](auto x) { return static_cast<std::uint64_t>(x); };
    const auto same = [](auto x) { return x; };
    const auto real = [](auto x) { return to_float(x); };
    switch (dtype) {
        case plan::DType::u8:
            return sum_as<std::uint8_t, std::uint64_t>(
                addends, wide, [](auto x) { return static_cast<std::uint8_t>(x); });
        case plan::DType::i32:
            return sum_as<std::int32_t, std::uint64_t>(
                addends, wide, [](auto x) { return static_cast<std::int32_t>(x); });
        case plan::DType::bf16:
            return sum_as<BFloat16, float>(addends, real, [](float x) { return to_bfloat16(x); });
        case plan::DType::fp16:
            return sum_as<Half, float>(addends, real, [](float x) { return to_half(x); });
        case plan::DType::fp32:
            return sum_as<float, float>(addends, same, same);
        case plan::DType::fp64:
            return sum_as<double, double>(addends, same, same);
        case plan::DType::fp8_e4m3:
        case plan::DType::fp8_e5m2:
            break;
    }
    return {};
}

}  // namespace orrery::runtime
