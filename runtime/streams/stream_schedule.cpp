#include "runtime/streams/stream_schedule.hpp"

#include <algorithm>
#include <array>

namespace orrery::runtime {
namespace {

// By stream: so many of its ops have ended, counted from the start of the step; below 0: so many of
// the steps before have not.
using Ended = std::array<std::int64_t, plan::kStreams>;

void join(Ended& known, const Ended& more) {
    for (std::size_t s = 0; s < known.size(); ++s)
        known[s] = std::max(known[s], more[s]);
}

// What has ended before a step begins, whatever it waits for: steps that had its turn.
Ended long_ended(const BoundProgram& program) {
    Ended ended{};
    for (std::size_t s = 0; s < ended.size(); ++s)
        ended[s] =
            -(program.turns() - 1) * static_cast<std::int64_t>(program.linked.ops_per_stream[s]);
    return ended;
}

// What the schedule is made of, op after op.
class Scheduling {
  public:
    explicit Scheduling(const BoundProgram& program)
        : program_(program), long_ended_(long_ended(program)) {
        for (std::size_t s = 0; s < plan::kStreams; ++s) {
            known_[s] = long_ended_;
            known_[s][s] = 0;
        }
        for (std::uint32_t id = 0; id < program.ops.size(); ++id)
            ids_[plan::index_of(program.ops[id].op->stream)].push_back(id);
    }

    // Of the next op.
    std::vector<AwaitedOp> next(std::uint32_t id) {
        const BoundOp& bound = program_.ops[id];
        const std::size_t stream = plan::index_of(bound.op->stream);
        std::vector<Open> open;
        for (const plan::Wait& wait : bound.waits) {
            const std::size_t other = plan::index_of(wait.stream);
            const auto count = static_cast<std::int32_t>(wait.count);  // modulo 2^32
            if (known_[stream][other] < count) open.push_back(opened(other, count));
        }
        std::vector<AwaitedOp> awaited;
        for (const Open& op : open) {
            const bool implied = std::any_of(open.begin(), open.end(), [&](const Open& rival) {
                return &rival != &op && rival.at_end[op.stream] >= op.at_end[op.stream];
            });
            if (!implied) awaited.push_back(op.awaited);
        }
        for (const Open& op : open)
            join(known_[stream], op.at_end);
        known_[stream][stream] = ++issued_[stream];
        at_end_.push_back(known_[stream]);
        return awaited;
    }

  private:
    // An op that the plan's edge comes from.
    struct Open {
        AwaitedOp awaited;
        std::size_t stream = 0;
        Ended at_end{};  // what has ended once it has
    };

    // The count-th of its stream; below 1, of a step before.
    Open opened(std::size_t stream, std::int64_t count) const {
        const auto of_step = static_cast<std::int64_t>(ids_[stream].size());
        Open open;
        open.stream = stream;
        std::int64_t place = count - 1;
        for (; place < 0; place += of_step)
            ++open.awaited.steps_before;
        open.awaited.op = ids_[stream][static_cast<std::size_t>(place)];
        if (open.awaited.steps_before == 0) {
            open.at_end = at_end_[open.awaited.op];
        } else {
            open.at_end = long_ended_;
            open.at_end[stream] = count;
        }
        return open;
    }

    const BoundProgram& program_;
    const Ended long_ended_;
    std::array<std::vector<std::uint32_t>, plan::kStreams> ids_;  // of ops, by stream
    std::array<std::int64_t, plan::kStreams> issued_{};
    std::array<Ended, plan::kStreams> known_{};  // by stream: what has ended where it stands
    std::vector<Ended> at_end_;                  // by op: what has ended once it has
};

}  // namespace

StreamSchedule::StreamSchedule(const BoundProgram& program) : marked_(program.ops.size(), false) {
    Scheduling scheduling(program);
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
        first_wait_.push_back(static_cast<std::uint32_t>(awaited_.size()));
        for (const AwaitedOp& awaited : scheduling.next(id)) {
            awaited_.push_back(awaited);
            marked_[awaited.op] = true;
        }
    }
    first_wait_.push_back(static_cast<std::uint32_t>(awaited_.size()));
}

std::span<const AwaitedOp> StreamSchedule::waits(std::uint32_t op) const {
    return std::span(awaited_).subspan(first_wait_[op], first_wait_[op + 1] - first_wait_[op]);
}

}  // namespace orrery::runtime
