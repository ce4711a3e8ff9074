#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "runtime/cuda/cudnn.hpp"
#include "runtime/kernels/elements.hpp"
#include "tests/gpu/emulation/cudnn.h"

struct EmulatedDnn {};

namespace {

using Index = std::array<std::int64_t, 4>;

std::size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
        case CUDNN_TYPE_BOOLEAN:
            return sizeof(bool);
        case CUDNN_TYPE_CHAR:
            return 1;
        case CUDNN_TYPE_INT64:
        case CUDNN_TYPE_HANDLE:
        case CUDNN_TYPE_VOID_PTR:
        case CUDNN_TYPE_BACKEND_DESCRIPTOR:
            return 8;
        default:
            return sizeof(int);
    }
}

// Tests set them while nothing runs; ranks are threads.
bool there = false;
std::vector<std::int64_t> engines = {256};
std::int64_t growth = 0;
std::atomic<std::int64_t> searches = 0, performed = 0;

}  // namespace

struct EmulatedNode {
    cudnnBackendDescriptorType_t type;
    std::map<cudnnBackendAttributeName_t, std::vector<std::byte>> attributes;
    bool finished = false;

    template <typename T>
    std::vector<T> all(cudnnBackendAttributeName_t name) const {
        const auto found = attributes.find(name);
        std::vector<T> values(found == attributes.end() ? 0 : found->second.size() / sizeof(T));
        if (!values.empty()) std::memcpy(values.data(), found->second.data(), found->second.size());
        return values;
    }
    template <typename T>
    T get(cudnnBackendAttributeName_t name) const {
        T value{};
        const auto found = attributes.find(name);
        if (found != attributes.end()) std::memcpy(&value, found->second.data(), sizeof value);
        return value;
    }
    EmulatedNode* node(cudnnBackendAttributeName_t name) const { return get<EmulatedNode*>(name); }

    // Of tensors.
    Index sizes() const { return index(CUDNN_ATTR_TENSOR_DIMENSIONS); }
    Index index(cudnnBackendAttributeName_t name) const {
        const auto values = all<std::int64_t>(name);
        return {values[0], values[1], values[2], values[3]};
    }
    bool is_virtual() const { return get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL); }
    cudnnDataType_t data_type() const { return get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE); }
};

namespace {

float rounded(cudnnDataType_t type, float value) {
    using orrery::plan::DType;
    if (type != CUDNN_DATA_HALF && type != CUDNN_DATA_BFLOAT16) return value;
    std::uint16_t bits = 0;
    const orrery::runtime::Buffer one{&bits, type == CUDNN_DATA_HALF ? DType::fp16 : DType::bf16};
    store(one, 0, value);
    return load(one, 0);
}

template <typename Act>
void for_each(const Index& sizes, const Act& act) {
    for (std::int64_t a = 0; a < sizes[0]; ++a)
        for (std::int64_t b = 0; b < sizes[1]; ++b)
            for (std::int64_t c = 0; c < sizes[2]; ++c)
                for (std::int64_t d = 0; d < sizes[3]; ++d)
                    act(Index{a, b, c, d});
}

// Values of the tensors of one call. Those that are not memory's are undefined until written.
class Values {
  public:
    explicit Values(const EmulatedNode& pack) {
        const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
        const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
        for (std::size_t i = 0; i < ids.size(); ++i)
            pointers_[ids[i]] = pointers[i];
    }

    // Sizes of 1 stand for all of an axis; heads for as many neighbours as they are fewer.
    float at(const EmulatedNode& tensor, Index of, const Index& sizes) {
        const Index own = tensor.sizes();
        for (std::size_t axis = 0; axis < own.size(); ++axis)
            of[axis] = of[axis] / (sizes[axis] / own[axis]);
        const std::size_t element = place(tensor, of);
        if (tensor.is_virtual()) return between_[&tensor].at(element);
        const void* const from = pointers_.at(id(tensor));
        if (tensor.data_type() == CUDNN_DATA_INT32)
            return static_cast<float>(static_cast<const std::int32_t*>(from)[element]);
        return load(buffer(tensor), static_cast<std::int64_t>(element));
    }
    float at(const EmulatedNode& tensor, const Index& of) { return at(tensor, of, tensor.sizes()); }

