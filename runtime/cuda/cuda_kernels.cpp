#include "runtime/cuda/cuda_kernels.hpp"

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/operand_types.hpp"
#include "runtime/kernels/grouped_product.hpp"

namespace orrery::runtime::cuda {
namespace {

struct Launched {
    cudaStream_t stream;
    CudaKernels& kernels;
    LtGemm* products;  // null: the request is none
    ScratchMemory& scratch;

    void operator()(const Gemm& request) const {
        check_types({request.bias, request.c});
        if (!plan::is_eight_bit(request.a.dtype)) check_types({request.a, request.b});
        if (request.each_row_alone)  // experts' rows
            products->perform_rows(request, scratch, stream);
        else
            products->perform(request, scratch, stream);
    }
    void operator()(const ActivatedGemm& request) const {
        const Gemm& product = request.product;
        check_types({product.a, product.b, product.bias, product.c, request.before});
        products->perform(request, stream);
    }
    void operator()(const BiasGradientGemm& request) const {
        const Gemm& product = request.product;
        check_types({product.a, product.b, product.c, request.dbias});
        products->perform(request, scratch, stream);
    }
    // A product for each expert that has rows; the host has to know how many.
    void operator()(const GroupedGemm& request) const {
        check_types({request.a, request.b, request.c});
        ExpertPlaces places = request.places;
        places.counts =
            kernels.fetch({places.counts, static_cast<std::size_t>(places.ranks * places.experts)});
        for_products(places, request.by_source, [&](const ProductRows& of) {
            const Gemm product = product_of(request, of);
            if (of.rows > 0)
                products->perform_rows(product, scratch, stream);
            else if (product.form == GemmForm::weight_gradient && !product.accumulate)
                fill({product.m * product.n, 0, product.c}, stream);
        });
    }
#define ORRERY_LAUNCH(name, Request)                \
    void operator()(const Request& request) const { \
        cuda::name(request, scratch, stream);       \
    }
    ORRERY_SCRATCH_KERNELS(ORRERY_LAUNCH)
#undef ORRERY_LAUNCH
#define ORRERY_LAUNCH(name, Request)                \
    void operator()(const Request& request) const { \
        cuda::name(request, stream);                \
    }
    ORRERY_OTHER_KERNELS(ORRERY_LAUNCH)
#undef ORRERY_LAUNCH
};

}  // namespace

void MemoryDeleter::operator()(void* memory) const {
    cudaFree(memory);
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

CudaKernels::CudaKernels(cudaStream_t stream, Workspace workspace, ProductChoices* choices,
                         bool cudnn)
    : stream_(stream), workspace_(workspace), choices_(choices), cudnn_(cudnn) {}

LtGemm& CudaKernels::products() {
    if (!products_) products_ = std::make_unique<LtGemm>(workspace_, choices_);
    return *products_;
}

CudnnAttention* CudaKernels::attention_for(const KernelRequest& request) {
    const bool attends = std::holds_alternative<Attention>(request) ||
                         std::holds_alternative<AttentionBackward>(request);
    if (!cudnn_ || !attends) return nullptr;
    if (!attention_) attention_ = std::make_unique<CudnnAttention>(stream_);
    return attention_.get();
}

bool CudaKernels::attends_by_cudnn(const KernelRequest& request) {
    CudnnAttention* const attention = attention_for(request);
    if (attention == nullptr) return false;
    const auto* const forward = std::get_if<Attention>(&request);
    return forward != nullptr ? attention->perform(*forward, scratch_)
                              : attention->perform(std::get<AttentionBackward>(request));
}

void CudaKernels::launch(const KernelRequest& request) {
    if (attends_by_cudnn(request)) return;
    const bool multiplies = std::holds_alternative<Gemm>(request) ||
                            std::holds_alternative<ActivatedGemm>(request) ||
                            std::holds_alternative<BiasGradientGemm>(request) ||
                            std::holds_alternative<GroupedGemm>(request);
    std::visit(Launched{stream_, *this, multiplies ? &products() : nullptr, scratch_}, request);
}

// How many rows the products of a GroupedGemm have, only a step knows.
void CudaKernels::prepare(const KernelRequest& request) {
    if (const auto* product = std::get_if<Gemm>(&request))
        products().prepare(*product, scratch_, stream_);
    if (const auto* product = std::get_if<ActivatedGemm>(&request))
        products().prepare(*product, stream_);
    if (const auto* gradients = std::get_if<BiasGradientGemm>(&request))
        products().prepare(*gradients, scratch_, stream_);
    CudnnAttention* const attention = attention_for(request);
    if (attention == nullptr) return;
    if (const auto* forward = std::get_if<Attention>(&request))
        attention->prepare(*forward, scratch_);
    else
        attention->prepare(std::get<AttentionBackward>(request));
}

void CudaKernels::copy(const void* from, void* to, std::int64_t bytes) {
    if (from == to || bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_),
          "copy within the device");
}

const std::int32_t* CudaKernels::fetch(std::span<const std::int32_t> numbers) {
    if (fetched_bytes_ < numbers.size_bytes()) {
        fetched_.reset();
        fetched_ = allocate_pinned(numbers.size_bytes());
        fetched_bytes_ = numbers.size_bytes();
    }
    check(cudaMemcpyAsync(fetched_.get(), numbers.data(), numbers.size_bytes(),
                          cudaMemcpyDeviceToHost, stream_),
          "copy of counts to the host");
    check(cudaStreamSynchronize(stream_), "wait for counts");
    return reinterpret_cast<const std::int32_t*>(fetched_.get());
}

void CudaKernels::bring(std::span<const std::int32_t> from, void* to) {
    staging_.bring(std::as_bytes(from), to, stream_);
}

void CudaKernels::prepare_bring(std::int64_t numbers) {
    staging_.add(static_cast<std::size_t>(numbers) * sizeof(std::int32_t));
}

const void* CudaKernels::keep_bytes(std::span<const std::byte> bytes) {
    DeviceMemory memory = allocate(static_cast<std::int64_t>(bytes.size()));
    copy_to_device(memory.get(), bytes.data(), bytes.size());
    kept_.push_back(std::move(memory));
    return kept_.back().get();
}

}  // namespace orrery::runtime::cuda
