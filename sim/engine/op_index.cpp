#include "sim/engine/op_index.hpp"

namespace orrery::sim {

OpIndex::OpIndex(const EngineInput& input) : programs_(input.linked.size()) {
    for (const plan::Block& block : input.plan->blocks)
        for (const plan::Op& op : block.ops) {
            launches_.push_back(input.graphs.of(ops_.size(), input.launch.of(op.kind(), op.phase)));
            ops_.push_back(&op);
        }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
        const plan::LinkedProgram& linked = input.linked[p];
        IndexedProgram& indexed = programs_[p];
        indexed.linked = &linked;
        indexed.program = &input.plan->programs[p];
        indexed.stream_of.reserve(linked.size());
        for (std::size_t s = 0; s < plan::kStreams; ++s)
            indexed.stream_ops[s].reserve(linked.ops_per_stream[s]);
        for (std::uint32_t i = 0; i < linked.size(); ++i) {
            const plan::Op& op = *ops_[linked.op[i]];
            const auto stream = static_cast<std::uint8_t>(op.stream);
            indexed.stream_of.push_back(stream);
            indexed.stream_ops[stream].push_back(
                {i, linked.op[i], linked.first_wait[i],
                 static_cast<std::uint16_t>(linked.first_wait[i + 1] - linked.first_wait[i]),
                 op.group, plan::is_communication(op.kind()), op.kind() == plan::OpKind::exchange,
                 !plan::is_communication(op.kind()) && !plan::is_copy(op.kind()),
                 plan::is_communication(op.kind()) || op.stream == plan::Stream::server});
        }
    }
}

}  // namespace orrery::sim
