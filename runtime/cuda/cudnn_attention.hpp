// Attention as graphs of cuDNN's (cudnn_graph.hpp): its kernels are the fastest that there are for
// what they can do, causal attention of bf16 and fp16 over keys that lie in the packed rows of
// their queries. Everything else is for the kernels here: context parallelism, dropout with the
// CPU's masks, slopes, caps and sinks. Its gradients are sums of tiles that are added in any order:
// only where the request says that the bits of dq need not be the same each time.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "runtime/cuda/cudnn_graph.hpp"
#include "runtime/cuda/scratch_memory.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

// All that a graph depends on.
struct AttentionGraphKey {
    bool backward = false;
    plan::DType dtype = plan::DType::bf16;
    std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
    std::int64_t window = 0;
    auto operator<=>(const AttentionGraphKey&) const = default;
};

// Of a request that a graph can say; nothing of the others.
std::optional<AttentionGraphKey> graph_key_of(const Attention& op);
std::optional<AttentionGraphKey> graph_key_of(const AttentionBackward& op);

CudnnGraph graph_of(const AttentionGraphKey& key);

// On one stream, from one thread at a time.
class CudnnAttention {
  public:
    explicit CudnnAttention(cudaStream_t stream);
    ~CudnnAttention();
    CudnnAttention(const CudnnAttention&) = delete;
    CudnnAttention& operator=(const CudnnAttention&) = delete;

    // Looks for an engine before it is needed, which takes a while.
    void prepare(const Attention& op, ScratchMemory& scratch);
    void prepare(const AttentionBackward& op);

    // Whether the request is one for cuDNN; then it has been put into the stream.
    bool perform(const Attention& op, ScratchMemory& scratch);
    bool perform(const AttentionBackward& op);

  private:
    // Null where no engine takes it.
    const CudnnPlan* plan_for(const std::optional<AttentionGraphKey>& key,
                              std::int64_t workspace_bytes);

    cudnnHandle_t handle_ = nullptr;  // null: cuDNN is not there
    std::map<AttentionGraphKey, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace orrery::runtime::cuda
