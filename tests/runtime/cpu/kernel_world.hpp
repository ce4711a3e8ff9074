// A kernel run everywhere: by each instruction set, in each element type, by teams of 1, 2 and 3.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/cpu/kernels.hpp"
#include "tests/rounding.hpp"

namespace orrery::runtime {

using Values = std::vector<double>;

// n numbers of about normal distribution within ±4 that each element type holds exactly (whole
// multiples of 1/64), so that one reference serves all types.
Values exact_numbers(std::int64_t n, std::uint32_t seed);

class Tensor {
  public:
    Tensor(plan::DType dtype, const Values& values);
    Tensor(plan::DType dtype, std::int64_t n);  // of NaN: what is not written shows

    Buffer buffer() const { return {const_cast<std::byte*>(bytes_.data()), dtype_}; }
    Values values() const;
    plan::DType dtype() const { return dtype_; }
    const std::vector<std::byte>& bytes() const { return bytes_; }

  private:
    plan::DType dtype_;
    std::int64_t size_;
    std::vector<std::byte> bytes_;
};

struct World {
    const KernelTable& table;
    Team& team;
    plan::DType dtype;

    Tensor in(const Values& values) const { return {dtype, values}; }
    Tensor out(std::size_t n) const { return {dtype, static_cast<std::int64_t>(n)}; }
    // Of the type that this one is computed in.
    plan::DType work() const;
    Tensor work_in(const Values& values) const { return {work(), values}; }
    Tensor work_out(std::size_t n) const { return {work(), static_cast<std::int64_t>(n)}; }
};

using Computation = std::function<std::vector<Tensor>(const World&)>;

// Outputs in fp64 by one thread and the baseline.
std::vector<Values> in_fp64(const Computation& run);

// Expects of every element type, instruction set and team: the same bits whatever the team; and
// what fp64 gives, but for one rounding to the type of the output and for `roundings` in the type
// of the arithmetic, each of the size of the largest element of the output.
void expect_everywhere(const Computation& run, double roundings);

// Expects both to be equal but for `roundings` of fp64 of the size of the largest element.
void expect_equal_in_fp64(const Values& found, const Values& expected, double roundings);

// Expects `gradient` to be that of `loss` at x, in random directions v: central differences
// (L(x + h·v) − L(x − h·v)) / 2h with h = 2^-17 cut off terms of h²/6 ≈ 1e-11 times third
// derivatives, and round by 2^-53/h ≈ 1e-11 times L; both are below 1e-6 of the gradient's norm for
// losses that are not far larger than their gradients.
void expect_gradient(const std::function<double(const Values&)>& loss, const Values& x,
                     const Values& gradient);

double dot(const Values& a, const Values& b);

}  // namespace orrery::runtime
