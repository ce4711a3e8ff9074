#include "runtime/cuda/cuda_kernels.hpp"

#include <algorithm>
#include <initializer_list>

#include "plan/check.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/kernels/grouped_product.hpp"

namespace orrery::runtime::cuda {
namespace {

// runtime/kernels/cuda_capability.hpp refuses everything else before a run begins.
void check_types(std::initializer_list<Buffer> buffers) {
    for (const Buffer& buffer : buffers)
        ORRERY_CHECK(!buffer || buffer.dtype == plan::DType::fp32 ||
                         buffer.dtype == plan::DType::bf16 || buffer.dtype == plan::DType::fp16,
                     "CUDA kernels compute with fp32, bf16 and fp16");
}

// Statistics of gradients, which are summed, and copied, as they are.
bool all_wide(std::initializer_list<Buffer> buffers) {
    return std::all_of(buffers.begin(), buffers.end(),
                       [](const Buffer& buffer) { return buffer.dtype == plan::DType::fp64; });
}

void check_operands(const Gemm& op) {
    if (plan::is_eight_bit(op.a.dtype))
        check_types({op.bias, op.c});
    else
        check_types({op.a, op.b, op.bias, op.c});
}
void check_operands(const Attention& op) {
    check_types({op.qkv, op.context, op.lse, op.keys.kv, op.sums, op.scores.sinks});
}
void check_operands(const AttentionBackward& op) {
    check_types({op.dcontext, op.qkv, op.context, op.lse, op.dqkv, op.keys.kv, op.dq, op.dkv,
                 op.scores.sinks, op.dsinks});
}
void check_operands(const AttentionProduct& op) {
    check_types({op.qkv, op.maps, op.context, op.dqkv});
}
void check_operands(const Softmax& op) {
    check_types({op.scores, op.probabilities, op.rules.sinks});
}
void check_operands(const SoftmaxBackward& op) {
    check_types(
        {op.dprobabilities, op.probabilities, op.dscores, op.scores, op.rules.sinks, op.dsinks});
}
void check_operands(const Dropout& op) {
    check_types({op.x, op.y});
}
void check_operands(const DropoutBackward& op) {
    check_types({op.dy, op.dx});
}
void check_operands(const Norm& op) {
    check_types({op.x, op.weight, op.bias, op.y, op.stats});
}
void check_operands(const NormBackward& op) {
    check_types({op.dy, op.x, op.weight, op.stats, op.residual, op.dx, op.dweight, op.dbias});
}
void check_operands(const Activation& op) {
    check_types({op.x, op.y, op.up});
}
void check_operands(const ActivationBackward& op) {
    check_types({op.dy, op.told_by, op.dx, op.up});
}
void check_operands(const Rope& op) {
    check_types({op.qkv});
}
void check_operands(const QkNorm& op) {
    check_types({op.qkv, op.q_weight, op.k_weight, op.sums, op.y});
}
void check_operands(const QkNormSums& op) {
    check_types({op.qkv, op.dy, op.q_weight, op.k_weight, op.sums});
}
void check_operands(const QkNormBackward& op) {
    check_types({op.dy, op.qkv, op.q_weight, op.k_weight, op.sums, op.dots, op.dqkv, op.dq_weight,
                 op.dk_weight});
}
void check_operands(const TemperQueries& op) {
    check_types({op.qkv});
}
void check_operands(const LatentHeads& op) {
    check_types({op.q, op.kv, op.rotary_keys, op.qkv});
}
void check_operands(const ResidualAdd& op) {
    check_types({op.branch, op.x, op.positions, op.biases[0], op.biases[1], op.y});
}
void check_operands(const ResidualNorm& op) {
    check_operands(op.sum);
    check_operands(op.norm);
}
void check_operands(const Add& op) {
    if (!all_wide({op.a, op.b, op.y})) check_types({op.a, op.b, op.y});
}
void check_operands(const BiasGradient& op) {
    check_types({op.dy, op.dbias});
}
void check_operands(const Embedding& op) {
    check_types({op.table, op.y});
}
void check_operands(const EmbeddingBackward& op) {
    check_types({op.dy, op.dtable});
}
void check_operands(const CrossEntropyMax& op) {
    check_types({op.logits, op.largest});
}
void check_operands(const CrossEntropySum& op) {
    check_types({op.logits, op.largest, op.sums});
}
void check_operands(const CrossEntropyJoin& op) {
    check_types({op.part_sums, op.part_largest, op.sums, op.largest});
}
void check_operands(const CrossEntropy& op) {
    check_types({op.sums, op.loss});
}
void check_operands(const CrossEntropyBackward& op) {
    check_types({op.largest, op.sums, op.logits});
}
void check_operands(const GradientNorm& op) {
    check_types({op.gradients});
}
void check_operands(const Unscale& op) {
    check_types({op.gradients});
}
void check_operands(const UpdateLossScale&) {}
void check_operands(const LossShare& op) {
    check_types({op.loss});
}
void check_operands(const JudgeLoss&) {}
void check_operands(const AdamW& op) {
    check_types({op.gradients, op.m, op.v, op.master, op.parameters});
}
bool is_cast_of_eight_bits(const Cast& op) {
    return op.y.dtype == plan::DType::fp8_e4m3 || op.x.dtype == plan::DType::fp8_e4m3;
}
void check_operands(const Cast& op) {
    if (is_cast_of_eight_bits(op))
        check_types({plan::is_eight_bit(op.x.dtype) ? op.y : op.x});
    else if (!all_wide({op.x, op.y}))
        check_types({op.x, op.y});
}
void check_operands(const Amax& op) {
    check_types({op.x, op.largest});
}
void check_operands(const Quantize& op) {
    check_types({op.x, op.largest});
}
void check_operands(const UpdateScales& op) {
    check_types({op.history, op.noted});
}
void check_operands(const Transpose&) {}
void check_operands(const Rearrange& op) {
    check_types({op.from, op.to});
}
void check_operands(const Fill& op) {
    if (!all_wide({op.x})) check_types({op.x});
}

void check_operands(const GroupedGemm& op) {
    check_types({op.a, op.b, op.c});
}
void check_operands(const Route& op) {
    check_types({op.logits, op.bias, op.scores, op.weights});
}
void check_operands(const RouteBackward& op) {
    check_types({op.dweights, op.scores, op.dlogits});
}
void check_operands(const DropRows& op) {
    check_types({op.weights});
}
void check_operands(const CountChoices& op) {
    ORRERY_CHECK(op.choices.dtype == plan::DType::fp32, "choices are counted in fp32");
}
void check_operands(const BalanceGradient& op) {
    check_types({op.scores, op.choices, op.dlogits});
}
void check_operands(const RouterZGradient& op) {
    check_types({op.logits, op.dlogits});
}
void check_operands(const LoadGradient& op) {
    check_types({op.dbias});
}
void check_operands(const SignStep& op) {
    check_types({op.gradients, op.master, op.parameters});
}
void check_operands(const ChooseRanks&) {}
// Rows are copied whatever they are: choices, too.
void check_operands(const Permute& op) {
    check_types({op.weights, op.permuted_weights});
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    if (op.capacity > 0) check_types({op.y});
}
void check_operands(const Unpermute& op) {
    check_types({op.returned, op.returned_dweights, op.y, op.dweights});
}
void check_operands(const GroupRows& op) {
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
}
void check_operands(const SpreadRows& op) {
    check_types({op.x, op.y});
}
void check_operands(const SpreadWeights& op) {
    check_types({op.x, op.y});
}
void check_operands(const ExpertActivation& op) {
    check_types({op.x, op.weights, op.y});
}
void check_operands(const ExpertActivationBackward& op) {
    check_types({op.dy, op.x, op.weights, op.dx, op.dweights});
}
void check_operands(const ExpertBias& op) {
    check_types({op.x, op.biases, op.weights, op.y});
}
void check_operands(const ExpertBiasBackward& op) {
    check_types({op.dy, op.weights, op.biases, op.dbiases, op.dweights});
}
void check_operands(const WeighRows& op) {
    check_types({op.x, op.weights, op.y});
}
void check_operands(const WeighRowsBackward& op) {
    check_types({op.dy, op.x, op.weights, op.dx, op.dweights});
}
void check_operands(const GateRows& op) {
    check_types({op.x, op.logits, op.y});
}
void check_operands(const GateRowsBackward& op) {
    check_types({op.dy, op.x, op.logits, op.dx, op.dlogits});
}

struct Launched {
    cudaStream_t stream;
    CudaKernels& kernels;
    LtGemm* products;  // from the first one on
    ScratchMemory& scratch;

