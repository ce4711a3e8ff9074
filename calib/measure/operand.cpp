#include "calib/measure/operand.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "plan/check.hpp"
#include "runtime/kernels/eight_bit.hpp"

namespace orrery::measure {
namespace {

using plan::DType;

const std::vector<float>& normal_numbers() {
    static const std::vector<float> numbers = [] {
        std::mt19937_64 bits(1);
        std::normal_distribution<float> normal;
        std::vector<float> drawn(kDrawnOnce);
        std::generate(drawn.begin(), drawn.end(), [&] { return normal(bits); });
        return drawn;
    }();
    return numbers;
}

void store(std::byte* to, DType dtype, float number) {
    const auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
    switch (dtype) {
        case DType::bf16:
            return put(runtime::to_bfloat16(number));
        case DType::fp16:
            return put(runtime::to_half(number));
        case DType::fp32:
            return put(number);
        case DType::fp64:
            return put(static_cast<double>(number));
        case DType::fp8_e4m3:
            return put(runtime::E4M3::from(number));
        case DType::fp8_e5m2:
            return put(runtime::E5M2::from(number));
        case DType::u8:
        case DType::i32:
            break;
    }
    ORRERY_CHECK(false, "integers are not normally distributed");
}

}  // namespace

Operand::Operand(DType dtype, std::int64_t elements)
    : dtype_(dtype), bytes_(static_cast<std::size_t>(elements * plan::size_bytes(dtype))) {
    const auto width = static_cast<std::size_t>(plan::size_bytes(dtype));
    const std::size_t drawn = std::min(bytes_.size(), kDrawnOnce * width);
    for (std::size_t i = 0; i * width < drawn; ++i)
        store(bytes_.data() + i * width, dtype, normal_numbers()[i]);
    for (std::size_t at = drawn; at < bytes_.size(); at += drawn)  // the same again
        std::memcpy(bytes_.data() + at, bytes_.data(), std::min(drawn, bytes_.size() - at));
}

}  // namespace orrery::measure
