#include "trace/accounts.hpp"

#include <algorithm>

#include "plan/check.hpp"
#include "trace/step_sums.hpp"

namespace orrery::trace {
namespace {

constexpr std::array<std::string_view, kAccounts> kNames = {
    "compute",        "recompute",    "exposed_tensor",   "exposed_context",
    "exposed_expert", "exposed_data", "exposed_pipeline", "bubble",
    "imbalance",      "launch",       "optimizer",        "other"};

std::size_t index(Account account) {
    return static_cast<std::size_t>(account);
}

Account account_of_phase(plan::Phase phase) {
    switch (phase) {
        case plan::Phase::forward:
        case plan::Phase::backward:
            return Account::compute;
        case plan::Phase::recompute:
            return Account::recompute;
        case plan::Phase::optimizer:
            return Account::optimizer;
    }
    return Account::other;
}

// Walks one track. Time is charged from the end of the step towards its start, so that each gap is
// explained by the chain of blockers of the op that ends it.
class Walk {
  public:
    // Appends to `spans`, if given, what it charges: from the end of the step towards its start.
    Walk(const Trace& trace, const Track& track, std::vector<AccountSpan>* spans = nullptr)
        : trace_(trace), track_(track), spans_(spans) {}

    Accounts run() {
        const std::size_t n = track_.events.size();
        Picoseconds frontier = trace_.step_end;  // everything after it is charged
        std::size_t i = n;
        frontier = charge_tail(frontier);
        while (i-- > 0) {
            const OpName& op = trace_.op_of(track_, i);
            if (op.stream != plan::Stream::compute) continue;
            const Event event = track_.events[i];
            if (event.end < frontier) charge_wait(event.end, frontier, waiting_);
            frontier = std::min(frontier, event.end);
            if (event.start < frontier) {
                charge(account_of_phase(op.phase), event.start, frontier);
                frontier = event.start;
            }
            waiting_ = static_cast<std::int32_t>(i);
            if (frontier <= trace_.step_start) break;
        }
        if (frontier > trace_.step_start) charge_wait(trace_.step_start, frontier, waiting_);
        return accounts_;
    }
    const std::array<Picoseconds, kCopyKinds>& copies() const { return copies_; }

  private:
    void charge(Account account, Picoseconds from, Picoseconds to) {
        from = std::max(from, trace_.step_start);
        if (to <= from) return;
        accounts_[index(account)] += to - from;
        if (spans_ != nullptr) spans_->push_back({account, from, to});
    }

    // After the last op of the rank the schedule has drained; before that, work on other streams
    // that no compute op waits for (a last gather) is exposed. A rank that computes after the
    // window has not drained: it waits for that op.
    Picoseconds charge_tail(Picoseconds frontier) {
        std::int32_t last = -1;
        Picoseconds last_end = 0;
        for (std::size_t i = 0; i < track_.events.size(); ++i) {
            const auto op = static_cast<std::int32_t>(i);
            const Picoseconds end = at(op).end;
            if (end > trace_.step_end && is_compute(op)) return frontier;
            if (last < 0 || end >= last_end) {
                last = op;
                last_end = end;
            }
        }
        if (last < 0) return frontier;
        charge(Account::bubble, last_end, frontier);
        if (!is_compute(last)) tail_ = last;
        return std::min(frontier, last_end);
    }

    Event at(std::int32_t op) const { return track_.events[static_cast<std::size_t>(op)]; }

    // [from, to) is idle and `waiting` is the compute op that comes next (−1: none, the tail). Once
    // it was ready, only who starts it was late.
    void charge_wait(Picoseconds from, Picoseconds to, std::int32_t waiting) {
        if (waiting < 0) return follow(from, to, tail_);
        const Event event = at(waiting);
        const Picoseconds ready = std::clamp(event.ready, from, to);
        charge(Account::launch, ready, to);
        follow(from, ready, event.blocker);
    }

    bool is_compute(std::int32_t op) const {
        return trace_.op_of(track_, static_cast<std::size_t>(op)).stream == plan::Stream::compute;
    }

    // Explains [from, to) by what `blocker` was doing, and before it by what blocked the blocker.
    void follow(Picoseconds from, Picoseconds to, std::int32_t blocker) {
        while (to > from) {
            if (blocker == kHost) return charge(Account::launch, from, to);
            if (blocker < 0) return charge(Account::other, from, to);
            const Event event = at(blocker);
            if (is_compute(blocker)) return charge(Account::other, from, to);
            const OpName& op = trace_.op_of(track_, static_cast<std::size_t>(blocker));
            if (event.end < to) {  // ended, and yet its successor did not start: not explained
                charge(Account::other, std::max(from, event.end), to);
                to = std::max(from, event.end);
            }
            const Picoseconds started = std::clamp(event.start, from, to);
            charge(exposed_account(op), started, to);
            if (plan::is_copy(op.kind))
                copies_[copy_index(op.kind)] +=
                    std::max<Picoseconds>(0, to - std::max(started, trace_.step_start));
            const Picoseconds ready = std::clamp(event.ready, from, started);
            charge(absent(event), ready, started);
            to = ready;
            blocker = event.blocker;
        }
    }

