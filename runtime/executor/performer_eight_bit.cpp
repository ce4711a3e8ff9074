// Casts to eight bits, and the scales of what products read.
#include <algorithm>
#include <array>

#include "plan/check.hpp"
#include "plan/ops/eight_bit.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::runtime {
namespace {

constexpr std::array kWays = {plan::kRowsCopy, plan::kColumnsCopy, plan::kTransposedCopy};

// Scales of whole blocks, which are as large as their numbers tell.
Scales scales_beside(const Buffer& values, const plan::Tensor& matrix, const plan::Tensor& scales) {
    const std::int64_t rows = matrix.dims[0], columns = matrix.dims[1];
    const std::int64_t down = scales.dims[0], across = scales.dims[1];
    ORRERY_CHECK(rows % down == 0 && columns % across == 0,
                 scales.name + " are of whole blocks of " + matrix.name);
    return {values, rows / down, columns / across, across};
}

// The copies that an op of `copies` writes, in their order, and the scales behind them: of each, or
// of all.
template <typename Add>
void each_copy(std::int64_t copies, std::size_t written, const Add& add) {
    std::size_t made = 0, index = 0;
    for (const std::int64_t copy : kWays)
        made += (copies & copy) != 0 ? 1 : 0;
    for (const std::int64_t copy : kWays)
        if ((copies & copy) != 0) {
            add(index, std::min(made + index, written - 1), copy == plan::kTransposedCopy);
            ++index;
        }
}

// An expert's rows among those of all.
struct ExpertRun {
    std::int64_t expert = 0, first = 0, rows = 0;
    std::int64_t blocks_before = 0;  // of the experts before, of so many rows as below
};

// Rows of experts that share a scale: one, a block that may not be full, or 0: all of an expert's.
std::int64_t rows_of_scale(const plan::Tensor& scales, bool transposed, std::int64_t rows,
                           std::int64_t experts) {
    if (scales.elements() == experts) return 0;
    const std::int64_t along = transposed ? scales.dims[1] : scales.dims[0];
    ORRERY_CHECK(rows != experts, "a scale for each row is one for each expert");
    if (along == experts) return 0;
    if (along == rows) return 1;
    return scales.dtype == plan::DType::u8 ? plan::kMicroBlock : plan::kScaleBlock;
}

// Calls f(ExpertRun) for the rank's experts.
template <typename F>
void each_run(const ExpertPlaces& places, std::int64_t rows_of_scale, const F& f) {
    ExpertRun run;
    for (; run.expert < places.local(); ++run.expert) {
        run.rows = places.rows_of(places.first_of(places.member) + run.expert);
        f(run);
        run.first += run.rows;
        run.blocks_before +=
            rows_of_scale == 0 ? 1 : (run.rows + rows_of_scale - 1) / rows_of_scale;
    }
}

// Of one expert's rows in a copy of all of them.
EightBitCopy copy_of_run(const ExpertRun& run, const Buffer& data, const plan::Tensor& matrix,
                         const Buffer& values, const plan::Tensor& scales, bool transposed,
                         std::int64_t rows_of_scale) {
    const std::int64_t width = transposed ? matrix.dims[0] : matrix.dims[1];
    const std::int64_t along =
        rows_of_scale == 0 ? std::max<std::int64_t>(1, run.rows) : rows_of_scale;
    EightBitCopy copy;
    copy.data = from_element(data, transposed ? run.first : run.first * width);
    copy.transposed = transposed;
    if (transposed) copy.stride = matrix.dims[1];
    if (scales.dims[1] == 1 && rows_of_scale == 0) {  // one for each expert, both ways
        copy.scales = {from_element(values, run.expert), std::max(width, along),
                       std::max(width, along)};
        return copy;
    }
    const std::int64_t across = transposed ? scales.dims[0] : scales.dims[1];
    copy.scales.stride = scales.dims[1];
    copy.scales.values =
        from_element(values, transposed ? run.blocks_before : run.blocks_before * across);
    copy.scales.rows = transposed ? width / across : along;
    copy.scales.columns = transposed ? along : width / across;
    return copy;
}

}  // namespace

Scales Performer::read_scales(const Call& call, std::size_t matrix, std::size_t scales) const {
    return scales_beside(read(call, scales), call.read_tensor(matrix), call.read_tensor(scales));
}

void Performer::compute(const plan::Amax& op, const Call& call) {
    call.kernels.amax({op.elements, op.matrices, read(call, 0), written(call, 0)});
}

// Writes the copies, then scales of each, or of all.
void Performer::compute(const plan::Quantize& op, const Call& call) {
    Quantize quantize;
    quantize.rows = op.rows;
    quantize.width = op.width;
    quantize.matrices = op.matrices;
    quantize.x = read(call, 0);
    if (call.bound.reads.size() > 1) quantize.largest = read(call, 1);
    const bool notes = call.bound.reads.size() > 2;
    each_copy(op.copies, call.bound.writes.size() - (notes ? 1 : 0),
              [&](std::size_t i, std::size_t scales, bool transposed) {
                  quantize.copies[i] = {written(call, i),
                                        scales_beside(written(call, scales), call.written_tensor(i),
                                                      call.written_tensor(scales)),
                                        transposed};
              });
    if (notes)
        call.kernels.amax({op.rows * op.width, op.matrices, quantize.x, read(call, 2), true});
    call.kernels.quantize(quantize);
}

