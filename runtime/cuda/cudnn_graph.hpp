// Computations that cuDNN compiles as one kernel: operations on tensors, of which those between
// operations are never stored. What is here is its backend interface ("Graph API" of NVIDIA's
// documentation) as far as attention needs it: a graph is put together, the library is asked for an
// engine that can perform it, and it is performed with pointers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/cudnn.hpp"

namespace orrery::runtime::cuda {

// Throws DeviceError unless it is success.
void check(cudnnStatus_t answer, const char* what);

// A descriptor of cuDNN's, owned.
class CudnnDescriptor {
  public:
    explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
    ~CudnnDescriptor();
    CudnnDescriptor(CudnnDescriptor&& other) noexcept;
    CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

    cudnnBackendDescriptor_t handle() const { return handle_; }

    void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
             std::int64_t count, const void* values);
    template <typename T>
    void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
             const T& value) {
        set(attribute, type, 1, &value);
    }
    void set(cudnnBackendAttributeName_t attribute, cudnnBackendDescriptor_t value) {
        set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
    }
    // Throws DeviceError where cuDNN refuses.
    void finish();
    bool finished();  // the same, without throwing

  private:
    cudnnBackendDescriptor_t handle_ = nullptr;
};

// Sizes and distances in elements, outermost first: samples, heads, rows, columns.
struct GraphShape {
    std::array<std::int64_t, 4> sizes, strides;

    static GraphShape packed(std::int64_t samples, std::int64_t heads, std::int64_t rows,
                             std::int64_t columns) {
        return {{samples, heads, rows, columns},
                {heads * rows * columns, rows * columns, columns, 1}};
    }
    GraphShape transposed() const {
        return {{sizes[0], sizes[1], sizes[3], sizes[2]},
                {strides[0], strides[1], strides[3], strides[2]}};
    }
};

// Of a graph, which owns it.
struct GraphTensor {
    cudnnBackendDescriptor_t handle = nullptr;
};

class CudnnGraph {
  public:
    // In the device's memory, 16-byte aligned; ids are from 1 on.
    GraphTensor memory(std::int64_t id, cudnnDataType_t type, const GraphShape& shape);
    // One number that the host gives with each call.
    GraphTensor number(std::int64_t id, cudnnDataType_t type);
    // Between operations alone.
    GraphTensor between(cudnnDataType_t type, const GraphShape& shape);

    // Sums are in fp32.
    void product(GraphTensor a, GraphTensor b, GraphTensor to);
    void pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor to);
    void pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor y, GraphTensor to);
    // x where the condition holds, else y.
    void select(GraphTensor x, GraphTensor y, GraphTensor condition, GraphTensor to);
    // Each element's place along an axis.
    void index(std::int64_t axis, GraphTensor of, GraphTensor to);
    // Over what `to` has one of.
    void reduce(cudnnReduceTensorOp_t by, GraphTensor x, GraphTensor to);
    void reshape(GraphTensor x, GraphTensor to);

    const std::vector<cudnnBackendDescriptor_t>& operations() const { return operations_; }

  private:
    struct Pointwise {
        cudnnPointwiseMode_t mode;
        GraphTensor x, to, y{}, condition{};
        std::int64_t axis = -1;
    };
    void add(const Pointwise& pointwise);
    CudnnDescriptor& made(cudnnBackendDescriptorType_t type);
    GraphTensor tensor(std::int64_t id, cudnnDataType_t type, const GraphShape& shape, bool stored,
                       bool by_value);
    void add(CudnnDescriptor& operation);

    std::vector<std::unique_ptr<CudnnDescriptor>> owned_;
    std::vector<cudnnBackendDescriptor_t> operations_;
    std::int64_t next_id_ = std::int64_t{1} << 32;  // of tensors between operations
};

// A device for which engines are chosen: this process's, or one that is described (deviceVer,
// multiProcessorCount … as cuDNN prints them), for which nothing can be performed.
struct CudnnTarget {
    cudnnHandle_t handle = nullptr;
    cudnnBackendDescriptor_t properties = nullptr;
};
CudnnDescriptor described_device(const std::string& json);

// An engine for a graph.
struct CudnnEngine {
    std::shared_ptr<CudnnDescriptor> operations;  // of the graph, which the configuration names
    CudnnDescriptor configuration;
    std::int64_t workspace_bytes = 0;
};

// What cuDNN proposes, best first.
std::vector<CudnnEngine> engines_for(const CudnnGraph& graph, const CudnnTarget& target);

// A graph that can be performed.
class CudnnPlan {
  public:
    struct Binding {
        std::int64_t id;
        const void* pointer;  // of a number: to the host's
    };

    // With the first engine that has enough workspace and that the device compiles; null: there is
    // none.
    static std::unique_ptr<CudnnPlan> of(CudnnGraph graph, cudnnHandle_t handle,
                                         std::int64_t most_workspace_bytes);

    std::int64_t workspace_bytes() const { return engine_.workspace_bytes; }
    // Into the handle's stream.
    void perform(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace) const;

  private:
    CudnnPlan(CudnnGraph graph, CudnnEngine engine, CudnnDescriptor plan)
        : graph_(std::move(graph)), engine_(std::move(engine)), plan_(std::move(plan)) {}

    CudnnGraph graph_;  // the plan's own descriptors name what is in these
    CudnnEngine engine_;
    CudnnDescriptor plan_;
};

}  // namespace orrery::runtime::cuda
