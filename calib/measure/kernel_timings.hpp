// Timings of the CPU backend's kernels over sizes, as the fits take them. Called on every rank of a
// communicator at once; every rank gets the same rows.
#pragma once

#include <cstdint>
#include <vector>

#include "calib/fit/fit_attention.hpp"
#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/fit_memory.hpp"
#include "calib/measure/timing.hpp"
#include "runtime/cpu/team.hpp"

namespace orrery::measure {

// Sizes, log-uniform.
struct KernelGrid {
    int gemm_shapes = 40;
    std::int64_t gemm_low = 8, gemm_high = 2048;  // of m, n and k; multiples of 8
    double gemm_most_flops = 5e8;
    std::vector<std::int64_t> head_dims = {8, 16, 32, 64, 128};
    std::vector<std::int64_t> sequences = {32, 64, 128, 256, 512};
    double attention_most_flops = 2e8;
    double memory_low = 4096, memory_high = 64 << 20;  // bytes of all operands
    double memory_step = 2;                            // of one size over the one before
    // Of so many rounds this one, from 0: every so many-th size. Rounds take turns with whole
    // steps, so that a machine that is slow for a while is slow for all families.
    int round = 0, rounds = 1;

    // Whether it is the turn of what is number `index` of its family.
    bool has_turn(std::size_t index) const {
        return index % static_cast<std::size_t>(rounds) == static_cast<std::size_t>(round);
    }
};

// Each shape in the three forms: forward, gradient of the input, gradient of the weight.
std::vector<fit::GemmRow> time_gemm(runtime::Communicator& ranks, runtime::Team& team,
                                    const Sampling& sampling, const KernelGrid& grid,
                                    plan::DType dtype);

struct AttentionTimings {
    std::vector<fit::AttentionRow> forward;
    std::vector<double> backward_us;  // of the same shapes
    // Of some shapes again with dropout: what it added, for each query, key and head that the mask
    // leaves. Empty where it was not timed.
    std::vector<double> dropout_ps, dropout_backward_ps;
};
// fp32, causal.
AttentionTimings time_attention(runtime::Communicator& ranks, runtime::Team& team,
                                const Sampling& sampling, const KernelGrid& grid);

// A product of unfused attention: all heads at once.
struct ProductRow {
    double flops = 0;
    double bytes = 0;  // of all operands, each once
    double time_us = 0;
};
// fp32.
std::vector<ProductRow> time_attention_products(runtime::Communicator& ranks, runtime::Team& team,
                                                const Sampling& sampling, const KernelGrid& grid);

// fp32.
std::vector<fit::MemoryRow> time_memory_bound(runtime::Communicator& ranks, runtime::Team& team,
                                              const Sampling& sampling, const KernelGrid& grid);

// Bytes per second of a copy of memory, read and written, at the largest size of the grid.
double time_copy(runtime::Communicator& ranks, const Sampling& sampling, const KernelGrid& grid);

}  // namespace orrery::measure
