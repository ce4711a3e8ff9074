#include "runtime/cpu/kernels/elements.hpp"

#include <bit>
#include <cmath>
#include <type_traits>

#include "plan/check.hpp"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Rounded to odd: a later rounding to fewer bits is then as if made at once (Boldo and Melquiond
// 2008).
float to_odd(double x) {
    const auto nearest = static_cast<float>(x);
    if (static_cast<double>(nearest) == x || !std::isfinite(x)) return nearest;
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;
    return std::bit_cast<float>(bits | 1U);
}

template <typename W, typename T>
W widened(T x) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<W>(x);
    else
        return static_cast<W>(to_float(x));
}

template <typename T, typename W>
T narrowed(W x) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(x);
    else if constexpr (std::is_same_v<W, double>)
        return narrowed<T>(to_odd(x));
    else if constexpr (std::is_same_v<T, BFloat16>)
        return to_bfloat16(x);
    else
        return to_half(x);
}

template <typename T, typename W>
void widen(const T* from, std::int64_t n, W* to) {
    std::int64_t i = 0;
#ifdef __F16C__
    if constexpr (std::is_same_v<T, Half> && std::is_same_v<W, float>)
        for (; i + 8 <= n; i += 8) {
            const auto eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
            _mm256_storeu_ps(to + i, _mm256_cvtph_ps(eight));
        }
#endif
    for (; i < n; ++i)
        to[i] = widened<W>(from[i]);
}

template <typename T, typename W>
void narrow(const W* from, std::int64_t n, T* to) {
    std::int64_t i = 0;
#ifdef __F16C__
    if constexpr (std::is_same_v<T, Half> && std::is_same_v<W, float>)
        for (; i + 8 <= n; i += 8) {
            const auto eight =
                _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), eight);
        }
#endif
    for (; i < n; ++i)
        to[i] = narrowed<T>(from[i]);
}

// Calls f with the elements from `begin` on.
template <typename F>
void with_elements(const Buffer& buffer, std::int64_t begin, const F& f) {
    switch (buffer.dtype) {
        case plan::DType::bf16:
            return f(data<BFloat16>(buffer, begin));
        case plan::DType::fp16:
            return f(data<Half>(buffer, begin));
        case plan::DType::fp32:
            return f(data<float>(buffer, begin));
        case plan::DType::fp64:
            return f(data<double>(buffer, begin));
        case plan::DType::u8:
        case plan::DType::i32:
        case plan::DType::fp8_e4m3:  // with scales: eight_bit.cpp
        case plan::DType::fp8_e5m2:
            break;
    }
    ORRERY_CHECK(false, "kernels compute with floating-point numbers alone");
}

}  // namespace

template <typename W>
void convert_from(const Buffer& from, std::int64_t begin, std::int64_t n, W* to) {
    with_elements(from, begin, [&](const auto* elements) { widen(elements, n, to); });
}
template <typename W>
void convert_to(const Buffer& to, std::int64_t begin, std::int64_t n, const W* from) {
    with_elements(to, begin, [&](auto* elements) { narrow(from, n, elements); });
}

template void convert_from<float>(const Buffer&, std::int64_t, std::int64_t, float*);
template void convert_from<double>(const Buffer&, std::int64_t, std::int64_t, double*);
template void convert_to<float>(const Buffer&, std::int64_t, std::int64_t, const float*);
template void convert_to<double>(const Buffer&, std::int64_t, std::int64_t, const double*);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
