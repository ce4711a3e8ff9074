// What a training run says of itself beside its trace: the key "measured" of the trace's scenario
// (docs/compare.md). What it does not say is unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::compare {

struct MeasuredFacts {
    std::string backend;            // "cpu"; empty: unknown
    bool correctness_only = false;  // ranks shared a device: times say nothing
    // By rank; empty: unknown.
    std::vector<std::int64_t> arena_bytes;
    std::vector<std::int64_t> high_water_bytes;  // of bound offsets in the arena
    std::vector<std::int64_t> other_bytes;       // of the process, outside the arena
    std::vector<double> step_times_s;            // of the run's steps, warm-up left out
};

// Throws TraceFileError (unreadable, naming `path`) where the scenario is no JSON object or a fact
// is not of its kind.
MeasuredFacts measured_facts(const trace::Trace& trace, const std::string& path);

// The scenario of a trace without those facts: a scenario file.
std::string scenario_text(const trace::Trace& trace, const std::string& path);

}  // namespace orrery::compare