    void set(const EmulatedNode& tensor, const Index& of, float value) {
        const std::size_t element = place(tensor, of);
        if (!tensor.is_virtual())
            return store(buffer(tensor), static_cast<std::int64_t>(element), value);
        std::vector<float>& values = between_[&tensor];
        if (values.empty()) {
            const Index sizes = tensor.sizes();
            values.resize(static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]),
                          std::nanf(""));
        }
        values.at(element) = rounded(tensor.data_type(), value);
    }

  private:
    static std::int64_t id(const EmulatedNode& tensor) {
        return tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    }
    // Between operations by sizes, whatever the strides; in memory by strides.
    static std::size_t place(const EmulatedNode& tensor, const Index& of) {
        const Index sizes = tensor.sizes();
        const Index strides = tensor.is_virtual() ? Index{sizes[1] * sizes[2] * sizes[3],
                                                          sizes[2] * sizes[3], sizes[3], 1}
                                                  : tensor.index(CUDNN_ATTR_TENSOR_STRIDES);
        std::int64_t element = 0;
        for (std::size_t axis = 0; axis < of.size(); ++axis)
            element += of[axis] * strides[axis];
        return static_cast<std::size_t>(element);
    }
    orrery::runtime::Buffer buffer(const EmulatedNode& tensor) {
        using orrery::plan::DType;
        DType dtype = DType::fp32;
        if (tensor.data_type() == CUDNN_DATA_HALF) dtype = DType::fp16;
        if (tensor.data_type() == CUDNN_DATA_BFLOAT16) dtype = DType::bf16;
        return {pointers_.at(id(tensor)), dtype};
    }

    std::map<std::int64_t, void*> pointers_;
    std::map<const EmulatedNode*, std::vector<float>> between_;
};

