#include "runtime/cuda/cudnn_attention.hpp"

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/kernels/attention_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Tensors of a graph that have memory, or that the host gives.
enum Id : std::int64_t {
    kQueries = 1,
    kKeys,
    kValues,
    kContext,
    kLse,
    kDContext,
    kDQueries,
    kDKeys,
    kDValues,
    kScale,
    kUnseen,  // the score of a key that a query does not see
    kWindow,
    kOne,
    kRowSums,   // Σ dcontext·context of each row
    kQuerySums  // dq before it is rounded
};

// Its kernels read 16 bytes at once.
constexpr std::int64_t kEights = 8;  // of 16 bits

bool aligned(std::initializer_list<const Buffer*> buffers) {
    for (const Buffer* buffer : buffers)
        if (reinterpret_cast<std::uintptr_t>(buffer->data) % (2 * kEights) != 0) return false;
    return true;
}

template <typename Request>
std::optional<AttentionGraphKey> key_of(bool backward, const Request& op, const Buffer& qkv) {
    const AttentionShape& shape = op.shape;
    const bool half = qkv.dtype == plan::DType::bf16 || qkv.dtype == plan::DType::fp16;
    const bool plain = op.mask.slopes == nullptr && !op.dropout.key && op.scores.soft_cap == 0 &&
                       !op.scores.sinks && !op.keys.kv && op.part.ranks == 1;
    if (!half || !plain || op.lse.dtype != plan::DType::fp32) return std::nullopt;
    if (shape.head_dim % kEights != 0 || shape.values() % kEights != 0) return std::nullopt;
    // A window that holds the whole sequence is none.
    const std::int64_t window = op.mask.window < shape.sequence ? op.mask.window : 0;
    return AttentionGraphKey{backward,       qkv.dtype,      shape.batch,
                             shape.sequence, shape.heads,    shape.kv_heads,
                             shape.head_dim, shape.values(), window};
}

// Where the heads of packed rows lie.
struct Rows {
    explicit Rows(const AttentionGraphKey& key)
        : shape{key.batch, key.sequence, key.heads, key.kv_heads, key.head_dim, key.value_dim} {}

    GraphShape of(std::int64_t heads, std::int64_t columns, std::int64_t width) const {
        return {{shape.batch, heads, shape.sequence, columns},
                {shape.sequence * width, columns, width, 1}};
    }
    GraphShape queries() const { return of(shape.heads, shape.head_dim, shape.qkv_width()); }
    GraphShape keys() const { return of(shape.kv_heads, shape.head_dim, shape.qkv_width()); }
    GraphShape values() const { return of(shape.kv_heads, shape.values(), shape.qkv_width()); }
    GraphShape context() const { return of(shape.heads, shape.values(), shape.context_width()); }
    GraphShape maps() const { return columns(shape.sequence); }
    GraphShape rows() const { return columns(1); }
    // Of each query head, packed.
    GraphShape columns(std::int64_t count) const {
        return GraphShape::packed(shape.batch, shape.heads, shape.sequence, count);
    }

    AttentionShape shape;
};

// The operations that attention and its gradients share.
class AttentionGraph {
  public:
    explicit AttentionGraph(const AttentionGraphKey& key)
        : key_(key),
          at_(key),
          type_(key.dtype == plan::DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF) {
        queries_ = graph_.memory(kQueries, type_, at_.queries());
        transposed_keys_ = graph_.memory(kKeys, type_, at_.keys().transposed());
        scale_ = graph_.number(kScale, CUDNN_DATA_FLOAT);
    }

