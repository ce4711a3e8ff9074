#include "sim/search/estimated_trace.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/engine/time.hpp"

namespace orrery::sim {
namespace {

using plan::Action;
using plan::ActionKind;
using plan::GroupKind;
using plan::OpKind;
using plan::Phase;
using plan::Stream;
using trace::Event;

// The ops of an estimate.
enum class EstimatedOp : std::uint8_t {
    forward,
    backward,
    message,
    before_pass,
    reduction,
    norm,
    optimizer,
    gathering
};

std::vector<trace::OpName> op_names(const plan::Layout& layout) {
    const GroupKind of_layers = layout.tensor_parallel > 1    ? GroupKind::tensor
                                : layout.context_parallel > 1 ? GroupKind::context
                                                              : GroupKind::expert;
    const Stream on_its_way = of_layers == GroupKind::tensor    ? Stream::tensor_comm
                              : of_layers == GroupKind::context ? Stream::context_comm
                                                                : Stream::expert_comm;
    const OpKind reduced = layout.zero_ranks() > 1 ? OpKind::reduce_scatter : OpKind::all_reduce;
    // In the order of EstimatedOp.
    return {
        {"pass", "all layers", OpKind::gemm, Phase::forward, Stream::compute},
        {"pass", "all layers", OpKind::gemm, Phase::backward, Stream::compute},
        {"exchange", "", OpKind::exchange, Phase::forward, Stream::pipeline_comm,
         GroupKind::pipeline},
        {"pass", "before the first kernel", OpKind::all_gather, Phase::forward, on_its_way,
         of_layers},
        {"reduction", "gradients", reduced, Phase::backward, Stream::data_comm, GroupKind::data},
        {"optimizer", "gradient norm", OpKind::all_reduce, Phase::optimizer, Stream::data_comm,
         GroupKind::world},
        {"optimizer", "optimizer", OpKind::adamw, Phase::optimizer, Stream::compute},
        {"optimizer", "parameters", OpKind::all_gather, Phase::optimizer, Stream::data_comm,
         GroupKind::data},
    };
}

// A rank's ops, one after another.
class RankEvents {
  public:
    explicit RankEvents(std::int32_t pipeline_rank) { program_.pipeline_rank = pipeline_rank; }

    void begin_step(const Action& action, double live_bytes) {
        program_.actions.push_back({action});
        program_.live_bytes.push_back(std::llround(live_bytes));
    }
    // Of the last step.
    void add(EstimatedOp op, Event event) {
        program_.op.push_back(static_cast<std::uint32_t>(op));
        program_.step.push_back(static_cast<std::uint32_t>(program_.actions.size() - 1));
        program_.layer.push_back(-1);
        event.start = std::max(event.start, event.ready);
        event.end = std::max(event.end, event.start);
        events_.push_back(event);
    }
    // The last op if it ends then, which an op that is ready from then on has waited for.
    std::int32_t ended_at(Picoseconds time) const {
        for (std::size_t back = 0; back < std::min<std::size_t>(events_.size(), kRecent); ++back) {
            const std::size_t op = events_.size() - 1 - back;
            if (events_[op].end == time) return static_cast<std::int32_t>(op);
        }
        return trace::kNothing;
    }
    Picoseconds last_end() const { return events_.empty() ? 0 : events_.back().end; }

    const std::vector<Event>& events() const { return events_; }
    trace::ProgramOps& program() { return program_; }

  private:
    static constexpr std::size_t kRecent = 4;  // a pass, its messages, and what goes before it

    trace::ProgramOps program_;
    std::vector<Event> events_;
};

// Bytes of a rank while it goes through its schedule.
class LiveBytes {
  public:
    explicit LiveBytes(const StepOutline::Rank& of) : of_(of), now_(of.stages.size()) {}

    double between() const {
        double bytes = of_.kept;
        for (std::size_t chunk = 0; chunk < now_.size(); ++chunk) {
            const InFlight &of = of_.of_a_chunk[chunk], &now = now_[chunk];
            bytes += now.until_backward * of.until_backward + now.until_weights * of.until_weights +
                     now.between_halves * of.between_halves;
        }
        return bytes;
    }
    double during(const Action& pass) {
        InFlight& of = of_chunk(pass);
        begin_pass(pass.kind, of);
        const double bytes = between() + of_.beside;
        end_pass(pass.kind, of);
        return bytes;
    }

  private:
    InFlight& of_chunk(const Action& pass) {
        const auto chunk = std::find(of_.stages.begin(), of_.stages.end(), pass.stage);
        return now_[static_cast<std::size_t>(chunk - of_.stages.begin())];
    }

    const StepOutline::Rank& of_;
    Moment now_;
};

class EstimatedTrace {
  public:
    EstimatedTrace(const plan::Scenario& valid, const StepOutline& outline,
                   const std::vector<std::vector<TimedPass>>& passes)
        : layout_(valid.layout),
          outline_(outline),
          times_(outline.pace.by_stage()),
          passes_(passes) {
        trace_.facts.prices = "the estimate of the layout";
        trace_.ops = op_names(layout_);
    }

    trace::Trace make() {
        for (std::size_t rank = 0; rank < passes_.size(); ++rank) {
            ranks_.emplace_back(static_cast<std::int32_t>(rank));
            add_passes(rank);
        }
        add_end_of_step();
        const std::int64_t of_rank = layout_.ranks() / layout_.pipeline_parallel;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            trace::Track track;
            track.rank = static_cast<std::int64_t>(rank) * of_rank;
            if (of_rank > 1) track.alike = {{track.rank + 1, of_rank - 1}};
            track.program = static_cast<std::int32_t>(rank);
            track.events = ranks_[rank].events();
            trace_.programs.push_back(std::move(ranks_[rank].program()));
            trace_.tracks.push_back(std::move(track));
        }
        return std::move(trace_);
    }

