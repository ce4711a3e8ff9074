#include "trace/sound.hpp"

#include <cmath>
#include <limits>

#include "plan/check.hpp"

namespace orrery::trace {
namespace {

bool is_time(Picoseconds time) {
    return time >= -kTimeLimit && time <= kTimeLimit;
}

void check_program(const Trace& trace, const ProgramOps& program) {
    const std::size_t size = program.op.size();
    ORRERY_CHECK(program.step.size() == size && program.layer.size() == size &&
                     program.live_bytes.size() == program.actions.size() &&
                     program.pipeline_rank >= 0,
                 "vectors of a trace's program differ in length");
    for (const std::int64_t bytes : program.live_bytes)
        ORRERY_CHECK(bytes >= 0, "live bytes of a trace are negative");
    for (const StepActions& actions : program.actions)
        ORRERY_CHECK(!actions.empty(), "a step of a trace has no action");
    for (std::size_t i = 0; i < size; ++i)
        ORRERY_CHECK(program.op[i] < trace.ops.size() && program.step[i] < program.actions.size() &&
                         program.layer[i] >= -1,
                     "an op of a trace's program is out of range");
}

void check_facts(const RunFacts& facts) {
    ORRERY_CHECK(facts.ranks_per_device >= 0, "a trace has less than no ranks on a device");
    for (const auto* bytes : {&facts.arena_bytes, &facts.high_water_bytes, &facts.other_bytes})
        for (const std::int64_t of_one : *bytes)
            ORRERY_CHECK(of_one >= 0, "a size in a trace is negative");
    for (const double time : facts.step_times_s)
        ORRERY_CHECK(std::isfinite(time) && time >= 0, "the time of a step in a trace is none");
    for (const StorageFact& fact : kStorageFacts) {
        const double number = (facts.storage.*fact.value).value_or(0);
        ORRERY_CHECK(std::isfinite(number) && number >= 0, "a storage fact of a trace is none");
    }
}

void check_event(const Trace& trace, const Track& track, std::size_t i) {
    const Event e = track.events[i];
    ORRERY_CHECK(is_time(e.ready) && is_time(e.end) && e.ready <= e.start && e.start <= e.end,
                 "an event of a trace has times out of order or range");
    ORRERY_CHECK(e.blocker >= kNothing && e.blocker < static_cast<std::int64_t>(i),
                 "an event of a trace is blocked by one that comes later");
    ORRERY_CHECK(
        e.late_track >= -1 && e.late_track < static_cast<std::int64_t>(trace.tracks.size()),
        "an event of a trace waits for a track that is none");
}

}  // namespace

bool are_apart(const Track& track) {
    std::int64_t last = track.rank;
    for (const RankRange& range : track.alike) {
        if (range.first <= last || range.count < 1) return false;
        if (range.count - 1 > std::numeric_limits<std::int64_t>::max() - range.first) return false;
        last = range.first + range.count - 1;
    }
    return true;
}

void check_sound(const Trace& trace) {
    check_facts(trace.facts);
    ORRERY_CHECK(
        is_time(trace.step_start) && is_time(trace.step_end) && trace.step_start <= trace.step_end,
        "the step of a trace has no sound window");
    for (const OpName& op : trace.ops)
        ORRERY_CHECK(
            std::isfinite(op.flops) && std::isfinite(op.bytes) && std::isfinite(op.sent_bytes),
            "an op of a trace has a number that is none");
    for (const ProgramOps& program : trace.programs)
        check_program(trace, program);
    for (const Track& track : trace.tracks) {
        ORRERY_CHECK(track.rank >= 0 && are_apart(track) && track.program >= 0 &&
                         static_cast<std::size_t>(track.program) < trace.programs.size(),
                     "a track of a trace has no program or rank");
        ORRERY_CHECK(track.events.size() ==
                         trace.programs[static_cast<std::size_t>(track.program)].op.size(),
                     "a track of a trace has not as many events as its program has ops");
        for (std::size_t i = 0; i < track.events.size(); ++i)
            check_event(trace, track, i);
    }
}

}  // namespace orrery::trace