    CudnnGraph forward() && {
        const GraphTensor values = graph_.memory(kValues, type_, at_.values());
        const GraphTensor context = graph_.memory(kContext, type_, at_.context());
        const GraphTensor lse = graph_.memory(kLse, CUDNN_DATA_FLOAT, at_.rows());
        const GraphTensor seen = masked(scaled(scores()));
        const GraphTensor largest = of_rows(), sum = of_rows(), logarithm = of_rows();
        const GraphTensor lower = map(), exponentials = map(), probabilities = map(type_);
        graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, largest);
        graph_.pointwise(CUDNN_POINTWISE_SUB, seen, largest, lower);
        graph_.pointwise(CUDNN_POINTWISE_EXP, lower, exponentials);
        graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
        graph_.pointwise(CUDNN_POINTWISE_LOG, sum, logarithm);
        graph_.pointwise(CUDNN_POINTWISE_ADD, largest, logarithm, lse);
        graph_.pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, probabilities);
        graph_.product(probabilities, values, context);
        return std::move(graph_);
    }

    // Probabilities are made again of the log of their sum. dscores = p·(dp − Σ dcontext·context).
    CudnnGraph backward() && {
        const GraphTensor transposed_values =
            graph_.memory(kValues, type_, at_.values().transposed());
        const GraphTensor context = graph_.memory(kContext, type_, at_.context());
        const GraphTensor dcontext = graph_.memory(kDContext, type_, at_.context());
        const GraphTensor lse = graph_.memory(kLse, CUDNN_DATA_FLOAT, at_.rows());
        const GraphTensor one = graph_.number(kOne, CUDNN_DATA_FLOAT);
        const GraphTensor row_sums = graph_.memory(kRowSums, CUDNN_DATA_FLOAT, at_.rows());
        const GraphTensor along = graph_.between(CUDNN_DATA_FLOAT, at_.columns(key_.value_dim));
        const GraphTensor summed = of_rows();
        graph_.pointwise(CUDNN_POINTWISE_MUL, dcontext, context, along);
        graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, along, summed);
        graph_.pointwise(CUDNN_POINTWISE_MUL, summed, one, row_sums);

        const GraphTensor lower = map(), probabilities = map();
        graph_.pointwise(CUDNN_POINTWISE_SUB, scaled(scores()), lse, lower);
        graph_.pointwise(CUDNN_POINTWISE_EXP, masked(lower), probabilities);
        add_to_keys(probabilities, dcontext, kDValues, at_.values());

        const GraphTensor dprobabilities = map(), apart = map(), weighed = map(), dscores = map();
        graph_.product(dcontext, transposed_values, dprobabilities);
        graph_.pointwise(CUDNN_POINTWISE_SUB, dprobabilities, row_sums, apart);
        graph_.pointwise(CUDNN_POINTWISE_MUL, apart, probabilities, weighed);
        graph_.pointwise(CUDNN_POINTWISE_MUL, weighed, scale_, dscores);
        add_to_keys(dscores, queries_, kDKeys, at_.keys());

        const GraphTensor keys = graph_.between(type_, at_.keys());
        const GraphTensor sums =
            graph_.memory(kQuerySums, CUDNN_DATA_FLOAT, at_.columns(key_.head_dim));
        const GraphTensor dqueries = graph_.memory(kDQueries, type_, at_.queries());
        graph_.reshape(transposed_keys_, keys);
        graph_.product(dscores, keys, sums);
        graph_.pointwise(CUDNN_POINTWISE_IDENTITY, sums, dqueries);
        return std::move(graph_);
    }

  private:
    GraphTensor map(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
        return graph_.between(type, at_.maps());
    }
    GraphTensor of_rows() { return graph_.between(CUDNN_DATA_FLOAT, at_.rows()); }

    GraphTensor scores() {
        const GraphTensor products = map();
        graph_.product(queries_, transposed_keys_, products);
        return products;
    }
    GraphTensor scaled(GraphTensor products) {
        const GraphTensor scaled_products = map();
        graph_.pointwise(CUDNN_POINTWISE_MUL, products, scale_, scaled_products);
        return scaled_products;
    }

    // What a query does not see is −∞: keys after it, and those before its window.
    GraphTensor masked(GraphTensor of) {
        const GraphTensor unseen = graph_.number(kUnseen, CUDNN_DATA_FLOAT);
        GraphTensor seen = select(of, unseen, of, {}, CUDNN_POINTWISE_CMP_GE);
        if (key_.window > 0)
            seen = select(seen, unseen, of, graph_.number(kWindow, CUDNN_DATA_INT32),
                          CUDNN_POINTWISE_CMP_GT);
        return seen;
    }
    // Of rows compared with columns; with a window, of columns that much further on with rows.
    GraphTensor select(GraphTensor of, GraphTensor unseen, GraphTensor places, GraphTensor window,
                       cudnnPointwiseMode_t comparison) {
        const GraphTensor row = map(CUDNN_DATA_INT32), column = map(CUDNN_DATA_INT32);
        const GraphTensor is_seen = map(CUDNN_DATA_BOOLEAN), selected = map();
        graph_.index(2, places, row);
        graph_.index(3, places, column);
        if (window.handle != nullptr) {
            const GraphTensor further = map(CUDNN_DATA_INT32);
            graph_.pointwise(CUDNN_POINTWISE_ADD, column, window, further);
            graph_.pointwise(comparison, further, row, is_seen);
        } else {
            graph_.pointwise(comparison, row, column, is_seen);
        }
        graph_.select(of, unseen, is_seen, selected);
        return selected;
    }

    // mapsᵀ·rows, summed over the query heads of each head of keys.
    void add_to_keys(GraphTensor maps, GraphTensor rows, Id id, const GraphShape& shape) {
        const GraphTensor turned = graph_.between(type_, at_.maps().transposed());
        const GraphTensor gradient = graph_.memory(id, type_, shape);
        graph_.reshape(maps, turned);
        if (key_.heads == key_.kv_heads) return graph_.product(turned, rows, gradient);
        const GraphTensor of_heads = graph_.between(type_, at_.columns(shape.sizes[3]));
        graph_.product(turned, rows, of_heads);
        graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, gradient);
    }

    AttentionGraphKey key_;
    Rows at_;
    cudnnDataType_t type_;
    CudnnGraph graph_;
    GraphTensor queries_, transposed_keys_, scale_;
};

