#include "runtime/cpu/kernels.hpp"

#include <cpuid.h>

namespace orrery::runtime {
namespace baseline {
extern const KernelTable table;
}
namespace v3 {
extern const KernelTable table;
}

namespace {

// clang 14's __builtin_cpu_supports does not know f16c.
bool has_half_conversions() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

const KernelTable& baseline_kernels() {
    return baseline::table;
}

const KernelTable* v3_kernels() {
    static const bool supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                  __builtin_cpu_supports("bmi2") && has_half_conversions();
    return supported ? &v3::table : nullptr;
}

const KernelTable& kernels() {
    const KernelTable* const fastest = v3_kernels();
    return fastest != nullptr ? *fastest : baseline_kernels();
}

}  // namespace orrery::runtime