void multiply(const EmulatedNode& operation, Values& values) {
    const EmulatedNode& a = *operation.node(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const EmulatedNode& b = *operation.node(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    const EmulatedNode& c = *operation.node(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const std::int64_t inner = a.sizes()[3];
    for_each(c.sizes(), [&](const Index& of) {
        const Index sizes = c.sizes();
        float sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
            sum = std::fma(
                values.at(a, {of[0], of[1], of[2], k}, {sizes[0], sizes[1], sizes[2], inner}),
                values.at(b, {of[0], of[1], k, of[3]}, {sizes[0], sizes[1], inner, sizes[3]}), sum);
        values.set(c, of, sum);
    });
}

float of_mode(cudnnPointwiseMode_t mode, float x, float y) {
    switch (mode) {
        case CUDNN_POINTWISE_ADD:
            return x + y;
        case CUDNN_POINTWISE_MUL:
            return x * y;
        case CUDNN_POINTWISE_SUB:
            return x - y;
        case CUDNN_POINTWISE_DIV:
            return x / y;
        case CUDNN_POINTWISE_EXP:
            return std::exp(x);
        case CUDNN_POINTWISE_LOG:
            return std::log(x);
        case CUDNN_POINTWISE_CMP_GT:
            return x > y ? 1 : 0;
        case CUDNN_POINTWISE_CMP_GE:
            return x >= y ? 1 : 0;
        default:
            return x;
    }
}

void compute_pointwise(const EmulatedNode& operation, Values& values) {
    const EmulatedNode& rule = *operation.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = rule.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const EmulatedNode& x = *operation.node(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const EmulatedNode* const y = operation.node(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const EmulatedNode* const condition = operation.node(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    const EmulatedNode& to = *operation.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const Index sizes = to.sizes();
    for_each(sizes, [&](const Index& of) {
        if (mode == CUDNN_POINTWISE_GEN_INDEX) {
            const auto axis = rule.get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
            return values.set(to, of, static_cast<float>(of[static_cast<std::size_t>(axis)]));
        }
        const float a = values.at(x, of, sizes), b = y != nullptr ? values.at(*y, of, sizes) : 0;
        if (mode == CUDNN_POINTWISE_BINARY_SELECT)
            return values.set(to, of, values.at(*condition, of, sizes) != 0 ? a : b);
        values.set(to, of, of_mode(mode, a, b));
    });
}

void reduce(const EmulatedNode& operation, Values& values) {
    const EmulatedNode& x = *operation.node(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    const EmulatedNode& y = *operation.node(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const bool adds =
        operation.node(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
            ->get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_ADD;
    std::map<Index, float> results;
    const Index sizes = x.sizes(), kept = y.sizes();
    for_each(sizes, [&](const Index& of) {
        Index to = of;
        for (std::size_t axis = 0; axis < to.size(); ++axis)
            to[axis] /= sizes[axis] / kept[axis];
        const float value = values.at(x, of);
        const auto [result, is_first] = results.try_emplace(to, value);
        if (!is_first)
            result->second = adds ? result->second + value : std::fmax(result->second, value);
    });
    for (const auto& [of, value] : results)
        values.set(y, of, value);
}

// Of attention: a matrix that is read by columns, so that its sizes are the other way round.
void reshape(const EmulatedNode& operation, Values& values) {
    const EmulatedNode& x = *operation.node(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    const EmulatedNode& y = *operation.node(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    for_each(y.sizes(), [&](const Index& of) {
        values.set(y, of, values.at(x, {of[0], of[1], of[3], of[2]}));
    });
}

void perform(const EmulatedNode& operation, Values& values) {
    switch (operation.type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
            return multiply(operation, values);
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
            return compute_pointwise(operation, values);
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
            return reduce(operation, values);
        default:
            return reshape(operation, values);
    }
}

std::int64_t workspace_of(const EmulatedNode& plan) {
    return plan.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
               ->get<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) +
           growth;
}

}  // namespace

namespace emulation {

void set_cudnn(bool is_there) {
    there = is_there;
}

void set_engines(std::initializer_list<std::int64_t> workspace_bytes) {
    engines = workspace_bytes;
}

void set_workspace_growth(std::int64_t bytes) {
    growth = bytes;
}

DnnCalls dnn_calls() {
    return {searches, performed};
}

}  // namespace emulation

const char* cudnnGetErrorString(cudnnStatus_t) {
    return "emulated";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
    *handle = new EmulatedDnn;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) {
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
    *descriptor = new EmulatedNode{type, {}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    delete descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
    if (descriptor->finished) return CUDNN_STATUS_BAD_PARAM;
    const auto* const bytes = static_cast<const std::byte*>(values);
    descriptor->attributes[name].assign(bytes,
                                        bytes + static_cast<std::size_t>(count) * size_of(type));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t asked,
                                       std::int64_t* count, void* values) {
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        *count = static_cast<std::int64_t>(engines.size());
        auto* const results = static_cast<cudnnBackendDescriptor_t*>(values);
        for (std::int64_t i = 0; i < asked && i < *count; ++i) {
            results[i]->attributes = descriptor->attributes;  // the graph's
            const std::int64_t bytes = engines[static_cast<std::size_t>(i)];
            cudnnBackendSetAttribute(results[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &bytes);
            results[i]->finished = true;
        }
        return CUDNN_STATUS_SUCCESS;
    }
    *count = 1;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        const std::int64_t bytes = workspace_of(*descriptor);
        std::memcpy(values, &bytes, sizeof bytes);
        return CUDNN_STATUS_SUCCESS;
    }
    const std::vector<std::byte>& found = descriptor->attributes.at(name);
    std::memcpy(values, found.data(), found.size());
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    if (descriptor->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) ++searches;
    descriptor->finished = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
    emulation::put([plan, pack = *pack] {
        const EmulatedNode& engine = *plan->node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        const EmulatedNode& graph = *engine.node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        std::memset(pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), 0xFF,
                    static_cast<std::size_t>(workspace_of(*plan)));
        Values values(pack);
        for (const EmulatedNode* operation :
             graph.all<EmulatedNode*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
            perform(*operation, values);
        return cudaSuccess;
    });
    ++performed;
    return CUDNN_STATUS_SUCCESS;
}

namespace orrery::runtime::cuda {

const Cudnn* cudnn() {
#define ORRERY_TAKE(name) &cudnn##name,
    static const Cudnn functions = {ORRERY_CUDNN_FUNCTIONS(ORRERY_TAKE)};
#undef ORRERY_TAKE
    return there ? &functions : nullptr;
}

}  // namespace orrery::runtime::cuda