    // Whose absence a transfer waited for.
    Account absent(const Event& event) const {
        if (event.late_track < 0) return Account::other;
        const Track& late = trace_.tracks[static_cast<std::size_t>(event.late_track)];
        return pipeline_rank(late) != pipeline_rank(track_) ? Account::bubble : Account::imbalance;
    }

    std::int32_t pipeline_rank(const Track& track) const {
        return trace_.programs[static_cast<std::size_t>(track.program)].pipeline_rank;
    }

    const Trace& trace_;
    const Track& track_;
    std::vector<AccountSpan>* spans_;
    Accounts accounts_{};
    std::array<Picoseconds, kCopyKinds> copies_{};
    std::int32_t waiting_ = -1;
    std::int32_t tail_ = kNothing;
};

}  // namespace

std::string_view name(Account account) {
    return kNames[index(account)];
}

Account exposed_account(const OpName& op) {
    // Of the pipeline's ranks together, whatever group a collective ties.
    if (op.stream == plan::Stream::vocabulary_comm) return Account::exposed_pipeline;
    if (op.group != plan::GroupKind::none) return exposed_account(op.group);
    switch (op.stream) {
        case plan::Stream::tensor_comm:
            return Account::exposed_tensor;
        case plan::Stream::context_comm:
            return Account::exposed_context;
        case plan::Stream::expert_comm:
            return Account::exposed_expert;
        case plan::Stream::data_comm:
            return Account::exposed_data;
        case plan::Stream::pipeline_comm:
        case plan::Stream::pipeline_before_comm:
        case plan::Stream::vocabulary_comm:
            return Account::exposed_pipeline;
        case plan::Stream::compute:
        case plan::Stream::copy:
        case plan::Stream::copy_out:
        case plan::Stream::disk_read:
        case plan::Stream::disk_write:
            break;
        case plan::Stream::server:
            return Account::optimizer;
    }
    return Account::other;
}

Account exposed_account(plan::GroupKind group) {
    switch (group) {
        case plan::GroupKind::tensor:
            return Account::exposed_tensor;
        case plan::GroupKind::context:
            return Account::exposed_context;
        case plan::GroupKind::expert:
            return Account::exposed_expert;
        case plan::GroupKind::data:
        case plan::GroupKind::model:
        case plan::GroupKind::world:
        case plan::GroupKind::shard:
        case plan::GroupKind::replica:
        case plan::GroupKind::expert_data:
        case plan::GroupKind::expert_shard:
        case plan::GroupKind::expert_replica:
            return Account::exposed_data;
        case plan::GroupKind::pipeline:
        case plan::GroupKind::embedding:
            return Account::exposed_pipeline;
        case plan::GroupKind::none:
            break;
    }
    return Account::other;
}

Account work_account(const OpName& op) {
    return op.stream == plan::Stream::compute ? account_of_phase(op.phase) : exposed_account(op);
}

Accounts accounts_of(const Trace& trace, const Track& track) {
    const Accounts accounts = Walk(trace, track).run();
    Picoseconds sum = 0;
    for (Picoseconds part : accounts)
        sum += part;
    ORRERY_CHECK(sum == trace.step_end - trace.step_start, "accounts do not sum to the step");
    return accounts;
}

std::array<Picoseconds, kCopyKinds> waits_for_copies(const Trace& trace, const Track& track) {
    Walk walk(trace, track);
    walk.run();
    return walk.copies();
}

std::vector<AccountSpan> account_spans(const Trace& trace, const Track& track) {
    std::vector<AccountSpan> spans;
    Walk(trace, track, &spans).run();
    // What follows a blocker backwards may charge a gap's end before its start.
    std::sort(spans.begin(), spans.end(),
              [](const AccountSpan& a, const AccountSpan& b) { return a.from < b.from; });
    return spans;
}

std::array<double, kAccounts> mean_accounts(const Trace& trace) {
    return mean_accounts(trace, sums_of(trace));
}

std::array<CommunicationSums, kAccounts> communication_sums(const Trace& trace) {
    return communication_sums(trace, sums_of(trace));
}

}  // namespace orrery::trace
