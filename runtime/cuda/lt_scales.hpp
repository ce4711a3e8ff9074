// Scales of numbers of eight bits as cuBLASLt takes them (cublasLt.h of CUDA 12.9 and up): one for
// an operand, or for each of its rows; on Hopper one for each 128 numbers of a row, which lie
// column by column, or for 128 × 128, whose rows begin at 16 bytes.
#pragma once

#include <cublasLt.h>

#include <optional>

#include "runtime/cuda/product_choices.hpp"
#include "runtime/cuda/scratch_memory.hpp"

namespace orrery::runtime::cuda {

// Of this process and its current device: what is multiplied depends on it.
struct LtVersion {
    int compute_capability = 0;  // 90: of 9.0
    std::size_t library = 0;     // 130100
};
LtVersion lt_version();

// Null: cuBLASLt has none for the product's scales, whose blocks are others or lie otherwise.
std::optional<Scaling> lt_scaling(const Gemm& op, const LtVersion& version);

struct LtScales {
    Scaling scaling = Scaling::none;
    const void *a = nullptr, *b = nullptr;

    std::int32_t mode_of_a() const;
    std::int32_t mode_of_b() const;
};

// Puts them where cuBLASLt finds them: as they lie, or in the stream's scratch memory.
LtScales lay_scales(const Gemm& op, Scaling scaling, ScratchMemory& scratch, cudaStream_t stream);

}  // namespace orrery::runtime::cuda
