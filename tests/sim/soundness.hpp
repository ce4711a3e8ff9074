// What must hold of the plan and the simulation of any valid scenario. Each function says what is
// wrong in one line, or nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/memory/arena.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

// Program of the member that came last; −1: none.
inline std::int32_t late_program(const trace::Trace& trace, const trace::Event& event) {
    return event.late_track < 0 ? -1
                                : trace.tracks[static_cast<std::size_t>(event.late_track)].program;
}

inline std::string spelled(const trace::Event& event) {
    return std::to_string(event.ready) + " " + std::to_string(event.start) + " " +
           std::to_string(event.end) + " blocker " + std::to_string(event.blocker) + " late " +
           std::to_string(event.late_track);
}

// The unfolded trace, restricted to a rank that a folded track stands for, against that track.
inline std::string track_fault(const trace::Trace& folded, const trace::Track& one,
                               std::int64_t rank, const trace::Trace& unfolded) {
    const trace::Track& all = unfolded.tracks[static_cast<std::size_t>(rank)];
    if (all.rank != rank || all.program != one.program) return "tracks are not ranks";
    if (all.events.size() != one.events.size()) return "tracks differ in length";
    for (std::size_t i = 0; i < one.events.size(); ++i) {
        trace::Event expected = all.events[i];
        const trace::Event e = one.events[i];
        // Of several that were last together a folded run may name another, of the same program.
        const bool named = late_program(folded, e) == late_program(unfolded, expected);
        expected.late_track = e.late_track;
        if (named && e == expected) continue;
        const trace::OpName& op = folded.op_of(one, i);
        return "rank " + std::to_string(rank) + " op " + std::to_string(i) + " " + op.block + " " +
               op.label + ": folded " + spelled(e) + ", unfolded " + spelled(expected);
    }
    return "";
}

// Accounts of every track sum to the step to the picosecond, their means to its time.
inline std::string accounts_fault(const Prediction& prediction) {
    const trace::Trace& trace = prediction.trace;
    for (const trace::Track& track : trace.tracks) {
        trace::Picoseconds sum = 0;
        for (const trace::Picoseconds account : trace::accounts_of(trace, track)) {
            if (account < 0) return "a negative account of rank " + std::to_string(track.rank);
            sum += account;
        }
        if (sum != trace.step_end - trace.step_start)
            return "accounts of rank " + std::to_string(track.rank) + " do not sum to the step";
    }
    const double time = prediction.step.time_s;
    double sum = 0;
    for (const double account : prediction.step.breakdown_s)
        sum += account;
    if (!(time > 0)) return "no time passes";
    if (sum < time * (1 - 1e-12) || sum > time * (1 + 1e-12)) return "accounts do not sum";
    return "";
}

inline std::string folding_fault(const Prediction& folded, const Prediction& unfolded,
                                 std::int64_t ranks) {
    if (!folded.stuck.empty()) return "stuck: " + folded.stuck;
    if (!unfolded.stuck.empty()) return "stuck, every rank for itself: " + unfolded.stuck;
    std::vector<int> represented(static_cast<std::size_t>(ranks), 0);
    for (const trace::Track& track : folded.trace.tracks) {
        std::vector<trace::RankRange> ranges = track.alike;
        ranges.push_back({track.rank, 1});
        for (const trace::RankRange& range : ranges)
            for (std::int64_t rank = range.first; rank < range.first + range.count; ++rank) {
                if (rank >= ranks) return "a rank is represented that is none";
                ++represented[static_cast<std::size_t>(rank)];
                const std::string fault = track_fault(folded.trace, track, rank, unfolded.trace);
                if (!fault.empty()) return fault;
            }
    }
    if (std::count(represented.begin(), represented.end(), 1) != ranks)
        return "not every rank is represented once";
    const double time = folded.step.time_s;
    if (time != unfolded.step.time_s) return "step times differ";
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const double difference = folded.step.breakdown_s[a] - unfolded.step.breakdown_s[a];
        if (difference > 1e-12 * time || difference < -1e-12 * time)
            return "accounts differ: " + std::string(name(static_cast<trace::Account>(a)));
    }
    const std::string fault = accounts_fault(folded);
    return fault.empty() ? accounts_fault(unfolded) : fault;
}

// Events that were counted as they ended say what those say that were kept.
inline std::string forgetting_fault(const Prediction& kept, const Prediction& forgotten) {
    const trace::Trace &a = kept.trace, &b = forgotten.trace;
    if (a.step_start != b.step_start || a.step_end != b.step_end) return "windows differ";
    if (kept.sums != forgotten.sums) return "sums of a trace and of a run that kept none differ";
    if (kept.step.low_s != forgotten.step.low_s) return "intervals differ";
    return "";
}

inline std::string folding_fault(const plan::Scenario& scenario, const Profile& profile) {
    const Prediction folded = simulate(scenario, profile, {}, "");
    const Prediction unfolded = simulate(scenario, profile, {true}, "");
    for (const Prediction* kept : {&folded, &unfolded}) {
        const Prediction forgotten =
            simulate(scenario, profile, {kept == &unfolded, nullptr, false}, "");
        const std::string fault = forgetting_fault(*kept, forgotten);
        if (!fault.empty()) return fault;
    }
    return folding_fault(folded, unfolded, scenario.layout.ranks());
}

// Memory of a program returns to its base line: what is alive when a step ends was alive when it
// began, and of stashes and transfers nothing is, but for statistics, which the next step judges.
inline std::string memory_fault(const plan::Plan& plan, const plan::Program& program) {
    const auto last = static_cast<std::int32_t>(program.steps.size()) - 1;
    std::set<std::int32_t> passing;  // residents that belong to one micro-batch
    for (const plan::Step& step : program.steps) {
        passing.insert({step.stash, step.input, step.output});
        for (const plan::Transfer& transfer : step.transfers)
            if (!plan::carries_statistic(transfer.action.kind)) passing.insert(transfer.resident);
    }
    std::int64_t base = 0;
    for (std::size_t r = 0; r < program.residents.size(); ++r) {
        const plan::Resident& resident = program.residents[r];
        if (resident.first_step < 0 || resident.first_step > resident.last_step ||
            resident.last_step > last)
            return resident.name + " is freed before it is there, or not at all";
        if (resident.last_step < last) continue;
        if (resident.first_step != 0)
            return resident.name + " is alive at the end but not at the start";
        if (passing.count(static_cast<std::int32_t>(r)) != 0)
            return resident.name + " of a micro-batch is still alive at the end";
        // What is made again is in use within backward steps alone.
        if (static_cast<std::int32_t>(r) != program.recomputed) base += resident.bytes;
    }
    const std::int64_t scratch =
        program.scratch < 0 ? 0
                            : program.residents[static_cast<std::size_t>(program.scratch)].bytes;
    const std::int64_t live = plan::live_bytes_by_step(plan, program).back();
    if (live > base || live < base - scratch) return "memory does not return to its base line";
    return "";
}

// What is wrong with the plan itself.
inline std::string plan_fault(const plan::Plan& plan, const plan::Scenario& scenario) {
    const auto faults = plan_faults(plan, scenario);
    if (!faults.empty()) return faults.front();
    for (const plan::Program& program : plan.programs) {
        const std::string fault = memory_fault(plan, program);
        if (!fault.empty()) return fault;
    }
    return "";
}

}  // namespace orrery::sim
