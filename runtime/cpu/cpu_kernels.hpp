// The CPU's table of kernels and a team of threads, as a device's kernels.
#pragma once

#include <cstring>
#include <list>
#include <vector>

#include "runtime/cpu/kernels.hpp"
#include "runtime/kernels/kernels.hpp"

namespace orrery::runtime {

class CpuKernels final : public Kernels {
  public:
    explicit CpuKernels(int threads) : team_(threads) {}

    void launch(const KernelRequest& request) override;

    void bring(std::span<const std::int32_t> from, void* to) override {
        std::memcpy(to, from.data(), from.size_bytes());
    }
    void copy(const void* from, void* to, std::int64_t bytes) override {
        std::memmove(to, from, static_cast<std::size_t>(bytes));
    }
    const std::int32_t* fetch(std::span<const std::int32_t> numbers) override {
        return numbers.data();
    }
    const void* keep_bytes(std::span<const std::byte> bytes) override {
        return kept_.emplace_back(bytes.begin(), bytes.end()).data();
    }

  private:
    const KernelTable& table_ = kernels();
    Team team_;
    std::list<std::vector<std::byte>> kept_;
};

}  // namespace orrery::runtime
