// A trace that another program has recorded of a run, as PyTorch's profiler: what each thread of
// the host and each stream of a device did, by name. It knows no plan, so that it cannot be joined
// with ours; who launched which kernel it does know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

enum class RecordedKind : std::uint8_t {
    kernel,         // that computes, of a device
    communication,  // a kernel that speaks to other devices, or what a process group of hosts does
    transfer,       // one that speaks to a single one
    copy,           // memory is copied or set, by a device
    op,             // of the host: an operator of the framework
    call,           // of the host: into the device's runtime
    annotation,     // what the user has named
    other
};

inline constexpr std::uint32_t kNoSpan = ~std::uint32_t{0};

// Of what PyTorch calls the passes; nothing: that of whoever called it.
std::optional<plan::Phase> phase_named(std::string_view name);

struct RecordedSpan {
    Picoseconds start = 0;
    Picoseconds end = 0;
    std::uint32_t name = 0;  // into RecordedTrace::names
    std::uint32_t lane = 0;  // into RecordedProcess::lanes
    // What launched it or what it launches, a call and a kernel, copy or message; kNoSpan: neither
    // is known.
    std::uint32_t partner_process = kNoSpan;
    std::uint32_t partner = kNoSpan;  // into that process's spans
    std::uint16_t depth = 0;          // in others of its lane, from 0
    RecordedKind kind = RecordedKind::other;
    // Of the pass that issued it: within the engine of autograd backward, within a step of an
    // optimizer that, else forward.
    plan::Phase phase = plan::Phase::forward;
};

// What an event says besides: shapes of an operator's inputs, what a collective moves. Empty, or
// below 0: nothing.
struct RecordedArguments {
    std::string input_dims;   // "[[2048,4096],[4096,4096]]"
    std::string output_dims;  // the same, where a file says it (Chakra)
    std::string collective;   // "allreduce"
    std::string dtype;        // "BFloat16"; an operator: of its first input
    std::int64_t in_elements = -1, out_elements = -1;  // of a rank's message
    std::int64_t group_size = -1;
    std::string op;                       // whose inputs these are, where the span has another name
    std::optional<plan::OpKind> op_kind;  // of a span that is an op of a plan

    bool any() const { return !input_dims.empty() || !collective.empty() || op_kind; }
    auto operator<=>(const RecordedArguments&) const = default;
};

struct RecordedLane {
    std::string name;  // "stream 7", "thread 4711 (python)"
    std::uint16_t depths = 1;
};

// Threads of a process, or streams of a device.
struct RecordedProcess {
    std::string name;  // "python · GPU 0"
    bool is_device = false;
    std::vector<RecordedLane> lanes;
    std::vector<RecordedSpan> spans;  // by start, then the longer first, then by lane
    // By span, into RecordedTrace::arguments, kNoSpan: none. Empty where nobody asked for them.
    std::vector<std::uint32_t> arguments;
};

struct RecordedTrace {
    std::vector<std::string> names;
    std::vector<RecordedArguments> arguments;  // each once
    std::int64_t rank = -1;                    // as the file says; −1: it does not
    std::int64_t world_size = 0;
    std::string device;  // "NVIDIA H100 80GB HBM3"
    std::string part;    // of a file that holds several traces, which: "device 1 of process 4711"
    std::vector<std::int64_t> group_sizes;   // of the job's process groups, each once, ascending
    std::vector<RecordedProcess> processes;  // devices first
    Picoseconds end = 0;                     // of the last span; the first begins at 0
    // Events of kinds that are not read: counters, instants, and what is not named.
    std::uint64_t left_out = 0;
};

// What a span of one of the trace's processes says besides; null: nothing.
inline const RecordedArguments* arguments_of(const RecordedTrace& trace,
                                             const RecordedProcess& process, std::uint32_t span) {
    if (process.arguments.empty() || process.arguments[span] == kNoSpan) return nullptr;
    return &trace.arguments[process.arguments[span]];
}

}  // namespace orrery::trace
