// Attention on tensor cores: of bf16 and fp16, heads of whole 16 bytes, not wider than its tiles,
// whose tiles fit the device's shared memory (on GPUs that have 99 KiB: heads of at most 64
// backward). Everything else is for the kernels of fp32 in attention.cu and attention_backward.cu.
#pragma once

#include <cuda_runtime.h>

#include "runtime/cuda/scratch_memory.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

// Whether the request is one for them; then it has been put into the stream.
bool attention_on_tensor_cores(const Attention&, cudaStream_t);
// All but the gradients of sinks.
bool attention_backward_on_tensor_cores(const AttentionBackward&, ScratchMemory&, cudaStream_t);

}  // namespace orrery::runtime::cuda
