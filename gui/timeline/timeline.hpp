// A trace as rows of lanes: for each track, which is a rank and those that do the same at the same
// time, what it does and waits for; below, once asked for, its streams and its memory. Times are
// those of the trace, names those of its other viewers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gui/timeline/lane.hpp"
#include "gui/timeline/viewport.hpp"
#include "trace/memory_over_time.hpp"
#include "trace/recorded.hpp"

namespace orrery::gui {

// An op of a row.
struct OpPlace {
    std::size_t rank = 0;
    std::int32_t event = 0;
    bool operator==(const OpPlace&) const = default;
};

struct RankLanes {
    std::size_t track = 0;  // of the trace, of a recorded one its process
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
    // Of a step that has been estimated (sim::estimate_step): its ops are whole passes.
    static std::shared_ptr<const Timeline> of_estimate(trace::Trace trace);
    // Of one that another program recorded: a row per device and per process of the host.
    explicit Timeline(std::shared_ptr<const trace::RecordedTrace> recorded);

    // Of one of ours, as all that speaks of tracks and programs below.
    const trace::Trace& trace() const { return *trace_; }
    const trace::RecordedTrace* recorded() const { return recorded_.get(); }  // null: ours
    bool is_estimate() const { return is_estimate_; }
    Stretch window() const { return window_; }
    // The window and all events; never empty.
    Stretch limits() const { return limits_; }

    // By pipeline rank, then by rank.
    const std::vector<RankLanes>& ranks() const { return ranks_; }
    // Tracks of which the trace says nothing but that they are there.
    std::size_t without_events() const {
        return trace_ ? trace_->tracks.size() - ranks_.size() : 0;
    }

    // Of any op: what it is called, when it was; what it waited for last, or was launched by, and
    // the first that did so of it.
    std::string name_of(const OpPlace& op) const;
    Stretch times_of(const OpPlace& op) const;
    std::optional<OpPlace> blocker_of(const OpPlace& op) const;
    std::optional<OpPlace> waiter_of(const OpPlace& op) const;
    // Op ids of the action that an op is of, which are issued one after another: first and end.
    std::pair<std::int32_t, std::int32_t> ops_of_action(const OpPlace& op) const;

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
    std::shared_ptr<const trace::RecordedTrace> recorded_;
    bool is_estimate_ = false;
    Stretch window_, limits_;
    std::vector<RankLanes> ranks_;
    mutable std::vector<std::optional<std::vector<Lane>>> streams_;
    mutable std::vector<std::optional<std::vector<trace::MemoryChange>>> memory_;
};

}  // namespace orrery::gui
