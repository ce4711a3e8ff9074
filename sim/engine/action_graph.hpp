// A step as a graph of actions instead of ops: an action whose ops wait for nothing else once its
// first has begun is one node that takes as long as its longest path, each transfer is one more;
// of other actions each run of ops that always follow one another without a gap is one. Starts
// and ends are then longest paths, found in one pass over flat arrays: the engine's times to the
// picosecond for a fraction of its work, again and again with other durations.
//
// The graph is exact, or there is none. It holds where what an op waits for is settled by the plan:
// - the host issues at once (launch 0), and never has to hold back an op that could start;
// - no kernel is slowed down by communication: the profile has no slow-down, or no kernel of a rank
//   runs beside communication of its own;
// - no two ops of a rank that leave their node may run at the same time: they share the network;
// - ops are priced alike each time (no jitter, no measured times), a transfer alike both ways;
// - transfers carry activations and gradients alone, no statistics of a step validated later.
// Gradient reductions beside backward, groups across pipeline ranks and several steps one after
// another are within it: what overlaps is a node of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"

namespace orrery::sim {

// Nodes that take equally long, whatever that is.
struct ActionClass {
    enum class Kind : std::uint8_t { nothing, ops, transfer, meeting };
    Kind kind = Kind::nothing;
    // Of ops: their rank. Of a transfer: both ends. Of a collective that tracks meet in: its
    // members, of whom the one for which it takes longest counts.
    std::vector<TrackId> tracks;
    std::vector<std::uint32_t> numbers;  // of the ops; of a meeting by member; of a transfer none
    // Pairs of ops, by index, of which the second waits for the first; by the second, ascending.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waits;
    bool computes = false;  // has kernels of the compute stream

    auto operator<=>(const ActionClass&) const = default;
};

struct ActionTimes {
    Picoseconds start = 0;  // of the step: the last end of the steps before it, or 0
    Picoseconds end = 0;
    // By track, of one step: its actions, each with the collectives that it waits for itself. What
    // is left of a step is transfers that are waited for, bubble and work beside compute.
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

    // By class, at the prices of `input`, whose programs are those of the graph's.
    std::vector<Picoseconds> durations(const EngineInput& input) const;

    // `durations`: by class, not negative; their sum over a step stays below kLongestStep.
    // `scratch` is for the next call, which then allocates nothing but its result.
    ActionTimes evaluate(const std::vector<Picoseconds>& durations,
                         std::vector<Picoseconds>& scratch) const;

  private:
    friend class ActionGraphBuilder;

    static constexpr std::size_t kBefore = 4;

    // In an order in which each follows those before it; node 0 is the start of time. Unused places
    // of `before` name node 0.
    struct Node {
        std::array<std::uint32_t, kBefore> before{};
        std::uint32_t action_class = 0;
    };

    std::vector<Node> nodes_;
    std::vector<ActionClass> classes_;  // 0: nothing
    std::size_t tracks_ = 0;
    std::vector<std::uint32_t> ends_before_;  // last nodes of the steps before the last
    std::vector<std::uint32_t> ends_;         // last nodes of all steps
    std::vector<std::int64_t> runs_;          // by class: nodes of the last step
};

}  // namespace orrery::sim
