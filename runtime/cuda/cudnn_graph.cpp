#include "runtime/cuda/cudnn_graph.hpp"

#include <utility>

#include "plan/check.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {
namespace {

const Cudnn& library() {
    const Cudnn* const functions = cudnn();
    ORRERY_CHECK(functions != nullptr, "graphs are for where cuDNN is");
    return *functions;
}

constexpr std::int64_t kAlignment = 16;  // bytes

// Results of a search or of an engine: as many as there are.
std::int64_t count_of(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t attribute,
                      cudnnBackendAttributeType_t type) {
    std::int64_t count = 0;
    if (library().BackendGetAttribute(of, attribute, type, 0, &count, nullptr) !=
        CUDNN_STATUS_SUCCESS)
        return 0;
    return count;
}

std::int64_t bytes_of(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t attribute) {
    std::int64_t count = 0, bytes = 0;
    check(library().BackendGetAttribute(of, attribute, CUDNN_TYPE_INT64, 1, &count, &bytes),
          "workspace");
    return bytes;
}

}  // namespace

void check(cudnnStatus_t answer, const char* what) {
    if (answer != CUDNN_STATUS_SUCCESS)
        throw DeviceError(std::string("cuDNN ") + what + ": " + library().GetErrorString(answer));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    check(library().BackendCreateDescriptor(type, &handle_), "descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
    if (handle_ != nullptr) library().BackendDestroyDescriptor(handle_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

void CudnnDescriptor::set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
    check(library().BackendSetAttribute(handle_, attribute, type, count, values),
          "attribute of a graph");
}

void CudnnDescriptor::finish() {
    check(library().BackendFinalize(handle_), "graph");
}

bool CudnnDescriptor::finished() {
    return library().BackendFinalize(handle_) == CUDNN_STATUS_SUCCESS;
}

CudnnDescriptor& CudnnGraph::made(cudnnBackendDescriptorType_t type) {
    return *owned_.emplace_back(std::make_unique<CudnnDescriptor>(type));
}

void CudnnGraph::add(CudnnDescriptor& operation) {
    operation.finish();
    operations_.push_back(operation.handle());
}

GraphTensor CudnnGraph::tensor(std::int64_t id, cudnnDataType_t type, const GraphShape& shape,
                               bool stored, bool by_value) {
    CudnnDescriptor& made_tensor = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made_tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
    made_tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    made_tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.sizes.data());
    made_tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.strides.data());
    made_tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
    made_tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, !stored);
    made_tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
    made_tensor.finish();
    return {made_tensor.handle()};
}

GraphTensor CudnnGraph::memory(std::int64_t id, cudnnDataType_t type, const GraphShape& shape) {
    return tensor(id, type, shape, true, false);
}

GraphTensor CudnnGraph::number(std::int64_t id, cudnnDataType_t type) {
    return tensor(id, type, GraphShape::packed(1, 1, 1, 1), true, true);
}

GraphTensor CudnnGraph::between(cudnnDataType_t type, const GraphShape& shape) {
    return tensor(next_id_++, type, shape, false, false);
}

void CudnnGraph::product(GraphTensor a, GraphTensor b, GraphTensor to) {
    CudnnDescriptor& rule = made(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    rule.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    rule.finish();
    CudnnDescriptor& operation = made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, rule.handle());
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.handle);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.handle);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, to.handle);
    add(operation);
}

void CudnnGraph::add(const Pointwise& pointwise) {
    CudnnDescriptor& rule = made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    rule.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, pointwise.mode);
    rule.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    if (pointwise.axis >= 0) rule.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, pointwise.axis);
    rule.finish();
    CudnnDescriptor& operation = made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, rule.handle());
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, pointwise.x.handle);
    if (pointwise.y.handle != nullptr)
        operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, pointwise.y.handle);
    if (pointwise.condition.handle != nullptr)
        operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, pointwise.condition.handle);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, pointwise.to.handle);
    add(operation);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor to) {
    add({mode, x, to});
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor y,
                           GraphTensor to) {
    add({mode, x, to, y});
}

void CudnnGraph::select(GraphTensor x, GraphTensor y, GraphTensor condition, GraphTensor to) {
    add({CUDNN_POINTWISE_BINARY_SELECT, x, to, y, condition});
}

void CudnnGraph::index(std::int64_t axis, GraphTensor of, GraphTensor to) {
    add({CUDNN_POINTWISE_GEN_INDEX, of, to, {}, {}, axis});
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t by, GraphTensor x, GraphTensor to) {
    CudnnDescriptor& rule = made(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    rule.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, by);
    rule.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    rule.finish();
    CudnnDescriptor& operation = made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, rule.handle());
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.handle);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to.handle);
    add(operation);
}

void CudnnGraph::reshape(GraphTensor x, GraphTensor to) {
    CudnnDescriptor& operation = made(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.handle);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to.handle);
    add(operation);
}

CudnnDescriptor described_device(const std::string& json) {
    CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               static_cast<std::int64_t>(json.size()), json.data());
    device.finish();
    return device;
}

std::vector<CudnnEngine> engines_for(const CudnnGraph& graph, const CudnnTarget& target) {
    const auto operations =
        std::make_shared<CudnnDescriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    operations->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    static_cast<std::int64_t>(graph.operations().size()),
                    graph.operations().data());
    if (target.handle != nullptr)
        operations->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
    if (!operations->finished()) return {};  // this version knows no such graph
    CudnnDescriptor search(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    search.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations->handle());
    search.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    if (target.properties != nullptr)
        search.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.properties);
    std::vector<CudnnEngine> engines;
    if (!search.finished()) return engines;
    const std::int64_t most =
        count_of(search.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    std::vector<cudnnBackendDescriptor_t> results;
    for (std::int64_t i = 0; i < most; ++i) {
        engines.push_back({operations, CudnnDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)});
        results.push_back(engines.back().configuration.handle());
    }
    std::int64_t count = 0;
    if (most > 0)
        check(library().BackendGetAttribute(search.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                            results.data()),
              "engines");
    while (static_cast<std::int64_t>(engines.size()) > count)
        engines.pop_back();
    for (CudnnEngine& engine : engines)
        engine.workspace_bytes =
            bytes_of(engine.configuration.handle(), CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
    return engines;
}

std::unique_ptr<CudnnPlan> CudnnPlan::of(CudnnGraph graph, cudnnHandle_t handle,
                                         std::int64_t most_workspace_bytes) {
    for (CudnnEngine& engine : engines_for(graph, {handle})) {
        if (engine.workspace_bytes > most_workspace_bytes) continue;
        CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.configuration.handle());
        if (!plan.finished()) continue;
        // Compiled, it may ask for another one than was proposed.
        engine.workspace_bytes = bytes_of(plan.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
        if (engine.workspace_bytes <= most_workspace_bytes)
            return std::unique_ptr<CudnnPlan>(
                new CudnnPlan(std::move(graph), std::move(engine), std::move(plan)));
    }
    return nullptr;
}

void CudnnPlan::perform(cudnnHandle_t handle, std::span<const Binding> bindings,
                        void* workspace) const {
    std::vector<std::int64_t> ids;
    std::vector<const void*> pointers;
    for (const Binding& binding : bindings) {
        ids.push_back(binding.id);
        pointers.push_back(binding.pointer);
    }
    const auto count = static_cast<std::int64_t>(bindings.size());
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack.finish();
    check(library().BackendExecute(handle, plan_.handle(), pack.handle()), "attention");
}

}  // namespace orrery::runtime::cuda
