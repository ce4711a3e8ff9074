// A trace is what happened, predicted or measured: when each op of each rank was ready, started and
// ended, and what it had waited for. The simulator and the runtime write the same; every view reads
// it and none changes it. A trace stands alone: it names its ops, says which ranks each track
// stands for and what is known of the run, so that neither a plan nor a scenario is needed to read
// one. An event's index is the plan's op id, so that two traces of one plan can be joined.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/action.hpp"
#include "plan/ir/kinds.hpp"
#include "trace/events.hpp"

namespace orrery::trace {

inline constexpr double kPsPerSecond = 1e12;

enum class Origin : std::uint8_t { predicted, measured };

// A distinct op of the plan.
struct OpName {
    std::string block;  // "layer.backward"
    std::string label;  // "fc1 dgrad"
    plan::OpKind kind = plan::OpKind::gemm;
    plan::Phase phase = plan::Phase::forward;
    plan::Stream stream = plan::Stream::compute;
    plan::GroupKind group = plan::GroupKind::none;
    double flops = 0;       // executed, full attention square
    double bytes = 0;       // moved in memory, or message bytes S of a collective
    double sent_bytes = 0;  // that one rank sends
    bool operator==(const OpName&) const = default;
};

// What a step of a program does: one action, or several transfers issued as one.
using StepActions = std::vector<plan::Action>;
std::string to_text(const StepActions& actions);                  // "2F5", "0SEND_F3+0RECV_B0"
std::optional<StepActions> parse_actions(std::string_view text);  // nullopt: not actions

// What the ranks of one program did, op by op; index = op id.
struct ProgramOps {
    std::int32_t pipeline_rank = 0;
    std::vector<StepActions> actions;      // by step
    std::vector<std::uint32_t> op;         // into Trace::ops
    std::vector<std::uint32_t> step;       // into actions
    std::vector<std::int16_t> layer;       // −1: none
    std::vector<std::int64_t> live_bytes;  // by step: planned memory alive during it
    bool operator==(const ProgramOps&) const = default;
};

// Ranks from `first` on.
struct RankRange {
    std::int64_t first = 0;
    std::int64_t count = 1;
    bool operator==(const RankRange&) const = default;
};

// One rank, standing for all the ranks that do the same at the same time.
struct Track {
    std::int64_t rank = 0;
    std::vector<RankRange>
        alike;                 // the others, ascending and apart from each other; none before it
    std::int32_t program = 0;  // into Trace::programs
    Events events;             // by op id
    bool operator==(const Track&) const = default;

    std::int64_t represents() const;  // ranks, itself among them
};

// What a run's data and checkpoints take, of all ranks together; what is not known is not there.
struct StorageFacts {
    using Value = std::optional<double>;
    Value data_wait_s;   // of a step in the mean, until the last rank had its samples
    Value save_bytes;    // of a checkpoint in the median, as what follows
    Value save_stall_s;  // that training stood still for it
    Value save_write_s;  // from then until it was complete
    Value load_bytes;
    Value load_s;  // reading it, and looking at what was read
    bool operator==(const StorageFacts&) const = default;

    bool empty() const { return *this == StorageFacts{}; }
};
struct StorageFact {
    std::string_view name;
    StorageFacts::Value StorageFacts::*value;
};
inline constexpr std::array<StorageFact, 6> kStorageFacts{
    {{"data_wait_s", &StorageFacts::data_wait_s},
     {"save_bytes", &StorageFacts::save_bytes},
     {"save_stall_s", &StorageFacts::save_stall_s},
     {"save_write_s", &StorageFacts::save_write_s},
     {"load_bytes", &StorageFacts::load_bytes},
     {"load_s", &StorageFacts::load_s}}};

// What is known of the run besides its events; what is empty, or 0, is not.
struct RunFacts {
    std::string prices;                 // predicted: where they are from, "profile a100-80gb-sxm"
    std::string backend;                // measured: that performed the step, "cpu"
    std::int64_t ranks_per_device = 0;  // measured: where above 1, times say nothing
    // In bytes; predicted: of the worst rank of each program, measured: by rank.
    std::vector<std::int64_t> arena_bytes;       // that are planned
    std::vector<std::int64_t> high_water_bytes;  // of bound offsets in the arena
    std::vector<std::int64_t> other_bytes;       // of the process, outside the arena
    std::vector<double> step_times_s;            // of the run's steps, warm-up left out
    StorageFacts storage = {};
    bool operator==(const RunFacts&) const = default;
};

struct Trace {
    Origin origin = Origin::predicted;
    std::string scenario_json;  // resolved, for people
    RunFacts facts;
    std::vector<OpName> ops;
    std::vector<ProgramOps> programs;
    std::vector<Track> tracks;
    Picoseconds step_start = 0;  // the step's window: between successive optimizer ends
    Picoseconds step_end = 0;
    bool operator==(const Trace&) const = default;

    const OpName& op_of(const Track& track, std::size_t event) const {
        const ProgramOps& program = programs[static_cast<std::size_t>(track.program)];
        return ops[program.op[event]];
    }
};

}  // namespace orrery::trace
