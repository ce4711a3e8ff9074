#include "sim/engine/op_index.hpp"

namespace orrery::sim {

OpIndex::OpIndex(const EngineInput& input) : programs_(input.linked.size()) {
    std::vector<StreamOp> known;  // by number: what is the same wherever it is issued
    for (const plan::Block& block : input.plan->blocks)
        for (const plan::Op& op : block.ops) {
            const bool communicates = plan::is_communication(op.kind());
            known.push_back({0, static_cast<std::uint32_t>(ops_.size()), 0, 0, op.group,
                             communicates, op.kind() == plan::OpKind::exchange,
                             !communicates && !plan::is_copy(op.kind()),
                             communicates || op.stream == plan::Stream::server});
            launches_.push_back(input.graphs.of(ops_.size(), input.launch.of(op.kind(), op.phase)));
            ops_.push_back(&op);
        }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
        const plan::LinkedProgram& linked = input.linked[p];
        IndexedProgram& indexed = programs_[p];
        indexed.linked = &linked;
        indexed.program = &input.plan->programs[p];
        indexed.stream_of.resize(linked.size());
        for (std::size_t s = 0; s < plan::kStreams; ++s)
            indexed.stream_ops[s].reserve(linked.ops_per_stream[s]);
        for (std::uint32_t i = 0; i < linked.size(); ++i) {
            const auto stream = static_cast<std::uint8_t>(ops_[linked.op[i]]->stream);
            indexed.stream_of[i] = stream;
            StreamOp& op = indexed.stream_ops[stream].emplace_back(known[linked.op[i]]);
            op.op = i;
            op.first_wait = linked.first_wait[i];
            op.waits = static_cast<std::uint16_t>(linked.first_wait[i + 1] - linked.first_wait[i]);
            if (input.graphs.is_after_reading(linked.op[i])) indexed.after_reading.push_back(i);
            if (i > 0 && input.graphs.is_after_exchange(kind(linked.op[i - 1]), kind(linked.op[i])))
                indexed.after_exchange.push_back(i);
        }
    }
}

}  // namespace orrery::sim
