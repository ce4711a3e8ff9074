// The kernels of runtime/cuda on one stream. From one thread at a time, whose current device is the
// stream's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/cuda/cudnn_attention.hpp"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/lt_gemm.hpp"
#include "runtime/cuda/pinned_memory.hpp"
#include "runtime/cuda/scratch_memory.hpp"
#include "runtime/kernels/kernels.hpp"

namespace orrery::runtime::cuda {

struct MemoryDeleter {
    void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, MemoryDeleter>;

// Of cudaMalloc, zeroed.
DeviceMemory allocate(std::int64_t bytes);

// Returns once it is done: no stream can come before it.
void copy_to_device(void* to, const void* from, std::size_t bytes);

class CudaKernels final : public Kernels {
  public:
    // The workspace is for this stream alone. `choices`: of algorithms; null: no file has any.
    CudaKernels(cudaStream_t stream, Workspace workspace, ProductChoices* choices, bool cudnn);

    void launch(const KernelRequest&) override;
    void prepare(const KernelRequest&) override;
    void prepare_bring(std::int64_t numbers) override;

    void bring(std::span<const std::int32_t> from, void* to) override;
    void copy(const void* from, void* to, std::int64_t bytes) override;
    const std::int32_t* fetch(std::span<const std::int32_t> numbers) override;
    const void* keep_bytes(std::span<const std::byte> bytes) override;

  private:
    LtGemm& products();
    // Null where the request is none that cuDNN may be asked for.
    CudnnAttention* attention_for(const KernelRequest&);
    bool attends_by_cudnn(const KernelRequest&);

    cudaStream_t stream_;
    Workspace workspace_;
    ProductChoices* choices_;
    bool cudnn_;
    std::unique_ptr<LtGemm> products_;           // from the first one on: few streams have any
    std::unique_ptr<CudnnAttention> attention_;  // likewise
    std::vector<DeviceMemory> kept_;
    ScratchMemory scratch_;
    TokenStaging staging_;
    PinnedMemory fetched_;
    std::size_t fetched_bytes_ = 0;
};

}  // namespace orrery::runtime::cuda