    void operator()(const Gemm& request) const {
        check_operands(request);
        products->perform(request, stream);
    }
    // A product for each expert that has rows; the host has to know how many.
    void operator()(const GroupedGemm& request) const {
        check_operands(request);
        ExpertPlaces places = request.places;
        places.counts =
            kernels.fetch({places.counts, static_cast<std::size_t>(places.ranks * places.experts)});
        std::int64_t first = 0;
        for (std::int64_t i = 0; i < places.local(); ++i) {
            const std::int64_t rows = places.rows_of(places.first_of(places.member) + i);
            const Gemm product = product_of(request, i, first, rows);
            if (rows > 0)
                products->perform_rows(product, stream);
            else if (product.form == GemmForm::weight_gradient && !product.accumulate)
                fill({product.m * product.n, 0, product.c}, stream);
            first += rows;
        }
    }
#define ORRERY_LAUNCH(name, Request)                \
    void operator()(const Request& request) const { \
        check_operands(request);                    \
        cuda::name(request, scratch, stream);       \
    }
    ORRERY_SCRATCH_KERNELS(ORRERY_LAUNCH)
#undef ORRERY_LAUNCH
#define ORRERY_LAUNCH(name, Request)                \
    void operator()(const Request& request) const { \
        check_operands(request);                    \
        cuda::name(request, stream);                \
    }
    ORRERY_OTHER_KERNELS(ORRERY_LAUNCH)
#undef ORRERY_LAUNCH
};

}  // namespace

void MemoryDeleter::operator()(void* memory) const {
    cudaFree(memory);
}

void HostMemoryDeleter::operator()(void* memory) const {
    cudaFreeHost(memory);
}

DeviceMemory allocate(std::int64_t bytes) {
    void* memory = nullptr;
    const auto size = static_cast<std::size_t>(bytes);
    const cudaError_t answer = cudaMalloc(&memory, size);
    if (answer == cudaErrorMemoryAllocation) {
        std::size_t free = 0, total = 0;
        cudaGetLastError();
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        throw DeviceError("cudaMalloc of " + std::to_string(bytes) + " bytes: the device has " +
                          std::to_string(free) + " free of " + std::to_string(total));
    }
    check(answer, "cudaMalloc of " + std::to_string(bytes) + " bytes");
    DeviceMemory owned(memory);
    check(cudaMemset(memory, 0, size), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return owned;
}

// cudaMemcpy from pageable memory may return while the last of it is on its way, and the backend's
// streams do not wait for the default one.
void copy_to_device(void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
    check(cudaStreamSynchronize(nullptr), "copy to the device");
}

CudaKernels::CudaKernels(cudaStream_t stream, Workspace workspace)
    : stream_(stream), workspace_(workspace) {}

void CudaKernels::launch(const KernelRequest& request) {
    const bool multiplies =
        std::holds_alternative<Gemm>(request) || std::holds_alternative<GroupedGemm>(request);
    if (!products_ && multiplies) products_ = std::make_unique<LtGemm>(workspace_);
    std::visit(Launched{stream_, *this, products_.get(), scratch_}, request);
}

void CudaKernels::copy(const void* from, void* to, std::int64_t bytes) {
    if (from == to || bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_),
          "copy within the device");
}

const std::int32_t* CudaKernels::fetch(std::span<const std::int32_t> numbers) {
    if (fetched_count_ < numbers.size()) {
        fetched_.reset();
        void* memory = nullptr;
        check(cudaMallocHost(&memory, numbers.size_bytes()), "cudaMallocHost");
        fetched_.reset(static_cast<std::int32_t*>(memory));
        fetched_count_ = numbers.size();
    }
    check(cudaMemcpyAsync(fetched_.get(), numbers.data(), numbers.size_bytes(),
                          cudaMemcpyDeviceToHost, stream_),
          "copy of counts to the host");
    check(cudaStreamSynchronize(stream_), "wait for counts");
    return fetched_.get();
}

void CudaKernels::bring(std::span<const std::int32_t> from, void* to) {
    check(cudaMemcpyAsync(to, from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream_),
          "copy of tokens to the device");
}

const double* CudaKernels::keep(std::span<const double> values) {
    DeviceMemory memory = allocate(static_cast<std::int64_t>(values.size_bytes()));
    copy_to_device(memory.get(), values.data(), values.size_bytes());
    kept_.push_back(std::move(memory));
    return static_cast<const double*>(kept_.back().get());
}

}  // namespace orrery::runtime::cuda
