#include "tests/runtime/cpu/kernel_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/number.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {
namespace {

using plan::DType;

void put(DType dtype, std::byte* to, double value) {
    const auto copy = [&](auto number) { std::memcpy(to, &number, sizeof number); };
    if (dtype == DType::bf16) return copy(to_bfloat16(static_cast<float>(value)));
    if (dtype == DType::fp16) return copy(to_half(static_cast<float>(value)));
    if (dtype == DType::fp32) return copy(static_cast<float>(value));
    if (dtype == DType::u8) return copy(static_cast<std::uint8_t>(value));
    copy(value);
}

template <typename T>
T get(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

double value_at(DType dtype, const std::byte* from) {
    if (dtype == DType::bf16) return to_float(get<BFloat16>(from));
    if (dtype == DType::fp16) return to_float(get<Half>(from));
    if (dtype == DType::fp32) return get<float>(from);
    if (dtype == DType::u8) return get<std::uint8_t>(from);
    return get<double>(from);
}

double largest_of(const Values& values) {
    double largest = 0;
    for (const double value : values)
        largest = std::max(largest, std::abs(value));
    return largest;
}

std::string where(const World& world, std::size_t output) {
    return std::string(world.table.instruction_set) + " " + std::string(plan::name(world.dtype)) +
           ", output " + std::to_string(output);
}

// `per_element` times an element plus `overall` times the largest may it be off.
void expect_close(const Values& found, const Values& expected, double per_element, double overall,
                  const std::string& what) {
    ASSERT_EQ(found.size(), expected.size()) << what;
    const double all = overall * largest_of(expected);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double bound = per_element * std::abs(expected[i]) + all;
        if (std::abs(found[i] - expected[i]) <= bound) continue;
        if (++wrong > 3) continue;
        ADD_FAILURE() << what << "[" << i << "]: " << found[i] << ", expected " << expected[i]
                      << " ± " << bound;
    }
    EXPECT_EQ(wrong, 0U) << what << ": wrong elements of " << found.size();
}

std::vector<const KernelTable*> tables() {
    std::vector<const KernelTable*> found = {&baseline_kernels()};
    if (v3_kernels() != nullptr) found.push_back(v3_kernels());
    return found;
}

}  // namespace

Values exact_numbers(std::int64_t n, std::uint32_t seed) {
    Values values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = std::clamp(std::round(normal({seed, 0, 0}, i) * 64), -255.0, 255.0) / 64;
    return values;
}

Tensor::Tensor(DType dtype, const Values& values)
    : dtype_(dtype),
      size_(static_cast<std::int64_t>(values.size())),
      bytes_(values.size() * static_cast<std::size_t>(plan::size_bytes(dtype))) {
    for (std::size_t i = 0; i < values.size(); ++i)
        put(dtype, bytes_.data() + i * static_cast<std::size_t>(plan::size_bytes(dtype)),
            values[i]);
}

Tensor::Tensor(DType dtype, std::int64_t n)
    : Tensor(dtype, Values(static_cast<std::size_t>(n), dtype == DType::u8 ? 77 : std::nan(""))) {}

Values Tensor::values() const {
    Values values(static_cast<std::size_t>(size_));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = value_at(
            dtype_, bytes_.data() + i * static_cast<std::size_t>(plan::size_bytes(dtype_)));
    return values;
}

DType World::work() const {
    return dtype == DType::fp64 ? DType::fp64 : DType::fp32;
}

std::vector<Values> in_fp64(const Computation& run) {
    Team alone(1);
    std::vector<Values> outputs;
    for (const Tensor& tensor : run({baseline_kernels(), alone, DType::fp64}))
        outputs.push_back(tensor.values());
    return outputs;
}

void expect_everywhere(const Computation& run, double roundings) {
    const std::vector<Values> expected = in_fp64(run);
    Team teams[] = {Team(1), Team(2), Team(3)};
    for (const KernelTable* table : tables())
        for (DType dtype : {DType::bf16, DType::fp16, DType::fp32, DType::fp64}) {
            const World world{*table, teams[0], dtype};
            const std::vector<Tensor> found = run(world);
            ASSERT_EQ(found.size(), expected.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                // fp16 is denser than 2^-25 nowhere: below 2^-14 its last place stays 2^-24.
                const double tiny = found[i].dtype() == DType::fp16 ? 0x1p-24 : 0;
                const double largest = std::max(largest_of(expected[i]), 1e-300);
                expect_close(found[i].values(), expected[i], unit_of(found[i].dtype()),
                             roundings * unit_of(world.work()) + tiny / largest, where(world, i));
            }
            for (Team& team : {std::ref(teams[1]), std::ref(teams[2])}) {
                const std::vector<Tensor> again = run({*table, team, dtype});
                for (std::size_t i = 0; i < found.size(); ++i)
                    EXPECT_EQ(found[i].bytes(), again[i].bytes())
                        << where(world, i) << " differs by " << team.size() << " threads";
            }
        }
}

void expect_equal_in_fp64(const Values& found, const Values& expected, double roundings) {
    expect_close(found, expected, 0, roundings * 0x1p-53, "fp64");
}

double dot(const Values& a, const Values& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

void expect_gradient(const std::function<double(const Values&)>& loss, const Values& x,
                     const Values& gradient) {
    constexpr double kStep = 0x1p-17;
    ASSERT_EQ(x.size(), gradient.size());
    const double norm = std::sqrt(dot(gradient, gradient));
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
        Values ahead = x, behind = x, direction(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            direction[i] = normal({seed, 77, 0}, i);
            ahead[i] += kStep * direction[i];
            behind[i] -= kStep * direction[i];
        }
        const double expected = (loss(ahead) - loss(behind)) / (2 * kStep);
        EXPECT_NEAR(dot(gradient, direction), expected, 1e-6 * norm);
    }
}

}  // namespace orrery::runtime
