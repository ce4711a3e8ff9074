// A step as a graph of actions instead of ops: of an action, ops that wait for nothing but one
// another once the first has begun are one node, and what others wait for of them ends a fixed
// delay after its start; each transfer, and each collective that tracks meet in, is a node too.
// Starts are then longest paths, found in one pass over flat arrays: the engine's times to the
// picosecond for a fraction of its work, again and again with other durations.
//
// The graph is exact, or there is none. It holds where what an op waits for is settled by the plan:
// - a full queue of the host never delays an op (an op that may wait for its launch is a node of
// its
//   own);
// - no kernel is slowed down by communication: the profile has no slow-down, or no kernel of a rank
//   may run beside communication of its own. Else it cannot hold: of two neighbours' kernels the
//   one that ends first sends, and slows down the other; which one that is, no plan says;
// - no two ops of a rank that leave their node may run at the same time: they share the network;
// - no times are measured, a transfer takes as long both ways, and none carries statistics of a
//   step validated later.
// Slow devices, jitter, gradient reductions beside backward, groups across pipeline ranks and
// several steps one after another are within it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/longest_paths.hpp"

namespace orrery::sim {

// Nodes whose delays are the same, whatever they are.
struct ActionClass {
    enum class Kind : std::uint8_t { nothing, ops, transfer, meeting };
    Kind kind = Kind::nothing;
    // Of ops: their rank. Of a transfer: both ends. Of a collective that tracks meet in: its
    // members, of whom the one for which it takes longest counts.
    std::vector<TrackId> tracks;
    std::vector<std::uint32_t> numbers;  // of the ops; of a meeting by member; of a transfer none
    std::vector<std::uint32_t> ids;      // of ops that jitter makes unlike each time; else empty
    // Pairs of ops, by index, of which the second waits for the first; by the second, ascending.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waits;
    std::vector<std::uint32_t>
        outputs;                    // ops, by index, that other nodes wait for, or that are last
    std::int32_t last_kernel = -1;  // of outputs: the last op of the compute stream; −1: none

    std::size_t delays() const { return kind == Kind::ops ? outputs.size() : 1; }
    auto operator<=>(const ActionClass&) const = default;
};

struct ActionTimes {
    Picoseconds start = 0;  // of the step: the last end of the steps before it, or 0
    Picoseconds end = 0;
    // By track, of one step: its actions up to their last kernels, each with the collectives that
    // it waits for itself. What is left of a step is transfers that are waited for, bubble and work
    // beside compute.
    std::vector<Picoseconds> computing;

    Picoseconds step() const { return end - start; }
    Picoseconds waiting(std::size_t track) const { return step() - computing[track]; }
};

class ActionGraph {
  public:
    // Of an input whose programs hold `repetitions` steps; nothing where it would not be exact, or
    // where the plan deadlocks. Needs `input` no longer than the call.
    static std::optional<ActionGraph> of(const EngineInput& input, int repetitions);

    const std::vector<ActionClass>& classes() const { return classes_; }
    std::size_t nodes() const { return nodes_.size(); }

    // Delays, by number, at the prices of `input`, which else is the graph's. Nothing where the
    // graph would not be exact at these prices: where launches take time none may be below the
    // graph's, lest an op wait for the host that is not a node.
    std::optional<std::vector<Picoseconds>> delays(const EngineInput& input) const;

    // `delays`: not negative; their sum over a step stays below kLongestStep. `scratch` is for the
    // next call, which then allocates nothing but its result.
    ActionTimes evaluate(const std::vector<Picoseconds>& delays,
                         std::vector<Picoseconds>& scratch) const;

  private:
    friend class ActionGraphBuilder;

    // Kernels of a class, in the last step.
    struct Computing {
        std::size_t track = 0;
        std::uint32_t delay = 0;  // of its last kernel
        std::int64_t runs = 0;
    };

    // What delays of another input must agree on.
    struct Prices {
        std::vector<Picoseconds> durations, hops;
        std::optional<Uneven> uneven;
    };

    bool holds_for(const EngineInput& input) const;

    std::vector<PathNode> nodes_;       // each follows those before it; 0 is the start of time
    std::vector<ActionClass> classes_;  // 0: nothing
    // Delays: none, those of the host, those of classes one by one, and those made of them.
    std::vector<Picoseconds> host_;
    std::vector<DerivedDelay> derived_;
    std::vector<PathEnd> ends_before_;  // last ends of the steps before the last
    std::vector<PathEnd> ends_;         // last ends of all steps
    std::vector<Computing> computing_;
    std::size_t tracks_ = 0;
    trace::LaunchTimes launch_;
    trace::GraphLaunches graphs_;
    std::int64_t launch_queue_ = 0;
    std::int64_t slowdown_permille_ = 0;
    std::vector<Prices> least_;  // by track; empty where launches take no time
};

}  // namespace orrery::sim
