// The event loop: next event, advance, notify. It knows streams, groups and transfers, and no
// model. Per track (a rank that stands for its likes) ops start in the order of their streams once
// what they wait for on other streams has ended and the host has issued them; a collective starts
// when its last member is ready, a transfer when both sides are (rendezvous).
//
// Deterministic: integer picoseconds, ties in insertion order. About one heap operation per op.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "sim/time.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

using TrackId = std::int32_t;

// What an op takes on one rank, where that is known rank by rank: it comes `late` after it was
// ready, and runs for `duration` once every member is there.
struct OpTime {
    Picoseconds late = 0;
    Picoseconds duration = 0;
};

// One simulated rank.
struct EngineTrack {
    std::int32_t program = 0;  // into Plan::programs and EngineInput::linked
    const std::vector<Picoseconds>* durations = nullptr;   // by op number; collectives included
    std::array<std::int32_t, plan::kGroupKinds> groups{};  // into EngineInput::groups, −1: alone
    std::vector<TrackId> pipeline_peers;                   // by pipeline rank
    std::vector<Picoseconds> transfer_to_peer;  // by pipeline rank: duration of one boundary
    // By op id of one step, in place of durations and transfers; null: none are known. An exchange
    // ends its duration after the last of its transfers has begun.
    const std::vector<OpTime>* times = nullptr;
};

struct EngineInput {
    const plan::Plan* plan = nullptr;
    std::vector<plan::LinkedProgram> linked;  // by program
    std::vector<EngineTrack> tracks;
    std::vector<std::vector<TrackId>> groups;  // members that must meet
    Picoseconds launch = 0;                    // host time per op
    std::int64_t launch_queue = 1024;          // ops that the host may be ahead of the device
    // Compute advances at 1000 ÷ (1000 + this) of its rate while the rank communicates. Times a
    // duration, 1000 + this stays below 2^63.
    std::int64_t compute_slowdown_permille = 0;
    // A world that asks what waiting costs: an exchange begins when its own rank is ready, whatever
    // its peers do. It takes as long as its longest transfer.
    bool peers_never_wait = false;
};

// Who waits for what when nothing can happen any more.
struct StuckTrack {
    TrackId track = 0;
    std::uint32_t op = 0;   // the head of a stream that does not start
    std::string waits_for;  // in words
};

struct EngineResult {
    std::vector<std::vector<trace::Event>> events;  // by track, by op id
    std::uint64_t processed = 0;                    // op events
    std::vector<StuckTrack> stuck;                  // not empty: a deadlock, events are incomplete
};

// Throws ProfileError when the step takes longer than kLongestStep, the end of a trace's clock;
// durations are below a tenth of that.
inline constexpr Picoseconds kLongestStep = Picoseconds{1} << 61;
EngineResult run_engine(const EngineInput& input);

}  // namespace orrery::sim
