// Floating-point numbers as safetensors files have them.
#pragma once

#include <cstring>
#include <string>

#include "plan/check.hpp"
#include "runtime/number.hpp"

namespace orrery::runtime {

inline bool is_floating(const std::string& dtype) {
    return dtype == "F64" || dtype == "F32" || dtype == "BF16" || dtype == "F16";
}

inline double load_number(const std::byte* at, const std::string& dtype) {
    const auto load = [at](auto value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    if (dtype == "F64") return load(double{});
    if (dtype == "F32") return load(float{});
    if (dtype == "BF16") return to_float(load(BFloat16{}));
    ORRERY_CHECK(dtype == "F16", "a floating-point type");
    return to_float(load(Half{}));
}

inline void store_number(double value, std::byte* at, const std::string& dtype) {
    const auto store = [at](auto stored) { std::memcpy(at, &stored, sizeof stored); };
    if (dtype == "F64") return store(value);
    if (dtype == "F32") return store(static_cast<float>(value));
    if (dtype == "BF16") return store(to_bfloat16(static_cast<float>(value)));
    ORRERY_CHECK(dtype == "F16", "a floating-point type");
    store(to_half(static_cast<float>(value)));
}

}  // namespace orrery::runtime
