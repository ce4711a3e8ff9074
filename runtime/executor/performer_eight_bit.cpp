// Casts to eight bits, and the scales of what products read.
#include "plan/blocks/eight_bit.hpp"

#include "plan/check.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {
namespace {

// Scales of whole blocks, which are as large as their numbers tell.
Scales scales_beside(const Buffer& values, const plan::Tensor& matrix, const plan::Tensor& scales) {
    const std::int64_t rows = matrix.dims[0], columns = matrix.dims[1];
    const std::int64_t down = scales.dims[0], across = scales.dims[1];
    ORRERY_CHECK(rows % down == 0 && columns % across == 0,
                 scales.name + " are of whole blocks of " + matrix.name);
    return {values, rows / down, columns / across, across};
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
    std::size_t made = 0;
    for (const std::int64_t copy : {plan::kRowsCopy, plan::kColumnsCopy, plan::kTransposedCopy}) {
        if ((op.copies & copy) == 0) continue;
        quantize.copies[made].data = written(call, made);
        quantize.copies[made++].transposed = copy == plan::kTransposedCopy;
    }
    for (std::size_t i = 0; i < made; ++i) {
        const std::size_t scales = std::min(made + i, call.bound.writes.size() - 1);
        quantize.copies[i].scales = scales_beside(written(call, scales), call.written_tensor(i),
                                                  call.written_tensor(scales));
    }
    call.kernels.quantize(quantize);
}

void Performer::compute(const plan::Transpose& op, const Call& call) {
    for (std::size_t i = 0; i < call.bound.reads.size(); ++i)
        call.kernels.transpose({call.read_tensor(i).dims[0], call.read_tensor(i).dims[1],
                                op.matrices, read(call, i), written(call, i)});
}

}  // namespace orrery::runtime
