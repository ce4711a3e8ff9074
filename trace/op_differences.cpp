#include "trace/op_differences.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "trace/joining.hpp"

namespace orrery::trace {
namespace {

// What the ops of one step take.
class OpTimes {
  public:
    explicit OpTimes(const Trace& trace)
        : trace_(trace), sums_(trace.programs.size()), ranks_(trace.programs.size(), 0) {
        for (std::size_t p = 0; p < trace.programs.size(); ++p)
            sums_[p].resize(trace.programs[p].op.size(), 0);
        for (const Track& track : trace.tracks) {
            if (track.events.empty()) continue;
            const auto program = static_cast<std::size_t>(track.program);
            ranks_[program] += track.represents();
            all_ranks_ += track.represents();
            for (std::size_t i = 0; i < track.events.size(); ++i)
                sums_[program][i] += track.represents() * track.events[i].duration();
        }
    }

    // Every op of the last step of a program that some rank has run.
    template <typename Visit>
    void each(Visit visit) const {
        for (std::size_t p = 0; p < sums_.size(); ++p)
            for (std::size_t i = first_of_last_step(trace_.programs[p]);
                 ranks_[p] > 0 && i < sums_[p].size(); ++i)
                visit(ProgramOp{static_cast<std::int32_t>(p), static_cast<std::int32_t>(i)});
    }
    bool has_run(const ProgramOp& op) const { return ranks_[index(op.program)] > 0; }

    Picoseconds mean(const ProgramOp& op) const { return sum(op) / ranks_[index(op.program)]; }
    double of_its_ranks_s(const ProgramOp& op) const {
        return static_cast<double>(sum(op)) / static_cast<double>(ranks_[index(op.program)]) /
               kPsPerSecond;
    }
    double of_all_ranks_s(const ProgramOp& op) const {
        return static_cast<double>(sum(op)) / static_cast<double>(all_ranks_) / kPsPerSecond;
    }

    std::uint32_t number(const ProgramOp& op) const {
        return trace_.programs[index(op.program)].op[index(op.op)];
    }
    const OpName& name(const ProgramOp& op) const { return trace_.ops[number(op)]; }
    std::int32_t stage(const ProgramOp& op) const {
        const ProgramOps& program = trace_.programs[index(op.program)];
        return program.actions[program.step[index(op.op)]].front().stage;
    }
    std::int32_t pipeline_rank(const ProgramOp& op) const {
        return trace_.programs[index(op.program)].pipeline_rank;
    }

  private:
    static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }
    Picoseconds sum(const ProgramOp& op) const { return sums_[index(op.program)][index(op.op)]; }

    const Trace& trace_;
    std::vector<std::vector<Picoseconds>> sums_;  // over ranks, by program and op id
    std::vector<std::int64_t> ranks_;             // by program
    std::int64_t all_ranks_ = 0;
};

template <typename Row>
std::vector<Row> largest_first(std::vector<Row> rows) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& one, const Row& next) {
        return std::abs(one.b_s - one.a_s) > std::abs(next.b_s - next.a_s);
    });
    return rows;
}

}  // namespace

bool resized(const OpName& a, const OpName& b) {
    return a.flops != b.flops || a.bytes != b.bytes;
}

bool OpDifference::resized() const {
    return a != nullptr && b != nullptr && trace::resized(*a, *b);
}

OpDifferences op_differences(const Alignment& alignment) {
    const OpTimes a(alignment.trace(Side::a)), b(alignment.trace(Side::b));
    OpDifferences all;
    OpCounts& counts = all.counts;
    using Numbers = std::pair<std::int64_t, std::int64_t>;  // of an op of each, −1: none
    std::map<Numbers, OpDifference> ops;
    std::map<std::tuple<std::int32_t, plan::OpKind, plan::GroupKind>, StageDifference> stages;
    const auto of_stage = [&](const OpTimes& times, const ProgramOp& op) -> StageDifference& {
        const OpName& name = times.name(op);
        const auto key = std::make_tuple(times.stage(op), name.kind, name.group);
        return stages.try_emplace(key, StageDifference{times.stage(op), name.kind, name.group})
            .first->second;
    };
    a.each([&](const ProgramOp& op) {
        ++counts.a_ops;
        of_stage(a, op).a_s += a.of_its_ranks_s(op);
        const std::optional<ProgramOp> there = alignment.counterpart(Side::a, op);
        const bool aligned = there && b.has_run(*there);
        OpDifference& row = ops[{a.number(op), aligned ? b.number(*there) : -1}];
        row.a = &a.name(op);
        ++row.count;
        row.a_s += a.of_all_ranks_s(op);
        if (!aligned) return;
        row.b = &b.name(*there);
        ++counts.aligned;
        counts.longer += b.mean(*there) > a.mean(op);
        counts.shorter += b.mean(*there) < a.mean(op);
        counts.moved += b.pipeline_rank(*there) != a.pipeline_rank(op);
        counts.resized += row.resized();
    });
    b.each([&](const ProgramOp& op) {
        ++counts.b_ops;
        of_stage(b, op).b_s += b.of_its_ranks_s(op);
        const std::optional<ProgramOp> there = alignment.counterpart(Side::b, op);
        const bool aligned = there && a.has_run(*there);
        OpDifference& row = ops[{aligned ? a.number(*there) : -1, b.number(op)}];
        row.b = &b.name(op);
        row.b_s += b.of_all_ranks_s(op);
        row.count += !aligned;
    });
    for (const auto& [numbers, row] : ops)
        all.ops.push_back(row);
    for (const auto& [key, row] : stages)
        all.stages.push_back(row);
    all.ops = largest_first(std::move(all.ops));
    all.stages = largest_first(std::move(all.stages));
    return all;
}

}  // namespace orrery::trace
