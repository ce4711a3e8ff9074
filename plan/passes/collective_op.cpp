#include "plan/passes/passes.hpp"

namespace orrery::plan {

Op collective_op(const Block& block, OpKind kind, Phase phase, Stream stream, GroupKind group,
                 std::int64_t elements, const char* label, TensorId reads, TensorId writes) {
    Op op;
    op.spec = spec_of(kind, {elements});
    op.phase = phase;
    op.stream = stream;
    op.group = group;
    op.dtype = block.tensors[static_cast<std::size_t>(reads)].dtype;
    op.reads = {reads};
    op.writes = {writes};
    op.label = label;
    return op;
}

}  // namespace orrery::plan
