// A trace as rows of lanes: for each track, which is a rank and those that do the same at the same
// time, what it does and waits for; below, once asked for, its streams and its memory. Times are
// those of the trace, names those of its other viewers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/timeline/lane.hpp"
#include "gui/timeline/viewport.hpp"
#include "trace/memory_over_time.hpp"

namespace orrery::gui {

struct RankLanes {
    std::size_t track = 0;  // of the trace
    std::int32_t pipeline_rank = 0;
    std::string name;   // "pp 1 · rank 128"
    std::string alike;  // "×128 identical ranks"; empty where it stands for itself alone
    // Index: step of the program, −1: waiting. The first has each kind of work and of waiting for
    // itself, and covers the step's window without gaps. The second has actions whole, with what
    // they wait for on their way, but for a pipeline peer: what a person clicks on.
    Lane work;
    Lane outline;
};

class Timeline {
  public:
    // Adds up every track that has events; may take a second for millions of them.
    explicit Timeline(std::shared_ptr<const trace::Trace> trace);

    const trace::Trace& trace() const { return *trace_; }
    Stretch window() const { return {trace_->step_start, trace_->step_end}; }
    // The window and all events; never empty.
    Stretch limits() const { return limits_; }

    // By pipeline rank, then by rank.
    const std::vector<RankLanes>& ranks() const { return ranks_; }
    // Tracks of which the trace says nothing but that they are there.
    std::size_t without_events() const { return trace_->tracks.size() - ranks_.size(); }

    const trace::Track& track_of(std::size_t rank) const {
        return trace_->tracks[ranks_[rank].track];
    }
    const trace::ProgramOps& program_of(std::size_t rank) const {
        return trace_->programs[static_cast<std::size_t>(track_of(rank).program)];
    }
    // Both made when first asked for, and kept. Streams are in the order of plan::Stream, with a
    // second lane where ops of one overlap; index: op id.
    const std::vector<Lane>& streams(std::size_t rank) const;
    const std::vector<trace::MemoryChange>& memory(std::size_t rank) const;
    // The row of a track; nothing where it has none.
    std::optional<std::size_t> rank_of_track(std::size_t track) const;

    // The first op on the compute stream that starts at or after a time; nothing after the last.
    std::optional<std::size_t> kernel_from(std::size_t rank, Picoseconds time) const;

  private:
    std::shared_ptr<const trace::Trace> trace_;
    Stretch limits_;
    std::vector<RankLanes> ranks_;
    mutable std::vector<std::optional<std::vector<Lane>>> streams_;
    mutable std::vector<std::optional<std::vector<trace::MemoryChange>>> memory_;
};

}  // namespace orrery::gui
