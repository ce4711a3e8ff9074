// A trace shaped like a simulated 1F1B step, for tests and benchmarks of what reads traces: many
// repeated ops, tensor collectives between them, transfers that wait for the neighbouring stage.
// Its times follow the recurrence of a pipeline; nothing here is a prediction.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace {

struct PipelineShape {
    int stages = 8;
    int micro_batches = 32;
    int layers = 4;  // per stage; a layer is 3 compute ops and a collective, each way
};

class PipelineTrace {
  public:
    explicit PipelineTrace(const PipelineShape& shape) : shape_(shape) {
        name_ops();
        const auto stages = static_cast<std::size_t>(shape.stages);
        trace_.scenario_json = R"({"layout": {"schedule": "1f1b"}})";
        trace_.programs.resize(stages);
        trace_.tracks.resize(stages);
        events_.resize(stages);
        clock_.assign(stages, 0);
        const auto all = stages * static_cast<std::size_t>(shape.micro_batches);
        forward_done_.assign(all, -1);
        backward_done_.assign(all, -1);
    }

    Trace run() {
        std::vector<std::size_t> position(trace_.tracks.size(), 0);
        for (bool moved = true; moved;) {
            moved = false;
            for (int stage = 0; stage < shape_.stages; ++stage)
                for (std::size_t& at = position[index(stage)]; act(stage, at); ++at)
                    moved = true;
        }
        for (int stage = 0; stage < shape_.stages; ++stage) {
            Track& track = trace_.tracks[index(stage)];
            track.rank = stage;
            track.program = stage;
            track.events = std::exchange(events_[index(stage)], {});
            trace_.programs[index(stage)].pipeline_rank = stage;
            trace_.step_end = std::max(trace_.step_end, clock_[index(stage)]);
        }
        return std::move(trace_);
    }

    static constexpr int kOpsPerLayer = 4;  // of one direction
    static constexpr std::uint32_t kTransfer = 2 * kOpsPerLayer;
    static constexpr Picoseconds kLatency = 5'000'000;

  private:
    static std::size_t index(int i) { return static_cast<std::size_t>(i); }

    static Picoseconds duration(std::uint32_t op) { return 150'000'000 + 7'919'101 * op; }

    void name_ops() {
        for (int i = 0; i < 2 * kOpsPerLayer; ++i) {
            const bool backward = i >= kOpsPerLayer, collective = i % kOpsPerLayer == 2;
            OpName op;
            op.block = backward ? "layer.backward" : "layer.forward";
            op.label = "op " + std::to_string(i);
            op.phase = backward ? plan::Phase::backward : plan::Phase::forward;
            if (collective) {
                op.kind = plan::OpKind::all_reduce;
                op.stream = plan::Stream::tensor_comm;
                op.group = plan::GroupKind::tensor;
            }
            op.flops = collective ? 0 : 1e12;
            op.bytes = 1e8;
            trace_.ops.push_back(op);
        }
        OpName transfer;
        transfer.block = "exchange";
        transfer.kind = plan::OpKind::exchange;
        transfer.stream = plan::Stream::pipeline_comm;
        transfer.group = plan::GroupKind::pipeline;
        trace_.ops.push_back(transfer);
    }

    // The position-th action of a stage, if what it needs has happened.
    bool act(int stage, std::size_t position) {
        const int m = shape_.micro_batches;
        const int warm_up = std::min(m, shape_.stages - stage);
        const int i = static_cast<int>(position);
        if (i >= 2 * m) return false;
        const int steady = i - warm_up;  // then B, F, B, F, … and the remaining B
        const bool forward = i < warm_up || (steady % 2 == 1 && warm_up + steady / 2 < m);
        int micro_batch = i;
        if (i >= warm_up)
            micro_batch = forward ? warm_up + steady / 2 : i - forwards_before(i, warm_up);
        const int from = forward ? stage - 1 : stage + 1;
        Picoseconds sent = 0;
        if (from >= 0 && from < shape_.stages) {
            sent = done(forward, from, micro_batch);
            if (sent < 0) return false;
        } else if (!forward && done(true, stage, micro_batch) < 0) {
            return false;
        }
        perform(stage, forward, micro_batch, from, sent);
        return true;
    }

