// Two steps laid over each other op by op, though their plans differ: which op of the one is which
// of the other. An op is known by what it computes and not by who computes it: by its pass and
// micro-batch, its layer, and the part of the model that its block is of (embedding, layer, head,
// …); there by kind, phase and process group, in issue order, so that as many as can be are
// matched, and of those as many as can be in one size. What is no pass of a micro-batch (transfers,
// reductions of gradients, the optimizer) belongs to its stage. Labels and ranks say nothing: a
// layer that has moved to another pipeline rank is the same layer, and a backward pass in two
// halves the same pass.
//
// Of a trace that holds several steps the last one counts.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace {

enum class Side : std::uint8_t { a, b };
inline Side other(Side side) {
    return side == Side::a ? Side::b : Side::a;
}

// An op of a program, by its op id.
struct ProgramOp {
    std::int32_t program = -1;
    std::int32_t op = -1;
    bool operator==(const ProgramOp&) const = default;
};

// The same of one rank.
struct TrackOp {
    std::size_t track = 0;
    std::size_t op = 0;
    bool operator==(const TrackOp&) const = default;
};

class Alignment {
  public:
    // Both must outlive it. `stop` becomes true: nobody wants it any more, and ops that are not
    // aligned by then have no counterpart.
    Alignment(const Trace& a, const Trace& b, const std::atomic<bool>* stop = nullptr);

    const Trace& trace(Side side) const { return *traces_[static_cast<std::size_t>(side)]; }
    // Of an op of `side` its counterpart on the other side; nothing where that has none.
    std::optional<ProgramOp> counterpart(Side side, const ProgramOp& op) const;
    // The rank is the one at the same place among those of its pipeline rank, from the first to the
    // last; where there are fewer or more of them, at the same share of the way.
    std::optional<TrackOp> counterpart(Side side, const TrackOp& op) const;

  private:
    // Ranks that a track has in its program, ascending; `before`: ranks of the program below them.
    struct RankPlace {
        RankRange ranks;
        std::size_t track = 0;
        std::int64_t before = 0;
    };
    static std::vector<std::vector<RankPlace>> places_of(const Trace& trace);

    std::array<const Trace*, 2> traces_;
    std::array<std::vector<std::vector<ProgramOp>>, 2> others_;  // by side, program and op id
    std::array<std::vector<std::vector<RankPlace>>, 2> places_;  // by side and program
};

}  // namespace orrery::trace
