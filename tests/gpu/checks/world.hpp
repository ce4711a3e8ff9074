// A request performed by two backends on the same numbers: by the CPU's kernels, which are the
// oracle, and by a device's, twice, with the same bits both times unless they may differ. What a
// kernel should write is NaN before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "runtime/cpu/cpu_kernels.hpp"
#include "runtime/streams/stream_driver.hpp"
#include "tests/rounding.hpp"

namespace orrery::runtime::gpu_check {

using Values = std::vector<double>;

// About normally distributed.
Values normals(std::int64_t n, std::uint32_t seed);

struct Tensor {
    plan::DType dtype;
    std::vector<std::byte> before, expected, found, again;
    std::byte* device = nullptr;

    std::int64_t elements() const;
};

// One output of one case.
struct Finding {
    std::string op, variant, output;
    plan::DType dtype = plan::DType::fp32;  // of the case
    std::int64_t elements = 0, wrong = 0;
    double worst = 0;  // largest error as a part of its bound; at most 1 where right
    bool repeats = true;
    std::string first_wrong;

    bool right() const { return wrong == 0 && repeats; }
};
using Findings = std::vector<Finding>;

// Where the tensors of a request are: in the host's memory or in the device's.
class Place {
  public:
    explicit Place(bool on_device) : on_device_(on_device) {}
    Buffer operator()(Tensor& tensor) const;
    Buffer operator()(Tensor* tensor) const {
        return tensor != nullptr ? (*this)(*tensor) : Buffer{};
    }
    template <typename T>
    T* at(Tensor& tensor) const {
        return static_cast<T*>((*this)(tensor).data);
    }

  private:
    bool on_device_;
};

enum class Repeats : std::uint8_t { same_bits, any_bits };

class World {
  public:
    // `large`: cases that fill a device, and each twice: too much for an emulated one, which
    // performs everything in one order anyway.
    World(StreamDriver& driver, plan::DType dtype, bool large);

    plan::DType dtype() const { return dtype_; }
    bool large() const { return large_; }
    const Findings& findings() const { return findings_; }

    // Begins a case: forgets the tensors of the one before.
    void begin(std::string op, std::string variant = "");

    // Of the world's type; of another one; to be written.
    Tensor& in(const Values& values) { return in(dtype_, values); }
    Tensor& in(plan::DType dtype, const Values& values);
    Tensor& out(std::int64_t n) { return out(dtype_, n); }
    Tensor& out(plan::DType dtype, std::int64_t n);
    Tensor& tokens(const std::vector<std::int32_t>& values);

    // Performs it everywhere.
    void run(const std::function<void(Kernels&, const Place&)>& request,
             Repeats repeats = Repeats::same_bits);

    // Expects of an output the oracle's bits; of NaN, which says nothing by its own, any.
    void expect_same(const std::string& output, const Tensor& tensor);
    // Expects what the oracle has, but for one rounding of each to the output's type, and for
    // `roundings` of fp32 of the size of the output's largest element, and for what `also` says.
    void expect_close(const std::string& output, const Tensor& tensor, double roundings,
                      double also = 0);

  private:
    Tensor& place(Tensor tensor);
    void perform(const std::function<void(Kernels&, const Place&)>& request,
                 std::vector<std::byte> Tensor::*result);
    Finding begin_finding(const std::string& output, const Tensor& tensor) const;

    StreamDriver& driver_;
    plan::DType dtype_;
    bool large_;
    CpuKernels oracle_{2};
    std::byte* arena_;
    std::int64_t used_ = 0;
    Stream stream_;
    Event end_;
    std::unique_ptr<Kernels> kernels_;
    std::list<Tensor> tensors_;
    std::string op_, variant_;
    Repeats repeats_ = Repeats::same_bits;  // of what was run last
    Findings findings_;
};

}  // namespace orrery::runtime::gpu_check
