// What the host of a rank takes to issue an op. It is not the same for all: forward is issued by a
// Python interpreter, backward by PyTorch's autograd engine, which is C++; an op that computes may
// stand for several kernels, a collective is one; and a transfer of the pipeline has a protocol of
// its own around it.
#pragma once

#include <array>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

struct LaunchTimes {
    Picoseconds forward = 0;  // recomputation and the optimizer, too
    Picoseconds backward = 0;
    Picoseconds forward_collective = 0;
    Picoseconds backward_collective = 0;
    Picoseconds transfer = 0;  // an exchange with stages of the pipeline

    LaunchTimes() = default;
    LaunchTimes(Picoseconds each)
        : forward(each),
          backward(each),
          forward_collective(each),
          backward_collective(each),
          transfer(each) {}

    Picoseconds of(plan::OpKind kind, plan::Phase phase) const {
        if (kind == plan::OpKind::exchange) return transfer;
        const bool back = phase == plan::Phase::backward;
        if (plan::is_communication(kind)) return back ? backward_collective : forward_collective;
        return back ? backward : forward;
    }
    bool operator==(const LaunchTimes&) const = default;
    bool none() const { return *this == LaunchTimes(); }
};

// How an op is issued where kernels were captured in CUDA graphs: by itself, as the first of a
// graph, which takes the time of one op, or with those before it, which takes none. One that is
// issued by itself may stand for several that the host launches one after another.
enum class InGraph : std::uint8_t { no, first, later };

struct GraphLaunches {
    std::vector<InGraph> ops;  // by number of the op across blocks; empty: there are no graphs
    std::vector<std::int64_t> launches;  // by the same; empty: one for each op
    // By the same, empty: none. Before it the host waits for all that it has issued to the streams
    // on which rows of experts are counted, and reads the counts.
    std::vector<bool> reads_counts;
    // After an exchange with other stages, before the next op that is none, the host waits for all
    // that it has issued.
    bool waits_for_exchanges = false;
    Picoseconds step = 0;  // before the first op: of a graph that goes on for the whole step

    Picoseconds of(std::size_t number, Picoseconds alone) const {
        if (!ops.empty() && ops[number] != InGraph::no)
            return ops[number] == InGraph::later ? 0 : alone;
        return launches.empty() ? alone : launches[number] * alone;
    }
    bool is_after_reading(std::size_t number) const {
        return !reads_counts.empty() && reads_counts[number];
    }
    // Whether the host waits for every stream before the second of two that it issues in a row.
    bool is_after_exchange(plan::OpKind before, plan::OpKind then) const {
        return waits_for_exchanges && before == plan::OpKind::exchange &&
               then != plan::OpKind::exchange;
    }
    bool operator==(const GraphLaunches&) const = default;
};

inline constexpr std::array kCountingStreams = {plan::Stream::compute, plan::Stream::expert_comm};

}  // namespace orrery::trace
