#include "trace/forward_accounts.hpp"

#include <algorithm>
#include <utility>

#include "plan/check.hpp"

namespace orrery::trace {

ForwardAccounts::ForwardAccounts(const Trace& trace, int repetitions)
    : trace_(trace), exchanged_(messages_sent(trace)), ranks_(trace.tracks.size()) {
    for (const OpName& op : trace.ops)
        kinds_.push_back({work_account(op), op.stream == plan::Stream::compute,
                          op.kind == plan::OpKind::exchange,
                          plan::is_copy(op.kind) ? static_cast<std::int8_t>(copy_index(op.kind))
                                                 : std::int8_t{-1}});
    for (const ProgramOps& program : trace.programs)
        of_one_step_.push_back(program.op.size() / static_cast<std::size_t>(repetitions));
    for (const Track& track : trace.tracks) {
        const auto program = static_cast<std::size_t>(track.program);
        before_ += trace.programs[program].op.size() - of_one_step_[program];
        represents_.push_back(track.represents());
    }
    sums_.busy.resize(trace.ops.size());
    sums_.messages.resize(trace.ops.size());
}

void ForwardAccounts::ended(std::size_t track, std::uint32_t op, const Event& event) {
    const Track& of = trace_.tracks[track];
    const ProgramOps& program = trace_.programs[static_cast<std::size_t>(of.program)];
    const std::uint32_t number = program.op[op];
    if (event.end > now_) {
        settle();
        now_ = event.end;
    }
    if (before_ > 0 &&
        op < program.op.size() - of_one_step_[static_cast<std::size_t>(of.program)] &&
        --before_ == 0)
        start_ = now_;
    Rank& rank = ranks_[track];
    const Ended me{static_cast<std::int32_t>(op), number, event};
    if (event.end > rank.last_end || me.op > rank.last) rank.last = me.op;
    rank.last_end = event.end;
    const Kind& kind = kinds_[number];
    if (kind.compute) {
        if (event.start > rank.computed) {
            const Picoseconds ready = std::clamp(event.ready, rank.computed, event.start);
            charge(rank, Account::launch, ready, event.start);
            explain(track, rank.computed, ready, event.blocker);
        }
        charge(rank, kind.account, event.start, event.end);
        rank.computed = event.end;
        rank.since.clear();
    } else {
        rank.since.push_back(me);
    }
    count(track, op, number, event);
}

// What takes no time is counted when time goes on: only then is it known whether the window begins
// or the step ends at this moment.
void ForwardAccounts::count(std::size_t track, std::uint32_t op, std::uint32_t number,
                            const Event& event) {
    const Kind& kind = kinds_[number];
    const auto program = static_cast<std::size_t>(trace_.tracks[track].program);
    const std::int64_t represents = represents_[track];
    const std::int64_t messages =
        kind.exchange ? exchanged_[program][trace_.programs[program].step[op]] : 1;
    if (event.start == event.end) {
        instant_.push_back({number, messages * represents, event.end});
    } else if (before_ == 0 && event.start >= start_) {
        sums_.busy[number] += Wide{event.end - event.start} * represents;
        sums_.messages[number] += messages * represents;
    }
}

void ForwardAccounts::settle() {
    for (const Count& one : instant_)
        if (before_ == 0) sums_.messages[one.number] += one.messages;
    instant_.clear();
}

void ForwardAccounts::charge(Rank& rank, Account account, Picoseconds from, Picoseconds to) const {
    if (before_ > 0) return;
    rank.accounts[static_cast<std::size_t>(account)] +=
        std::max<Picoseconds>(0, to - std::max(from, start_));
}

// [from, to) is idle: what `blocker` was doing, and before it what blocked the blocker. What ended
// before the last kernel did explains nothing.
void ForwardAccounts::explain(std::size_t track, Picoseconds from, Picoseconds to,
                              std::int32_t blocker) {
    Rank& rank = ranks_[track];
    for (std::size_t i = rank.since.size(); to > from && blocker != kHost;) {
        while (i > 0 && rank.since[i - 1].op != blocker)
            --i;
        if (i == 0) return charge(rank, Account::other, from, to);
        const Ended& it = rank.since[--i];
        const Kind& kind = kinds_[it.number];
        if (it.event.end < to) {  // ended, and yet its successor did not start: not explained
            charge(rank, Account::other, std::max(from, it.event.end), to);
            to = std::max(from, it.event.end);
        }
        const Picoseconds started = std::clamp(it.event.start, from, to);
        charge(rank, kind.account, started, to);
        if (kind.copy >= 0 && before_ == 0)
            rank.copy_waits[static_cast<std::size_t>(kind.copy)] +=
                std::max<Picoseconds>(0, to - std::max(started, start_));
        const Picoseconds ready = std::clamp(it.event.ready, from, started);
        charge(rank, absent(track, it.event), ready, started);
        to = ready;
        blocker = it.event.blocker;
    }
    charge(rank, Account::launch, from, to);
}

// Whose absence a transfer waited for.
Account ForwardAccounts::absent(std::size_t track, const Event& event) const {
    if (event.late_track < 0) return Account::other;
    const auto pipeline_rank = [&](std::size_t of) {
        return trace_.programs[static_cast<std::size_t>(trace_.tracks[of].program)].pipeline_rank;
    };
    return pipeline_rank(static_cast<std::size_t>(event.late_track)) != pipeline_rank(track)
               ? Account::bubble
               : Account::imbalance;
}

// What takes no time when the step ends is not part of it. After its last op a rank's schedule has
// drained; before that, what no kernel waits for is exposed.
StepSums ForwardAccounts::finish() {
    instant_.clear();
    for (std::size_t track = 0; track < ranks_.size(); ++track) {
        Rank& rank = ranks_[track];
        charge(rank, Account::bubble, rank.last_end, now_);
        explain(track, rank.computed, rank.last_end, rank.last);
        Picoseconds sum = 0;
        for (const Picoseconds part : rank.accounts)
            sum += part;
        ORRERY_CHECK(sum == now_ - start_, "accounts do not sum to the step");
        sums_.accounts.push_back(rank.accounts);
        sums_.copy_waits.push_back(rank.copy_waits);
    }
    return std::move(sums_);
}

}  // namespace orrery::trace
