#include "sim/replay/measured.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "trace/describe_plan.hpp"
#include "trace/joining.hpp"

namespace orrery::sim {
namespace {

using trace::Event;
using trace::Track;

// All measurements of one op.
struct Runs {
    std::vector<Picoseconds> late;
    std::vector<Picoseconds> durations;
};

Picoseconds median_of(std::vector<Picoseconds>& values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    if (values.size() % 2 == 1) return values[middle];
    return values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

double relative_deviation(const std::vector<Picoseconds>& values, Picoseconds median) {
    if (values.size() < 2 || median == 0) return 0;
    double mean = 0;
    for (const Picoseconds value : values)
        mean += static_cast<double>(value) / static_cast<double>(values.size());
    double squares = 0;
    for (const Picoseconds value : values)
        squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    return std::sqrt(squares / static_cast<double>(values.size() - 1)) /
           static_cast<double>(median);
}

// Whether nobody else was waited for: what lies between ready and start is this rank's own.
bool came_last(const Event& event) {
    return event.late_track < 0;
}

}  // namespace

MeasuredCosts::Key MeasuredCosts::key_of(const trace::OpName& op) {
    return {op.block, op.label, op.kind,  op.phase,     op.stream,
            op.group, op.flops, op.bytes, op.sent_bytes};
}

MeasuredCosts::MeasuredCosts(trace::Trace trace, std::string path)
    : trace_(std::move(trace)), path_(std::move(path)) {
    if (trace_.origin != trace::Origin::measured)
        throw CostsError(path_ + ": a predicted trace; prices come from a measured one");
    std::map<Key, Runs> runs;
    for (const Track& track : trace_.tracks) {
        if (track.represents() != 1)
            throw CostsError(path_ + ": a track stands for several ranks; a measured one for one");
        const trace::ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
        for (std::size_t i = trace::first_of_last_step(program); i < track.events.size(); ++i) {
            const Event& event = track.events[i];
            Runs& of = runs[key_of(trace_.ops[program.op[i]])];
            of.durations.push_back(event.end - event.start);
            if (came_last(event)) of.late.push_back(event.start - event.ready);
        }
    }
    for (auto& [key, of] : runs) {
        MeasuredOp& op = ops_[key];
        op.runs = static_cast<std::int64_t>(of.durations.size());
        op.time = {median_of(of.late), median_of(of.durations)};
        op.relative_sd = relative_deviation(of.durations, op.time.duration);
    }
}

const MeasuredOp* MeasuredCosts::find(const trace::OpName& op) const {
    const auto found = ops_.find(key_of(op));
    return found == ops_.end() ? nullptr : &found->second;
}

bool MeasuredCosts::is_of(const plan::Plan& plan) const {
    if (trace_.programs.size() != plan.programs.size() ||
        static_cast<std::int64_t>(trace_.tracks.size()) != plan.mesh.ranks())
        return false;
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program));
    const trace::Trace of_plan = trace::describe_plan(plan, std::move(linked));
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        if (!trace::same_step(of_plan, of_plan.programs[p], trace_, trace_.programs[p]))
            return false;
    std::vector<bool> found(trace_.tracks.size());
    for (const Track& track : trace_.tracks) {
        const auto rank = static_cast<std::size_t>(track.rank);
        if (rank >= found.size() || found[rank] ||
            track.program != plan.mesh.coordinates(track.rank).pipeline)
            return false;
        found[rank] = true;
    }
    return true;
}

// An op is late by what passed between the end of all that it waits for, on this rank, and its
// start, or, where others came after it, until it said that it was ready. What it waits for of the
// step before ended a step earlier than in this one.
std::vector<OpTime> MeasuredCosts::times_of(const plan::LinkedProgram& linked,
                                            const plan::Plan& plan, const Track& track,
                                            int repetitions) const {
    std::vector<plan::Stream> stream_of;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            stream_of.push_back(op.stream);
    const std::size_t size = linked.size() / static_cast<std::size_t>(repetitions);
    const std::size_t before = linked.size() - size;  // ops of earlier steps
    const trace::ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
    const Event* events = track.events.data() + trace::first_of_last_step(program);
    const Picoseconds period = trace_.step_end - trace_.step_start;
    std::array<std::vector<std::size_t>, plan::kStreams> on_stream;
    std::vector<OpTime> times;
    for (std::size_t i = 0; i < linked.size(); ++i) {
        const std::size_t own = plan::index_of(stream_of[linked.op[i]]);
        if (i >= before) {
            Picoseconds free = repetitions == 1 ? trace_.step_start : trace_.step_start - period;
            const auto follow = [&](std::size_t op) {
                free = std::max(free,
                                op >= before ? events[op - before].end : events[op].end - period);
            };
            if (!on_stream[own].empty()) follow(on_stream[own].back());
            for (std::uint32_t w = linked.first_wait[i]; w < linked.first_wait[i + 1]; ++w)
                follow(
                    on_stream[plan::index_of(linked.waits[w].stream)][linked.waits[w].count - 1]);
            const Event& event = events[i - before];
            const Picoseconds came = came_last(event) ? event.start : event.ready;
            times.push_back({std::max<Picoseconds>(0, came - free), event.end - event.start});
        }
        on_stream[own].push_back(i);
    }
    return times;
}

std::optional<Replay> MeasuredCosts::replay_of(const plan::Plan& plan) const {
    if (!is_of(plan)) return std::nullopt;
    Replay replay;
    Picoseconds last = trace_.step_start;
    for (const Track& track : trace_.tracks)
        for (const Event& event : track.events) {
            if (event.start < trace_.step_start) replay.repetitions = 2;
            last = std::max(last, event.end);
        }
    replay.tail = std::max<Picoseconds>(0, trace_.step_end - last);
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program, replay.repetitions));
    replay.times.resize(trace_.tracks.size());
    for (const Track& track : trace_.tracks)
        replay.times[static_cast<std::size_t>(track.rank)] = times_of(
            linked[static_cast<std::size_t>(track.program)], plan, track, replay.repetitions);
    return replay;
}

}  // namespace orrery::sim