// Reads, and writes, histories, then what each notes.
void Performer::compute(const plan::UpdateScales&, const Call& call) {
    const std::size_t histories = call.bound.reads.size() / 2;
    for (std::size_t i = 0; i < histories; ++i) {
        const std::int64_t matrices = call.bound.reads[histories + i].elements;
        call.kernels.update_scales({call.bound.reads[i].elements / matrices, matrices,
                                    read(call, i), read(call, histories + i)});
    }
}

void Performer::compute(const plan::CollectAmaxes&, const Call& call) {
    std::int64_t offset = call.bound.writes[0].offset;
    for (const Operand& amax : call.bound.reads) {
        call.kernels.copy(arena_ + amax.offset, arena_ + offset, amax.bytes());
        offset += amax.bytes();
    }
}

void Performer::compute(const plan::SpreadAmaxes&, const Call& call) {
    std::int64_t offset = call.bound.reads[0].offset;
    for (const Operand& amax : call.bound.writes) {
        call.kernels.copy(arena_ + offset, arena_ + amax.offset, amax.bytes());
        offset += amax.bytes();
    }
}

void Performer::compute(const plan::Transpose& op, const Call& call) {
    for (std::size_t i = 0; i < call.bound.reads.size(); ++i)
        call.kernels.transpose({call.read_tensor(i).dims[0], call.read_tensor(i).dims[1],
                                op.matrices, read(call, i), written(call, i)});
}

void Performer::compute(const plan::AmaxRows& op, const Call& call) {
    each_run(places_on_host(op, call, 1), 0, [&](const ExpertRun& run) {
        call.kernels.amax({run.rows * op.width, 1,
                           from_element(read(call, 0), run.first * op.width),
                           from_element(written(call, 0), run.expert)});
    });
}

// Expert by expert: each has scales of its own.
void Performer::compute(const plan::QuantizeRows& op, const Call& call) {
    const ExpertPlaces places = places_on_host(op, call, 1);
    each_copy(op.copies, call.bound.writes.size(), [&](std::size_t i, std::size_t s, bool turned) {
        const plan::Tensor& scales = call.written_tensor(s);
        const std::int64_t shared = rows_of_scale(scales, turned, op.rows, op.local());
        each_run(places, shared, [&](const ExpertRun& run) {
            if (run.rows == 0) return;
            Quantize quantize{run.rows, op.width, 1, {}, {}, {}};
            quantize.x = from_element(read(call, 0), run.first * op.width);
            if (call.bound.reads.size() > 2)
                quantize.largest = from_element(read(call, 2), run.expert);
            quantize.copies[0] = copy_of_run(run, written(call, i), call.written_tensor(i),
                                             written(call, s), scales, turned, shared);
            call.kernels.quantize(quantize);
        });
    });
}

// A gemm for each expert. Its rows' copies lie as QuantizeRows has made them, its matrix as
// Quantize has.
void Performer::grouped_gemm_of_eight_bits(const plan::GroupedGemm& op, const Call& call) {
    const bool sums = op.product == plan::GemmProduct::weight_gradient;
    const bool turned = sums && op.transposed;
    const auto copy_of = [&](std::size_t operand, std::size_t scales, const ExpertRun& run) {
        const plan::Tensor& beside = call.read_tensor(scales);
        return copy_of_run(run, read(call, operand), call.read_tensor(operand), read(call, scales),
                           beside, turned, rows_of_scale(beside, turned, op.rows(), op.local()));
    };
    const auto shared = rows_of_scale(call.read_tensor(3), turned, op.rows(), op.local());
    const Scales matrices = sums ? Scales{} : read_scales(call, 1, 4);
    each_run(places_on_host(op, call, 2), shared, [&](const ExpertRun& run) {
        Gemm gemm;
        gemm.form = op.transposed ? GemmForm::forward : form_of(op.product);
        gemm.m = sums ? op.m : run.rows;
        gemm.n = op.n;
        gemm.k = sums ? run.rows : op.k;
        gemm.accumulate = call.bound.accumulates;
        gemm.each_row_alone = !sums;
        const EightBitCopy a = copy_of(0, 3, run);
        gemm.a = a.data;
        gemm.a_scales = a.scales;
        gemm.a_stride = a.stride;
        if (sums) {
            const EightBitCopy b = copy_of(1, 4, run);
            gemm.b = b.data;
            gemm.b_scales = b.scales;
            gemm.b_stride = b.stride;
            gemm.c = from_element(written(call, 0), run.expert * op.m * op.n);
        } else {
            const std::int64_t rows = call.read_tensor(1).dims[0] / op.local();
            gemm.b = from_element(read(call, 1), run.expert * op.n * op.k);
            gemm.b_scales = matrices;
            gemm.b_scales.first_row = run.expert * rows;
            gemm.c = from_element(written(call, 0), run.first * op.n);
        }
        call.kernels.gemm(gemm);
    });
}

}  // namespace orrery::runtime
