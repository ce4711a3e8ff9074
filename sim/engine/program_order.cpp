#include "sim/engine/program_order.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace orrery::sim {
namespace {

using plan::kStreams;

class ProgramReader {
  public:
    ProgramReader(const IndexedProgram& program, const OpIndex& index, std::int64_t launch_queue,
                  const std::vector<bool>& leaves)
        : program_(program), index_(index), launch_queue_(launch_queue), leaves_(leaves) {}

    ProgramOrder run() {
        const std::size_t ops = program_.linked->size();
        order_.known.resize(ops);
        order_.first_on.reserve(ops + 1);
        for (std::uint32_t op = 0; op < ops; ++op)
            read(op);
        order_.first_on.push_back(static_cast<std::uint32_t>(order_.on.size()));
        return std::move(order_);
    }

  private:
    std::uint32_t ended(std::uint32_t op, std::size_t stream) const {
        return order_.ended(op, program_.stream_of[op], stream);
    }

    void read(std::uint32_t op) {
        const std::size_t own = program_.stream_of[op];
        candidates_.clear();
        if (issued_[own] > 0) candidates_.push_back(program_.stream_ops[own][issued_[own] - 1].op);
        const plan::LinkedProgram& linked = *program_.linked;
        for (std::uint32_t w = linked.first_wait[op]; w < linked.first_wait[op + 1]; ++w) {
            const plan::Wait& wait = linked.waits[w];
            candidates_.push_back(
                program_.stream_ops[static_cast<std::size_t>(wait.stream)][wait.count - 1].op);
        }
        plan::StreamCounts& known = order_.known[op];
        for (const std::uint32_t before : candidates_)
            for (std::size_t s = 0; s < kStreams; ++s)
                known[s] = std::max(known[s], ended(before, s));
        order_.first_on.push_back(static_cast<std::uint32_t>(order_.on.size()));
        for (const std::uint32_t before : candidates_) {
            const std::size_t stream = program_.stream_of[before];
            const auto implies = [&](std::uint32_t other) {
                return other != before &&
                       order_.known[other][stream] > order_.known[before][stream];
            };
            if (std::none_of(candidates_.begin(), candidates_.end(), implies))
                order_.on.push_back(before);
        }
        look_at_host(op);
        look_beside(op, own);
        ++issued_[own];
    }

    // The host issues what its queue has room for: behind ops that have not ended.
    void look_at_host(std::uint32_t op) {
        std::int64_t pending = op;
        for (const std::uint32_t count : order_.known[op])
            pending -= count;
        if (pending >= launch_queue_) order_.held_back = true;
    }

    void look_beside(std::uint32_t op, std::size_t own) {
        const plan::StreamCounts& known = order_.known[op];
        if (own == kCompute)
            for (std::size_t s = 0; s < kStreams; ++s)
                if (known[s] < communicated_[s]) order_.runs_beside = true;
        if (!plan::is_communication(index_.kind(program_.linked->op[op]))) return;
        if (known[kCompute] < issued_[kCompute]) order_.runs_beside = true;
        communicated_[own] = issued_[own] + 1;
        look_outside(op, own);
    }

    void look_outside(std::uint32_t op, std::size_t own) {
        if (!leaves_[program_.linked->op[op]]) return;
        for (std::size_t s = 0; s < kStreams; ++s)
            if (s != own && order_.known[op][s] < left_node_[s]) order_.shares = true;
        left_node_[own] = issued_[own] + 1;
        if (index_.kind(program_.linked->op[op]) != plan::OpKind::exchange) return;
        const auto& transfers = program_.program->steps[program_.linked->step[op]].transfers;
        const auto sends = std::count_if(transfers.begin(), transfers.end(), [](const auto& t) {
            return plan::is_send(t.action.kind);
        });
        if (sends > 1 || static_cast<std::ptrdiff_t>(transfers.size()) - sends > 1)
            order_.shares = true;
    }

    const IndexedProgram& program_;
    const OpIndex& index_;
    std::int64_t launch_queue_;
    const std::vector<bool>& leaves_;
    std::vector<std::uint32_t> candidates_;
    plan::StreamCounts issued_{};
    plan::StreamCounts communicated_{};  // up to the last communication of each stream
    plan::StreamCounts left_node_{};     // the same of what leaves a node
    ProgramOrder order_;
};

// Whether a full queue delays no op. With L(i) the launches up to op i and T(k) the k-th end of the
// rank, op i is issued at the largest of L(i) and T(j − queue + 1) + L(i) − L(j − 1), over j up to
// i. T(k) is no later than the end of a kernel by which k ops have ended for sure; from there to
// the start of i run at least the kernels between.
class FullQueue {
  public:
    FullQueue(const IndexedProgram& program, const ProgramOrder& order, std::int64_t length)
        : kernels_(program.stream_ops[kCompute]), order_(order), length_(length) {}

    void add_kernel(Picoseconds takes) { computed_.push_back(computed_.back() + takes); }

    bool delays_none(std::uint32_t op, Picoseconds launched_before, Picoseconds launched) {
        if (op < length_) return true;
        const std::int64_t needed = op - length_ + 1;
        while (room_ < kernels_.size() && ended_after(kernels_[room_].op) < needed)
            ++room_;
        const std::uint32_t known = order_.known[op][kCompute];
        if (room_ >= known) return false;
        latest_ = std::max(latest_, computed_[room_ + 1] - launched_before);
        return computed_[known] - launched >= latest_;
    }

  private:
    std::int64_t ended_after(std::uint32_t kernel) const {
        std::int64_t ops = 1;
        for (const std::uint32_t count : order_.known[kernel])
            ops += count;
        return ops;
    }

    const std::vector<StreamOp>& kernels_;
    const ProgramOrder& order_;
    std::int64_t length_;
    std::vector<Picoseconds> computed_ = {0};  // by the first so many kernels
    std::size_t room_ = 0;                     // the first kernel after which there is room
    Picoseconds latest_ = std::numeric_limits<Picoseconds>::min() / 2;
};

}  // namespace

ProgramOrder order_of(const IndexedProgram& program, const OpIndex& index,
                      std::int64_t launch_queue, const std::vector<bool>& leaves) {
    return ProgramReader(program, index, launch_queue, leaves).run();
}

std::optional<std::vector<Picoseconds>> host_waits(const IndexedProgram& program,
                                                   const ProgramOrder& order, const OpIndex& index,
                                                   std::int64_t launch_queue,
                                                   const std::vector<Picoseconds>& takes,
                                                   Picoseconds first) {
    std::vector<Picoseconds> waits(takes.size(), -1);
    std::vector<Picoseconds> ends(takes.size());  // not before
    FullQueue queue(program, order, launch_queue);
    Picoseconds launched = first;
    for (std::uint32_t op = 0; op < takes.size(); ++op) {
        const Picoseconds before = launched;
        launched += index.launch(program.linked->op[op]);
        Picoseconds free = 0;
        for (const std::uint32_t other : order.followed_by(op))
            free = std::max(free, ends[other]);
        if (launched > free) waits[op] = launched;
        ends[op] = std::max(free, launched) + takes[op];
        if (!queue.delays_none(op, before, launched)) return std::nullopt;
        if (program.stream_of[op] == kCompute) queue.add_kernel(takes[op]);
    }
    return waits;
}

}  // namespace orrery::sim
