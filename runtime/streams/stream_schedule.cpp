#include "runtime/streams/stream_schedule.hpp"

#include <algorithm>
#include <array>

namespace orrery::runtime {
namespace {

// By stream: so many of its ops have ended.
using Ended = std::array<std::uint32_t, plan::kStreams>;

void join(Ended& known, const Ended& more) {
    for (std::size_t s = 0; s < known.size(); ++s)
        known[s] = std::max(known[s], more[s]);
}

}  // namespace

StreamSchedule::StreamSchedule(const BoundProgram& program) : marked_(program.ops.size(), false) {
    std::array<std::vector<std::uint32_t>, plan::kStreams> issued;  // op ids
    std::array<Ended, plan::kStreams> known{};  // by stream: what has ended where it stands
    std::vector<Ended> at_end;                  // by op: what has ended once it has
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
        const BoundOp& bound = program.ops[id];
        const std::size_t stream = plan::index_of(bound.op->stream);
        first_wait_.push_back(static_cast<std::uint32_t>(awaited_.size()));
        std::vector<std::uint32_t> open;
        for (const plan::Wait& wait : bound.waits)
            if (known[stream][plan::index_of(wait.stream)] < wait.count)
                open.push_back(issued[plan::index_of(wait.stream)][wait.count - 1]);
        for (const std::uint32_t op : open) {
            const std::size_t other = plan::index_of(program.ops[op].op->stream);
            const bool implied = std::any_of(open.begin(), open.end(), [&](std::uint32_t rival) {
                return rival != op && at_end[rival][other] >= at_end[op][other];
            });
            if (implied) continue;
            awaited_.push_back(op);
            marked_[op] = true;
        }
        for (const std::uint32_t op : open)
            join(known[stream], at_end[op]);
        issued[stream].push_back(id);
        at_end.push_back(known[stream]);
        at_end.back()[stream] = static_cast<std::uint32_t>(issued[stream].size());
        known[stream] = at_end.back();
    }
    first_wait_.push_back(static_cast<std::uint32_t>(awaited_.size()));
}

std::span<const std::uint32_t> StreamSchedule::waits(std::uint32_t op) const {
    return std::span(awaited_).subspan(first_wait_[op], first_wait_[op + 1] - first_wait_[op]);
}

}  // namespace orrery::runtime