  private:
    // The rank's action on its side of a message.
    static Action received(const Action& pass) {
        const bool onward = pass.kind == ActionKind::forward;
        return {pass.stage, onward ? ActionKind::recv_f : ActionKind::recv_b, pass.micro_batch};
    }
    static Action sent(const Action& pass) {
        const bool onward = pass.kind == ActionKind::forward;
        return {pass.stage, onward ? ActionKind::send_f : ActionKind::send_b, pass.micro_batch};
    }

    const PassTimes& times_of(const TimedPass& pass) const {
        return (*times_[static_cast<std::size_t>(pass.action.stage)])[static_cast<std::size_t>(
            pass.action.kind)];
    }

    void add_passes(std::size_t rank) {
        RankEvents& events = ranks_[rank];
        LiveBytes live(outline_.ranks[rank]);
        for (const TimedPass& pass : passes_[rank]) {
            const Picoseconds free = from_seconds(pass.free), start = from_seconds(pass.start);
            const Picoseconds arrived = from_seconds(pass.received);
            if (pass.from >= 0) {
                const Picoseconds there = from_seconds(pass.sent), ready = std::min(free, there);
                events.begin_step(received(pass.action), live.between());
                events.add(EstimatedOp::message, {ready, there, arrived, events.ended_at(ready),
                                                  there > free ? pass.from : -1});
            }
            if (pass.gathered > pass.free && pass.gathered >= pass.start) {
                const Picoseconds from =
                    from_seconds(std::max(pass.free, pass.gathered - times_of(pass).gathers));
                events.begin_step(pass.action, live.between());
                events.add(EstimatedOp::gathering,
                           {from, from, from_seconds(pass.gathered), events.ended_at(from)});
            }
            const double lead = times_of(pass).lead;
            const bool leads = lead > 0 && pass.received > 0;
            // What goes before the input is there, which the rest then waits for.
            const bool parted =
                lead < 0 && pass.start > pass.free && pass.received + lead >= pass.start;
            const std::int32_t waits_for = events.ended_at(arrived);
            const bool forward = pass.action.kind == ActionKind::forward;
            events.begin_step(pass.action, live.during(pass.action));
            if (leads)
                events.add(EstimatedOp::before_pass,
                           {arrived, arrived, from_seconds(pass.received + lead), waits_for});
            const EstimatedOp op = forward ? EstimatedOp::forward : EstimatedOp::backward;
            if (parted)
                events.add(op, {free, free, from_seconds(pass.free - lead), events.ended_at(free)});
            const Picoseconds from = parted ? arrived : start;
            events.add(op, {from, from, from_seconds(pass.end), events.ended_at(from)});
            if (pass.freed > pass.end) {
                const Picoseconds end = from_seconds(pass.end);
                events.begin_step(sent(pass.action), live.between());
                events.add(EstimatedOp::message,
                           {end, end, from_seconds(pass.freed), events.ended_at(end)});
            }
        }
    }

    // An op that begins where the rank's last one ends.
    static void add_next(RankEvents& events, EstimatedOp op, double seconds) {
        const Picoseconds from = events.last_end();
        if (seconds > 0)
            events.add(op, {from, from, from + from_seconds(seconds), events.ended_at(from)});
    }

    // One in which the rank that comes last keeps the others.
    void add_together(EstimatedOp op, double seconds) {
        std::size_t last = 0;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            if (ranks_[rank].last_end() > ranks_[last].last_end()) last = rank;
        const Picoseconds start = ranks_[last].last_end();
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            RankEvents& events = ranks_[rank];
            const Picoseconds ready = events.last_end();
            events.add(op, {ready, start, start + from_seconds(seconds), events.ended_at(ready),
                            ready < start ? static_cast<std::int32_t>(last) : -1});
        }
    }

    void add_end_of_step() {
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            const StepOutline::Rank& of = outline_.ranks[rank];
            ranks_[rank].begin_step({static_cast<std::int32_t>(rank), ActionKind::reduce_grad},
                                    of.kept + of.at_end);
            add_next(ranks_[rank], EstimatedOp::reduction, of.reduction);
            ranks_[rank].begin_step({static_cast<std::int32_t>(rank), ActionKind::step},
                                    of.kept + of.at_end);
        }
        if (outline_.asks_all_ranks) add_together(EstimatedOp::norm, 0);
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            add_next(ranks_[rank], EstimatedOp::optimizer, outline_.ranks[rank].optimizer);
            add_next(ranks_[rank], EstimatedOp::gathering, outline_.ranks[rank].gathering);
        }
        if (outline_.gathered_late > 0)
            add_together(EstimatedOp::gathering, outline_.gathered_late);
        for (const RankEvents& events : ranks_)
            for (const Event& event : events.events())
                trace_.step_end = std::max(trace_.step_end, event.end);
    }

    const plan::Layout& layout_;
    const StepOutline& outline_;
    std::vector<const std::array<PassTimes, kPasses>*> times_;  // by stage
    const std::vector<std::vector<TimedPass>>& passes_;
    std::vector<RankEvents> ranks_;
    trace::Trace trace_;
};

}  // namespace

trace::Trace estimated_trace(const plan::Scenario& valid, const StepOutline& outline,
                             const std::vector<std::vector<TimedPass>>& passes) {
    return EstimatedTrace(valid, outline, passes).make();
}

}  // namespace orrery::sim
