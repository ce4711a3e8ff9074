// The kernels, one function per request of runtime/kernels/requests.hpp: each puts the request into
// the stream and returns. Products are not among them: they are in lt_gemm.hpp.
#pragma once

#include <cuda_runtime.h>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

#define ORRERY_KERNEL_FUNCTION(name, Request) void name(const Request&, cudaStream_t);
ORRERY_OTHER_KERNELS(ORRERY_KERNEL_FUNCTION)
#undef ORRERY_KERNEL_FUNCTION

class ScratchMemory;
#define ORRERY_KERNEL_FUNCTION(name, Request) \
    void name(const Request&, ScratchMemory&, cudaStream_t);
ORRERY_SCRATCH_KERNELS(ORRERY_KERNEL_FUNCTION)
#undef ORRERY_KERNEL_FUNCTION

// Casts to and from blocks with scales.
void pack(const Cast&, cudaStream_t);
void unpack(const Cast&, cudaStream_t);

// Of numbers of eight bits in any form, whatever blocks share a scale and however their rows lie.
void multiply_eight_bits(const Gemm&, cudaStream_t);

// Scales of down × across blocks as cuBLASLt reads them: `stride` from row to row, or from column
// to column.
struct LaidScales {
    Scales from;
    std::int64_t down, across;
    bool by_columns;
    std::int64_t stride;
    float* to;
};
void lay_scales(const LaidScales&, cudaStream_t);

// c[m,n] += bias[n], for products whose bias has a type of its own.
void add_bias(const Gemm&, cudaStream_t);

}  // namespace orrery::runtime::cuda
