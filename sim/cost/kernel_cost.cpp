#include "sim/cost/kernel_cost.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plan/blocks/eight_bit.hpp"
#include "plan/check.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "sim/cost/attention_model.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/cost/log2.hpp"

namespace orrery::sim {
namespace {

using plan::OpKind;

// Per octave by which a shape leaves the measured range, the error may grow by this share.
constexpr double kWideningPerOctave = 0.5;
// A head size, element type or mask other than the measured one: as wide as this at least.
constexpr double kBorrowedCurveSd = 0.15;

// Rows of a tile of a grouped product (CUTLASS's default for Hopper and for Ampere, and cuBLAS's
// most frequent one).
constexpr double kTileRows = 128;
// Of grouped products by the dense curve: the root mean square of 30 timings of six kernels on four
// devices (tests/sim/grouped_product_timings_test.cpp).
constexpr double kGroupedSd = 0.125;

double element_bytes(plan::DType dtype) {
    return static_cast<double>(plan::size_bytes(dtype));
}

double to_double(std::int64_t value) {
    return static_cast<double>(value);
}

// Of the memory's bandwidth that single operations of PyTorch reach where they mix bf16 with fp32
// and spread a row's or a column's numbers over a matrix. Fitted to 8 runs of gpt-oss-120b on H100
// and GB200 (Megatron-Bridge 25.11 to 26.04), mean error 5.4 %; 7 on B200, B300 and GB300 6.7 %.
constexpr double kSingleOperationsShare = 0.43;

// Tensor cores want rows of whole 16 bytes (NVIDIA, Matrix Multiplication Background User's
// Guide, 2.2). Batched products of others go without them, at the rate of fp32: so say BLOOM's
// experiments with heads of 108 and 150 (bigscience-workshop/bigscience, train/tr11-176B-ml).
constexpr double kMisalignedSd = 0.2;

bool has_aligned_rows(const GemmShape& shape, double element_bytes) {
    return std::fmod(shape.n * element_bytes, 16) == 0 &&
           std::fmod(shape.k * element_bytes, 16) == 0;
}

// Whether every row, or block, that is cast has a scale of its own.
bool has_many_scales(const plan::Block& block, const plan::Op& op) {
    const std::int64_t matrices = op.is<plan::QuantizeRows>() ? op.as<plan::QuantizeRows>().local()
                                                              : op.as<plan::Quantize>().matrices;
    return std::any_of(op.writes.begin(), op.writes.end(), [&](plan::TensorId id) {
        const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        return !plan::is_eight_bit(tensor.dtype) && tensor.dims.size() == 2 &&
               tensor.elements() > matrices;
    });
}

// The device does not multiply eight-bit numbers, or not as the scenario's recipe scales them.
plan::ScenarioError no_products(const char* pointer, const char* value, std::string message,
                                std::string note) {
    plan::Diagnostic fault;
    fault.code = "S063";
    fault.pointer = pointer;
    fault.value = value;
    fault.message = std::move(message);
    fault.note = std::move(note);
    fault.help = {
        "another recipe, precision or device; or a profile that has them, as calibrate "
        "and fit make one"};
    return plan::ScenarioError(std::move(fault));
}

}  // namespace

std::string_view name(CostFamily family) {
    constexpr std::array<std::string_view, kCostFamilies> kNames = {"gemm",
                                                                    "batched_gemm",
                                                                    "attention",
                                                                    "memory",
                                                                    "intra_node_collective",
                                                                    "inter_node_collective",
                                                                    "point_to_point",
                                                                    "copy"};
    return kNames[static_cast<std::size_t>(family)];
}

KernelCost::KernelCost(const Profile& profile, const plan::Framework& framework,
                       std::int64_t ranks_of_machine, std::int64_t machines, std::int64_t sequence,
                       NeighbourRatios* ratios)
    : profile_(profile),
      ratios_(ratios),
      attention_factor_(framework.attention_factor),
      composed_loss_(framework.loss_kernel == plan::LossKernel::composed),
      composed_norms_(framework.norm_kernel == plan::NormKernel::composed),
      one_by_one_(framework.expert_products == plan::ExpertProducts::one_by_one),
      split_biases_(framework.expert_biases == plan::ExpertBiases::split),
      permute_kernel_(framework.permute_kernel),
      sequence_(to_double(sequence)),
      memory_factor_(framework.memory_kernel_factor),
      column_cast_factor_(framework.column_cast_factor),
      stretch_(profile.stretch_of(ranks_of_machine) * framework.kernel_factor *
               (1 + framework.straggler_share * log2_of(static_cast<double>(machines)))) {}

const GemmCurve& KernelCost::gemm_curve(plan::DType dtype) const {
    if (const GemmCurve* curve = profile_.gemm_curve(dtype)) return *curve;
    if (plan::is_eight_bit(dtype))
        throw no_products("/training/precision", "\"fp8\"",
                          fmt::format("{} has no eight-bit products", profile_.device),
                          fmt::format("{}: /gemm/fp8: missing", profile_.path));
    throw ProfileError(fmt::format("{}: /gemm/{}: missing, and the plan computes in {}",
                                   profile_.path, plan::name(dtype), plan::name(dtype)));
}

// Of an eight-bit product by how its operands are scaled, over that with one scale for a tensor, or
// for each of its matrices; `scales`: of its first operand.
double KernelCost::scaled_rate(const plan::Tensor& scales, std::int64_t matrices,
                               const GemmCurve& curve) const {
    if (scales.elements() == matrices) return 1;
    const bool micro = scales.dtype == plan::DType::u8;
    const bool rows = !micro && (scales.dims[0] == matrices || scales.dims[1] == 1);
    const std::optional<Quantity>& ratio = micro  ? curve.micro_block_scales
                                           : rows ? curve.row_scales
                                                  : curve.block_scales;
    const char* key = micro ? "micro_block_scales" : rows ? "row_scales" : "block_scales";
    if (!ratio)
        throw no_products(
            "/training/fp8_recipe", "",
            fmt::format("{} has no products of numbers that are scaled so", profile_.device),
            fmt::format("{}: /gemm/fp8/{}: missing", profile_.path, key));
    return ratio->value;
}

Price KernelCost::price_gemm(const plan::Block& block, const plan::Op& op,
                             const plan::Gemm& gemm) const {
    const GemmCurve& curve = gemm_curve(op.dtype);
    const GemmShape shape{to_double(gemm.m), to_double(gemm.n), to_double(gemm.k), gemm.product};
    Price price;
    price.family = CostFamily::gemm;
    price.seconds = gemm_seconds(curve, shape, element_bytes(op.dtype), ratios_);
    price.relative_sd =
        curve.relative_sd * (1.0 + kWideningPerOctave * octaves_outside(curve, shape));
    if (!plan::is_eight_bit(op.dtype)) return price;
    const plan::Tensor& scales = block.tensors[static_cast<std::size_t>(op.reads[2])];
    if (const double rate = scaled_rate(scales, 1, curve); rate != 1) {
        const double t0 = curve.t0_us * 1e-6;
        price.seconds = t0 + (price.seconds - t0) / rate;
        price.relative_sd = std::max(price.relative_sd, kBorrowedCurveSd);
    }
    return price;
}

// A kernel for each expert, of the mean one's rows, where the stack or the profile's runtime does
// it so. Else one kernel for all experts of a rank, which fills the device as one product of all
// their rows does: its rate is that of these rows by one expert's matrix. Every expert's matrix is
// read or written once, however few rows come to it, at the memory's bandwidth at most. Tiles are
// of one expert's rows: the last one of each is half full on average.
Price KernelCost::price_grouped_gemm(const plan::Block& block, const plan::Op& op,
                                     double load) const {
    const plan::GroupedGemm& grouped = op.as<plan::GroupedGemm>();
    const GemmCurve& curve = gemm_curve(op.dtype);
    const double experts = to_double(grouped.products());
    const double rows = to_double(grouped.expected) * load;
    const bool weights = grouped.product == plan::GemmProduct::weight_gradient;
    GemmShape shape{rows + experts * kTileRows / 2, to_double(grouped.n), to_double(grouped.k),
                    grouped.product};
    if (weights) {
        shape.m = to_double(grouped.m) * experts;
        shape.k = rows / experts;
    }
    // Beyond the one matrix, or the one operand, that a product of this shape has.
    const double others = (experts - 1) * shape.n * shape.k;
    Price price;
    price.family = CostFamily::gemm;
    const double bytes = element_bytes(op.dtype);
    const double bandwidth =
        profile_.hardware.memory_GBps.value * 1e9 * profile_.memory.efficiency.value;
    const double matrices =
        experts * to_double(weights ? grouped.m : grouped.k) * to_double(grouped.n) * bytes;
    const double t0 = curve.t0_us * 1e-6;
    const double rate = plan::is_eight_bit(op.dtype)
                            ? scaled_rate(block.tensors[static_cast<std::size_t>(op.reads[3])],
                                          grouped.local(), curve)
                            : 1;
    if (one_by_one_ || profile_.expert_by_expert) {
        const GemmShape of_one{weights ? to_double(grouped.m) : rows / experts, shape.n,
                               weights ? shape.k : to_double(grouped.k), grouped.product};
        const double seconds = gemm_seconds(curve, of_one, bytes, ratios_);
        price.seconds = experts * (t0 + (seconds - t0) / rate);
        price.relative_sd =
            curve.relative_sd * (1.0 + kWideningPerOctave * octaves_outside(curve, of_one));
        return price;
    }
    const double product = (gemm_seconds(curve, shape, bytes, ratios_) - t0) / rate;
    price.seconds = t0 + std::max(product + others * bytes / (curve.bandwidth_GBps * 1e9),
                                  matrices / bandwidth);
    price.relative_sd = std::max(kGroupedSd, curve.relative_sd) *
                        (1.0 + kWideningPerOctave * octaves_outside(curve, shape));
    if (rate != 1) price.relative_sd = std::max(price.relative_sd, kBorrowedCurveSd);
    return price;
}

// The products of unfused attention are many and small: a share of the GEMM rate, and their
// operands (the scores above all) do not stay in cache.
Price KernelCost::price_batched_gemm(const plan::Op& op) const {
    const GemmCurve& curve = gemm_curve(op.dtype);
    const plan::BatchedGemm& product = op.as<plan::BatchedGemm>();
    const GemmShape shape{to_double(product.m), to_double(product.n), to_double(product.k)};
    const double batch = to_double(product.batch);
    const bool misaligned =
        op.dtype != plan::DType::fp32 && !has_aligned_rows(shape, element_bytes(op.dtype));
    double gemm_rate = curve.rate_tflops * curve.sustained;
    if (misaligned) {
        const GemmCurve& plain = gemm_curve(plan::DType::fp32);
        gemm_rate = std::min(gemm_rate, plain.rate_tflops * plain.sustained);
    }
    const double rate = gemm_rate * 1e12 * profile_.batched_gemm.rate_ratio.value;
    const double bandwidth =
        profile_.hardware.memory_GBps.value * 1e9 * profile_.memory.efficiency.value;
    Price price;
    price.family = CostFamily::batched_gemm;
    price.seconds = curve.t0_us * 1e-6 + batch * gemm_flops(shape) / rate +
                    batch * gemm_bytes(shape, element_bytes(op.dtype)) / bandwidth;
    price.relative_sd = profile_.batched_gemm.relative_sd;
    if (misaligned) price.relative_sd = std::max(price.relative_sd, kMisalignedSd);
    return price;
}

namespace {

// Products over a head's elements of queries and keys, and over those of values.
void set_unequal(const plan::AttentionProducts& products, double values, AttentionShape& shape) {
    shape.product_dim = (products.of_keys * shape.head_dim + products.of_values * values) /
                        (products.of_keys + products.of_values);
    shape.element_dim = (shape.head_dim + values) / 2;
}

// Sizes of any attention. Of a rank's share of the queries causal work is balanced.
AttentionShape attention_shape(const plan::OpSpec& spec, bool backward) {
    AttentionShape shape;
    std::visit(
        [&](const auto& op) {
            if constexpr (requires { op.queries + op.head_dim; }) {
                shape.batch = to_double(op.batch);
                shape.queries = to_double(op.queries);
                shape.keys = to_double(op.keys);
                shape.heads = to_double(op.heads);
                shape.kv_heads = to_double(op.kv_heads);
                shape.head_dim = to_double(op.head_dim);
                if (op.value_dim > 0)
                    set_unequal(backward ? plan::kBackwardProducts : plan::kForwardProducts,
                                to_double(op.values()), shape);
            }
            if constexpr (requires { op.hop; }) shape.balanced = true;
            if constexpr (requires { op.queries + op.head_dim + op.window; })
                shape.window = to_double(op.window);
        },
        spec);
    return shape;
}

// Whether probabilities are dropped.
bool drops(const plan::OpSpec& spec) {
    return std::visit(
        [](const auto& op) {
            if constexpr (requires { op.queries + op.drop.rate; }) return op.drop.rate > 0;
            return false;
        },
        spec);
}

}  // namespace

Price KernelCost::price_attention(const plan::Op& op, bool backward) const {
    const AttentionProfile& attention = profile_.attention;
    const AttentionShape shape = attention_shape(op.spec, backward);
    const auto head_dim = static_cast<std::int64_t>(shape.head_dim);
    const bool has_own = backward && !attention.backward.empty();
    AttentionCurve curve =
        nearest_curve(has_own ? attention.backward : attention.forward, head_dim);
    const bool other_type =
        op.dtype != attention.dtype && &gemm_curve(op.dtype) != &gemm_curve(attention.dtype);
    if (other_type) {  // as much slower as its GEMMs, its elements as much wider
        const double rates =
            gemm_curve(op.dtype).rate_tflops / gemm_curve(attention.dtype).rate_tflops;
        const double widths = element_bytes(op.dtype) / element_bytes(attention.dtype);
        curve.rate_tflops *= rates;
        curve.query_element_ps *= widths;
        curve.key_element_ps *= widths;
    }
    double octaves = 0;
    if (curve.measured && shape.queries < curve.sequence.low)
        octaves = log2_of(curve.sequence.low / shape.queries);
    if (curve.measured && shape.queries > curve.sequence.high)
        octaves = log2_of(shape.queries / curve.sequence.high);
    Price price;
    price.family = CostFamily::attention;
    price.seconds = attention_seconds(curve, shape);
    price.relative_sd = curve.relative_sd;
    if (curve.head_dim != head_dim || other_type || shape.window > 0 || shape.product_dim > 0)
        price.relative_sd = std::max(price.relative_sd, kBorrowedCurveSd);
    if (backward && !has_own) {
        price.seconds *= attention.backward_flop_ratio.value / attention.backward_rate_ratio.value;
        price.relative_sd = std::max(price.relative_sd, attention.backward_relative_sd);
    }
    if (drops(op.spec)) {
        const std::optional<Quantity>& ps =
            backward ? attention.backward_dropout_ps : attention.forward_dropout_ps;
        if (ps) price.seconds += ps->value * 1e-12 * attended_pairs(shape);
    }
    price.relative_sd *= 1.0 + kWideningPerOctave * octaves;
    return price;
}

// Sums over the hops are wider than what a kernel over all keys reads and writes: they travel to
// and from memory besides.
Price KernelCost::price_attention_block(const plan::Block& block, const plan::Op& op,
                                        bool backward) const {
    Price price = price_attention(op, backward);
    std::int64_t wide = 0;
    for (const auto* ids : {&op.reads, &op.writes})
        for (const plan::TensorId id : *ids) {
            const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
            if (tensor.dtype != op.dtype) wide += tensor.bytes();
        }
    const double bandwidth =
        profile_.hardware.memory_GBps.value * 1e9 * profile_.memory.efficiency.value;
    price.seconds += static_cast<double>(wide) / bandwidth;
    return price;
}

// Two regimes: operands that fit the cache travel at its bandwidth, operands of twice the cache or
// more at the memory's; between the two the time is linear in the bytes, so that it never falls.
Price KernelCost::price_bytes(OpKind kind, double bytes, double t0_us) const {
    const MemoryProfile& memory = profile_.memory;
    const double resident = memory.resident_bytes.value;
    const double cache_bandwidth = memory.efficiency.value * memory.cache_GBps.value * 1e9;
    const double bandwidth = memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9;
    double seconds = bytes / bandwidth;
    if (bytes <= resident) {
        seconds = bytes / cache_bandwidth;
    } else if (bytes < 2 * resident) {
        const double at_cache = resident / cache_bandwidth;
        const double at_memory = 2 * resident / bandwidth;
        seconds = at_cache + (at_memory - at_cache) * (bytes - resident) / resident;
    }
    Price price;
    price.family = CostFamily::memory;
    price.seconds = t0_us * 1e-6 + seconds;
    price.relative_sd = memory.relative_sd;
    if (const auto& own = memory.kernels[static_cast<std::size_t>(kind)]) {
        if (own->GBps > 0) seconds = std::max(seconds, bytes / (own->GBps * 1e9));
        price.seconds = own->t0_us * 1e-6 + seconds;
        price.relative_sd = own->relative_sd;
    }
    return price;
}

Price KernelCost::price_memory(const plan::Block& block, const plan::Op& op, double t0_us,
                               double load) const {
    return price_bytes(op.kind(), plan::bytes_moved(block, op) * load, t0_us);
}

// Until it is timed: the product's time, and that of what its kernel reads or writes beside it, at
// the memory's pace. That much of it passes while the product goes on, nobody says.
Price KernelCost::price_activated_gemm(const plan::Block& block, const plan::Op& op) const {
    const auto& activated = op.as<plan::ActivatedGemm>();
    Price price = price_gemm(block, op, activated.gemm());
    const bool beside = !activated.is_forward() || op.writes.size() > 1;
    if (!beside) return price;
    const OpKind function =
        activated.is_forward() ? OpKind::activation : OpKind::activation_backward;
    const double bytes = to_double(activated.m) * to_double(activated.n) * element_bytes(op.dtype);
    const Price memory = price_bytes(function, bytes, 0);
    price.seconds += memory.seconds - price_bytes(function, 0, 0).seconds;
    price.relative_sd = std::max(price.relative_sd, memory.relative_sd);
    return price;
}

// Until it is timed: the product's time, and that of reading the residual, which is as large as the
// result, at the memory's pace, none of which is said to pass while the product goes on.
Price KernelCost::price_residual_gemm(const plan::Block& block, const plan::Op& op) const {
    Price price = price_gemm(block, op, op.as<plan::ResidualGemm>().gemm());
    const plan::Tensor& result = block.tensors[static_cast<std::size_t>(op.writes[0])];
    const Price read = price_bytes(OpKind::residual_add, to_double(result.bytes()), 0);
    price.seconds += read.seconds - price_bytes(OpKind::residual_add, 0, 0).seconds;
    price.relative_sd = std::max(price.relative_sd, read.relative_sd);
    return price;
}

// Until it is timed: the product's time, as if the sums of what passes through it took none, and a
// kernel that adds them to those of earlier micro-batches, since cuBLASLt's epilogue overwrites.
// The first micro-batch's has nothing to add to, and is priced as the others.
Price KernelCost::price_bias_gradient_gemm(const plan::Block& block, const plan::Op& op) const {
    const auto& gradients = op.as<plan::BiasGradientGemm>();
    Price price = price_gemm(block, op, gradients.gemm());
    const plan::Tensor& sums = block.tensors[static_cast<std::size_t>(op.writes[1])];
    const Price added =
        price_bytes(OpKind::add, 3 * to_double(sums.bytes()), profile_.memory.t0_us.value);
    price.seconds += added.seconds;
    price.relative_sd = std::max(price.relative_sd, added.relative_sd);
    return price;
}

// Until it is timed: what residual_add and norm take, but for the norm's constant and its reading
// of the sum, the half of what it moves. So it is where all operands fit the cache and where none
// do; between them what fits for one of the two is at hand for this kernel, too, though all
// together would not.
Price KernelCost::price_residual_norm(const plan::Block& block, const plan::Op& op) const {
    const MemoryProfile& memory = profile_.memory;
    const double t0_us = memory.t0_us.value;
    if (memory.kernels[static_cast<std::size_t>(OpKind::residual_norm)])
        return price_memory(block, op, t0_us);
    const double sum = to_double(op.size(0)) * to_double(op.size(1)) * element_bytes(op.dtype);
    Price price = price_bytes(OpKind::residual_add, plan::bytes_moved(block, op) - sum, t0_us);
    const Price norm = price_bytes(OpKind::norm, 2 * sum, t0_us);
    price.seconds += (norm.seconds - price_bytes(OpKind::norm, 0, t0_us).seconds) / 2;
    price.relative_sd = std::max(price.relative_sd, norm.relative_sd);
    return price;
}

// Megatron Core's loss without --cross-entropy-loss-fusion (megatron/core/tensor_parallel/
// cross_entropy.py, VocabParallelCrossEntropy): of the logits the maximum is taken off,
// exponentials are made, both in place, summed, and divided by the sum: seven passes in four
// kernels, where one pass makes the sum. Backward multiplies these in place, as the plan's kernel
// makes them again.
Price KernelCost::price_exponentials(const plan::Block& block, const plan::Op& op) const {
    const MemoryProfile& memory = profile_.memory;
    Price price = price_memory(block, op, memory.t0_us.value);
    if (!composed_loss_ || op.as<plan::CrossEntropySum>().finds_largest) return price;
    const plan::Tensor& logits = block.tensors[static_cast<std::size_t>(op.reads[0])];
    const auto bytes = static_cast<double>(logits.bytes());
    constexpr int kPasses = 7, kKernels = 4;
    price.seconds += (kKernels - 1) * memory.t0_us.value * 1e-6 +
                     (kPasses - 1) * (price_bytes(op.kind(), bytes, 0).seconds);
    return price;
}

// A norm by single operations of PyTorch, as in the model code of Touvron et al. 2023
// (meta-llama/llama, llama/model.py): to fp32, square, mean, times, back, times the weight;
// autograd then runs 14. In passes over the rows, of elements of the model's width and of fp32. Two
// of them each way are casts of the plan, which keep what backward reads.
Price KernelCost::price_norm(const plan::Block& block, const plan::Op& op, double t0_us) const {
    Price price = price_memory(block, op, t0_us);
    if (!composed_norms_) return price;
    const bool forward = op.kind() == OpKind::norm;
    const double own = element_bytes(block.tensors[static_cast<std::size_t>(op.reads[0])].dtype);
    const double bytes = forward ? own + 6 * 4 : 5 * own + 16 * 4;
    const int kernels = forward ? 4 : 12;
    const MemoryProfile& memory = profile_.memory;
    price.seconds = kernels * memory.t0_us.value * 1e-6 +
                    bytes * to_double(op.size(0)) * to_double(op.size(1)) /
                        (memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9);
    price.relative_sd = memory.relative_sd;
    return price;
}

namespace {

// What single operations move of each element of a result, in elements of the model's type and of
// fp32, and in how many kernels; of so many rows.
struct SingleOperations {
    int own = 0, wide = 0;
    std::int64_t kernels = 0;
    std::int64_t rows = 0;
};

SingleOperations of_biases(const plan::ExpertBias& bias) {
    if (!bias.weighs) return {};
    return {2, 6, 2 * bias.local() + 2, bias.expected};
}

SingleOperations of_biases(const plan::ExpertBiasBackward& bias) {
    if (!bias.weighs) return {};
    const std::int64_t sums = bias.local() * (bias.by_source ? bias.ranks : 1);
    return {4, 8, 4 * sums + 3, bias.expected};
}

// Megatron Core's TEGroupedMLP (megatron/core/transformer/moe/experts.py). Biases of the first
// product, and their gradients, come of its epilogue. Those of the second are weighed in fp32
// (b·p, t + b·p), joined and cast back; backward casts, joins and, for each expert, multiplies and
// sums twice. The clamped activation (weighted_bias_quick_geglu_impl) clamps gate and up, joins
// them, and goes on in one kernel; backward has two of those, one for each clamp, and joins.
std::optional<SingleOperations> single_operations(const plan::Op& op) {
    constexpr auto kClamped = plan::ActivationFunction::clamped_swiglu;
    if (op.is<plan::ExpertBias>()) return of_biases(op.as<plan::ExpertBias>());
    if (op.is<plan::ExpertBiasBackward>()) return of_biases(op.as<plan::ExpertBiasBackward>());
    if (op.is<plan::ExpertActivate>()) {
        const auto& made = op.as<plan::ExpertActivate>();
        if (made.function == kClamped) return SingleOperations{11, 0, 4, made.expected};
        return std::nullopt;
    }
    const auto& made = op.as<plan::ExpertActivateBackward>();
    if (made.function == kClamped) return SingleOperations{18, 0, 6, made.expected};
    return std::nullopt;
}

}  // namespace

// Products go to cuBLAS one by one, on four streams (NVIDIA/TransformerEngine 2.9 to 2.16,
// transformer_engine/common/gemm/cublaslt_gemm.cu, multi_stream_cublas_gemm), casts to a kernel for
// each expert but those of delayed scaling, which have one for all
// (pytorch/csrc/extensions/cast.cpp, multi_tensor_quantize_impl).
std::int64_t launches_by_expert(const plan::Op& op, const plan::Fp8& fp8) {
    if (op.is<plan::GroupedGemm>()) return op.as<plan::GroupedGemm>().products();
    if (op.is<plan::AmaxRows>()) return op.as<plan::AmaxRows>().local();
    if (op.is<plan::QuantizeRows>())
        return fp8.recipe == plan::Fp8Recipe::delayed ? 1 : op.as<plan::QuantizeRows>().local();
    const OpKind kind = op.kind();
    if (kind != OpKind::expert_bias && kind != OpKind::expert_bias_backward &&
        kind != OpKind::expert_activation && kind != OpKind::expert_activation_backward)
        return 1;
    const std::optional<SingleOperations> taken = single_operations(op);
    return taken ? std::max<std::int64_t>(taken->kernels, 1) : 1;
}

Price KernelCost::price_biased_experts(const plan::Block& block, const plan::Op& op, double t0_us,
                                       double load) const {
    Price price = price_memory(block, op, t0_us, load);
    const std::optional<SingleOperations> taken =
        split_biases_ ? single_operations(op) : std::nullopt;
    if (!taken) return price;
    const double own = element_bytes(block.tensors[static_cast<std::size_t>(op.reads[0])].dtype);
    const double bytes = taken->own * own + taken->wide * std::max(own, 4.0);
    const MemoryProfile& memory = profile_.memory;
    price.seconds = to_double(taken->kernels) * memory.t0_us.value * 1e-6 +
                    bytes * load * to_double(taken->rows) * to_double(op.size(1)) /
                        (kSingleOperationsShare * memory.efficiency.value *
                         profile_.hardware.memory_GBps.value * 1e9);
    price.relative_sd = memory.relative_sd;
    return price;
}

namespace {

// Megatron Core's functions without --moe-permute-fusion (index_select; index_copy_, times weights,
// sum) on 8,192 tokens of 4,096 bf16 and fp16 numbers, 8 copies each: 0.44 ms, its gradient 2.30;
// 2.99, its gradient 5.65 (DeepLink-org/DLBlas pull request 66). The fused kernels there reach 2.2
// to 3.0 TB/s, which H100's memory does. As long as so many bytes of an element take at H100's pace
// (0.8 of 3.35 TB/s). In fp32 only the first takes longer: the others are bound by elements.
// tile-ai/TileOPs pull request 608 has 0.20 ms for the sum of 2,048 tokens' 2 copies on H200 (0.19
// by this at H100's pace), pytorch/ao pull request 4623 has 1.85 ms for the gradient of a gather of
// 196,608 rows of 2,048 on B200 (1.45 by this, at B200's).
struct IndexedBytes {
    double permute = 4.4, permute_gradient = 23;
    double sum = 30, sum_gradient = 56;
};

// What permute and unpermute have in common. Of what comes from each rank of a split the sum is
// made before.
struct PermutedRows {
    double tokens = 0, width = 0;
    double room = 0, expected = 0;  // rows that experts take
    bool has_capacity = false, has_weights = false, copies = false;
};

PermutedRows permuted_rows(const plan::Op& op) {
    const auto of = [&](const auto& made, std::int64_t split, bool copies) {
        const std::int64_t expected = made.copies > 0 ? made.copies : made.copy_room();
        return PermutedRows{to_double(made.rows),
                            to_double(made.width),
                            to_double(made.copy_room() / split),
                            to_double(expected / split),
                            made.capacity > 0,
                            op.reads.size() > 2,
                            copies};
    };
    if (op.is<plan::Permute>()) return of(op.as<plan::Permute>(), 1, true);
    return of(op.as<plan::Unpermute>(), op.as<plan::Unpermute>().split, false);
}

}  // namespace

// MaxText's rows for experts with a capacity (AI-Hypercomputer/maxtext, MaxText/layers/moe.py,
// dense_matmul: einsums BSM,BSEC -> EBCM and EBCM,BSEC -> BSM): of each sequence a product of its
// tokens by a mask of all rows that its experts have room for. Backward gives tokens and rows a
// gradient, and the masks of the sum, which hold the weights.
Price KernelCost::price_masked_rows(const plan::Op& op) const {
    const PermutedRows rows = permuted_rows(op);
    const double sequences = std::max(1.0, rows.tokens / sequence_);
    const GemmCurve& curve = gemm_curve(op.dtype);
    const GemmShape shape{rows.room / sequences, rows.width, rows.tokens / sequences, {}};
    const double products = rows.copies && !rows.has_weights ? 2 : 1;
    Price price;
    price.family = CostFamily::batched_gemm;
    price.seconds =
        sequences * products * gemm_seconds(curve, shape, element_bytes(op.dtype), ratios_);
    price.relative_sd = curve.relative_sd;
    return price;
}

// Rows carry their weights out: what copies without weights is a gradient, and so is what has
// those of weights back.
Price KernelCost::price_permutation(const plan::Block& block, const plan::Op& op) const {
    const PermutedRows rows = permuted_rows(op);
    if (permute_kernel_ == plan::PermuteKernel::masked && rows.has_capacity)
        return price_masked_rows(op);
    const MemoryProfile& memory = profile_.memory;
    Price price = price_memory(block, op, memory.t0_us.value);
    if (permute_kernel_ != plan::PermuteKernel::indexed) return price;
    constexpr IndexedBytes kBytes;
    double bytes = rows.has_weights ? kBytes.permute_gradient : kBytes.sum;
    if (rows.copies) bytes = rows.has_weights ? kBytes.permute : kBytes.sum_gradient;
    const double bandwidth = memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9;
    price.seconds = std::max(
        price.seconds, memory.t0_us.value * 1e-6 + bytes * rows.expected * rows.width / bandwidth);
    return price;
}

// Of experts that go one after another each one's results are a tensor of their own, and so are, in
// backward, the gradients of its rows: both are joined before they are put back into the order in
// which they came (NVIDIA/Megatron-LM, megatron/core/transformer/moe/experts.py, SequentialMLP:
// torch.cat, and torch.split's gradient).
Price KernelCost::price_group_rows(const plan::Block& block, const plan::Op& op,
                                   double load) const {
    Price price = price_memory(block, op, profile_.memory.t0_us.value, load);
    if (one_by_one_ && op.as<plan::GroupRows>().apart) price.seconds *= 2;
    return price;
}

// Where columns are slow they are cast by a kernel of their own, which reads the matrix again.
Price KernelCost::price_quantize(const plan::Block& block, const plan::Op& op, double t0_us,
                                 double load) const {
    Price price = price_memory(block, op, t0_us, load);
    double share = 1;  // of the matrix that is cast
    const bool counted = op.is<plan::QuantizeRows>();
    if (counted) {
        const plan::QuantizeRows& cast = op.as<plan::QuantizeRows>();
        share = load * to_double(cast.expected) / to_double(cast.rows);
    }
    const std::int64_t copies =
        counted ? op.as<plan::QuantizeRows>().copies : op.as<plan::Quantize>().copies;
    const bool columns = (copies & (plan::kColumnsCopy | plan::kTransposedCopy)) != 0;
    if (column_cast_factor_ == 1 || !columns || !has_many_scales(block, op)) return price;
    const plan::Tensor& source = block.tensors[static_cast<std::size_t>(op.reads[0])];
    const double copy = share * to_double(source.elements());
    const double own = share * to_double(source.bytes()) + copy;
    const bool rows = (copies & plan::kRowsCopy) != 0;
    const double more = column_cast_factor_ * own - (rows ? copy : own);
    price.seconds +=
        more / (profile_.memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9);
    return price;
}

Price KernelCost::price(const plan::Block& block, const plan::Op& op, double load) const {
    Price price = price_alone(block, op, load);
    price.seconds *= stretch_;
    if (price.family == CostFamily::attention) price.seconds *= attention_factor_;
    if (price.family == CostFamily::memory) price.seconds *= memory_factor_;
    return price;
}

Price KernelCost::price_alone(const plan::Block& block, const plan::Op& op, double load) const {
    const MemoryProfile& memory = profile_.memory;
    switch (op.kind()) {
        case OpKind::gemm:
            return price_gemm(block, op, op.as<plan::Gemm>());
        case OpKind::activated_gemm:
            return price_activated_gemm(block, op);
        case OpKind::residual_gemm:
            return price_residual_gemm(block, op);
        case OpKind::bias_gradient_gemm:
            return price_bias_gradient_gemm(block, op);
        case OpKind::batched_gemm:
            return price_batched_gemm(op);
        case OpKind::attention:
            return price_attention(op, false);
        case OpKind::attention_backward:
            return price_attention(op, true);
        case OpKind::attention_block:
            return price_attention_block(block, op, false);
        case OpKind::attention_block_backward:
            return price_attention_block(block, op, true);
        case OpKind::grouped_gemm:
            return price_grouped_gemm(block, op, load);
        case OpKind::expert_activation:
        case OpKind::expert_activation_backward:
        case OpKind::expert_bias:
            return price_biased_experts(block, op, memory.t0_us.value, load);
        case OpKind::permute:
        case OpKind::unpermute:
            return price_permutation(block, op);
        case OpKind::group_rows:
            return price_group_rows(block, op, load);
        case OpKind::spread_rows:
        case OpKind::spread_weights:
        case OpKind::weigh_rows:
        case OpKind::weigh_rows_backward:
            return price_memory(block, op, memory.t0_us.value, load);
        case OpKind::quantize:
        case OpKind::quantize_rows:
            return price_quantize(block, op, memory.t0_us.value, load);
        case OpKind::cross_entropy_sum:
            return price_exponentials(block, op);
        case OpKind::norm:
            return price_norm(block, op, memory.t0_us.value);
        case OpKind::norm_backward:
            return price_norm(block, op, memory.reduction_t0_us.value);
        case OpKind::residual_norm:
            return price_residual_norm(block, op);
        case OpKind::qk_norm_backward:
        case OpKind::bias_gradient:
        case OpKind::embedding_backward:
        case OpKind::gradient_norm:
        case OpKind::amax:
            return price_memory(block, op, memory.reduction_t0_us.value);
        case OpKind::expert_bias_backward:
            return price_biased_experts(block, op, memory.reduction_t0_us.value, load);
        case OpKind::amax_rows:
            return price_memory(block, op, memory.reduction_t0_us.value, load);
        default:
            if (plan::family(op.kind()) == plan::OpFamily::memory)
                return price_memory(block, op, memory.t0_us.value);
    }
    ORRERY_CHECK(false, "no kernel: " + std::string(plan::name(op.kind())) + " " + op.label);
    return {};
}

}  // namespace orrery::sim