    int forwards_before(int i, int warm_up) const {
        return std::min(shape_.micro_batches, warm_up + (i - warm_up) / 2);
    }

    Picoseconds& done(bool forward, int stage, int micro_batch) {
        return (forward ? forward_done_
                        : backward_done_)[index(stage * shape_.micro_batches + micro_batch)];
    }

    void perform(int stage, bool forward, int micro_batch, int from, Picoseconds sent) {
        ProgramOps& program = trace_.programs[index(stage)];
        const auto kind = forward ? plan::ActionKind::forward : plan::ActionKind::backward;
        program.actions.push_back({{stage, kind, micro_batch}});
        program.live_bytes.push_back(1'000'000 * (1 + micro_batch % shape_.stages));
        if (from >= 0 && from < shape_.stages) add(stage, kTransfer, -1, sent, kLatency, from);
        for (int layer = 0; layer < shape_.layers; ++layer)
            for (std::uint32_t op = 0; op < kOpsPerLayer; ++op) {
                const std::uint32_t named = op + (forward ? 0 : kOpsPerLayer);
                add(stage, named, layer, 0, duration(named), -1);
            }
        done(forward, stage, micro_batch) = clock_[index(stage)];
    }

    // After all of the stage so far, and not before `earliest`.
    void add(int stage, std::uint32_t op, int layer, Picoseconds earliest, Picoseconds takes,
             int late) {
        ProgramOps& program = trace_.programs[index(stage)];
        std::vector<Event>& events = events_[index(stage)];
        Picoseconds& clock = clock_[index(stage)];
        Event event;
        event.blocker = events.empty() ? kNothing : static_cast<std::int32_t>(events.size()) - 1;
        event.ready = clock;
        event.start = std::max(clock, earliest);
        event.end = event.start + takes;
        if (event.start > clock) event.late_track = late;
        clock = event.end;
        events.push_back(event);
        program.op.push_back(op);
        program.step.push_back(static_cast<std::uint32_t>(program.actions.size()) - 1);
        program.layer.push_back(static_cast<std::int16_t>(layer));
    }

    PipelineShape shape_;
    Trace trace_;
    std::vector<std::vector<Event>> events_;  // by stage
    std::vector<Picoseconds> clock_;          // likewise
    std::vector<Picoseconds> forward_done_,
        backward_done_;  // by stage and micro-batch, −1: not yet
};

inline Trace pipeline_trace(const PipelineShape& shape) {
    return PipelineTrace(shape).run();
}

// Puts a norm before each of a track's ops of the first name, as event_before(event of that op)
// says; how many.
template <typename EventBefore>
std::int64_t put_norms_before(Trace& trace, std::size_t number, EventBefore event_before) {
    OpName norm = trace.ops[0];
    norm.kind = plan::OpKind::norm;
    norm.flops = 0;
    const auto added = static_cast<std::uint32_t>(trace.ops.size());
    trace.ops.push_back(norm);
    Track& track = trace.tracks[number];
    ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
    std::vector<Event> events = track.events.unpacked();
    std::int64_t norms = 0;
    for (std::size_t i = 0; i < program.op.size(); ++i) {
        if (program.op[i] != 0) continue;
        const auto at = static_cast<std::ptrdiff_t>(i);
        program.op.insert(program.op.begin() + at, added);
        program.step.insert(program.step.begin() + at, program.step[i]);
        program.layer.insert(program.layer.begin() + at, program.layer[i]);
        const Event before = event_before(events[i]);
        events.insert(events.begin() + at, before);
        ++i;
        ++norms;
    }
    track.events = events;
    return norms;
}

inline std::size_t events_of(const Trace& trace) {
    std::size_t events = 0;
    for (const Track& track : trace.tracks)
        events += track.events.size();
    return events;
}

}  // namespace orrery::trace