const std::byte* at(const Buffer& buffer, std::int64_t element) {
    return static_cast<const std::byte*>(buffer.data) + element * plan::size_bytes(buffer.dtype);
}

// Numbers that graphs are given; those that one has no use for are not.
struct Numbers {
    float scale = 1, unseen = -std::numeric_limits<float>::infinity(), one = 1;
    std::int32_t window = 0;
};

// What forward and backward are given alike. The numbers must live until it is performed.
template <typename Request>
std::vector<CudnnPlan::Binding> bound(const Request& op, const AttentionGraphKey& key,
                                      Numbers& numbers) {
    numbers.scale = static_cast<float>(op.scale);
    numbers.window = static_cast<std::int32_t>(key.window);
    std::vector<CudnnPlan::Binding> bindings = {{kQueries, at(op.qkv, query_at(op.shape, 0, 0))},
                                                {kKeys, at(op.qkv, key_at(op.shape, 0, 0))},
                                                {kValues, at(op.qkv, value_at(op.shape, 0, 0))},
                                                {kContext, op.context.data},
                                                {kLse, op.lse.data},
                                                {kScale, &numbers.scale},
                                                {kUnseen, &numbers.unseen}};
    if (key.window > 0) bindings.push_back({kWindow, &numbers.window});
    return bindings;
}

std::int64_t workspace_of(const AttentionBackward& op) {
    return op.room.workspace_elements * plan::size_bytes(plan::DType::fp32);
}

constexpr std::int64_t kWorkspaceBytes = std::int64_t{1} << 16;  // of attention forward

}  // namespace

std::optional<AttentionGraphKey> graph_key_of(const Attention& op) {
    if (op.continues || !op.ends || !aligned({&op.qkv, &op.context})) return std::nullopt;
    return key_of(false, op, op.qkv);
}

std::optional<AttentionGraphKey> graph_key_of(const AttentionBackward& op) {
    if (!op.room.dq || !op.dqkv || !aligned({&op.qkv, &op.context, &op.dcontext, &op.dqkv}))
        return std::nullopt;
    return key_of(true, op, op.qkv);
}

CudnnGraph graph_of(const AttentionGraphKey& key) {
    AttentionGraph graph(key);
    return key.backward ? std::move(graph).backward() : std::move(graph).forward();
}

CudnnAttention::CudnnAttention(cudaStream_t stream) {
    // Nothing needs it: where it does not start, either.
    if (cudnn() == nullptr || cudnn()->Create(&handle_) != CUDNN_STATUS_SUCCESS) {
        handle_ = nullptr;
        return;
    }
    check(cudnn()->SetStream(handle_, stream), "stream");
}

CudnnAttention::~CudnnAttention() {
    plans_.clear();
    if (handle_ != nullptr) cudnn()->Destroy(handle_);
}

const CudnnPlan* CudnnAttention::plan_for(const std::optional<AttentionGraphKey>& key,
                                          std::int64_t workspace_bytes) {
    if (handle_ == nullptr || !key) return nullptr;
    const auto [entry, is_new] = plans_.try_emplace(*key);
    if (is_new) entry->second = CudnnPlan::of(graph_of(*key), handle_, workspace_bytes);
    return entry->second.get();
}

// To take memory waits for the device.
void CudnnAttention::prepare(const Attention& op, ScratchMemory& scratch) {
    const CudnnPlan* const plan = plan_for(graph_key_of(op), kWorkspaceBytes);
    if (plan != nullptr) scratch.numbers<std::byte>(plan->workspace_bytes());
}

void CudnnAttention::prepare(const AttentionBackward& op) {
    plan_for(graph_key_of(op), workspace_of(op));
}

bool CudnnAttention::perform(const Attention& op, ScratchMemory& scratch) {
    const auto key = graph_key_of(op);
    const CudnnPlan* const plan = plan_for(key, kWorkspaceBytes);
    if (plan == nullptr) return false;
    Numbers numbers;
    const auto bindings = bound(op, *key, numbers);
    plan->perform(handle_, bindings, scratch.numbers<std::byte>(plan->workspace_bytes()));
    return true;
}

bool CudnnAttention::perform(const AttentionBackward& op) {
    const auto key = graph_key_of(op);
    const CudnnPlan* const plan = plan_for(key, workspace_of(op));
    if (plan == nullptr) return false;
    Numbers numbers;
    auto bindings = bound(op, *key, numbers);
    bindings.insert(bindings.end(), {{kOne, &numbers.one},
                                     {kDContext, op.dcontext.data},
                                     {kDQueries, at(op.dqkv, query_at(op.shape, 0, 0))},
                                     {kDKeys, at(op.dqkv, key_at(op.shape, 0, 0))},
                                     {kDValues, at(op.dqkv, value_at(op.shape, 0, 0))},
                                     {kQuerySums, op.room.dq.data},
                                     {kRowSums, op.room.rows.data}});
    plan->perform(handle_, bindings, op.room.workspace.data);
    return true;
}

}  // namespace orrery::runtime::cuda
