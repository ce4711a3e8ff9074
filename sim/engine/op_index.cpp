#include "sim/engine/op_index.hpp"

namespace orrery::sim {

OpIndex::OpIndex(const EngineInput& input) : input_(input), stream_ops_(input.linked.size()) {
    for (const plan::Block& block : input.plan->blocks)
        for (const plan::Op& op : block.ops)
            facts_.push_back({op.kind, op.group, static_cast<std::uint8_t>(op.stream),
                              plan::is_communication(op.kind), op.shape[0]});
    for (std::size_t p = 0; p < input.linked.size(); ++p) {
        const plan::LinkedProgram& program = input.linked[p];
        for (std::size_t s = 0; s < plan::kStreams; ++s)
            stream_ops_[p][s].reserve(program.ops_per_stream[s]);
        for (std::uint32_t i = 0; i < program.size(); ++i)
            stream_ops_[p][facts_[program.op[i]].stream].push_back(i);
    }
}

}  // namespace orrery::sim
