// Links above the nodes that several jobs use: what each job's flows have of them while they meet.
//
// A flow of a job (a collective or a transfer of the tracks of its folded run) is so many unit
// flows on each link of its path, one for each group or message that it stands for there, each at
// most at the rate that it has alone. The capacity of a link is shared out max-min fairly over the
// unit flows in flight (Bertsekas, Gallager 1992, "Data Networks", §6.5.2): the rate of all rises
// together until a flow has what it asks for or a link of its path is full; the link that is full
// first stops those that pass it, what they leave elsewhere the others have. A flow moves on all
// links of its path at the one rate that the narrowest allows.
//
// Where one job alone is on a link, its flows have what they have in a step simulated alone, where
// that was priced. So a link's capacity counts as at least what the flows of one job ask of it
// together: a neighbour takes its part of that, and nothing changes where there is none.
//
// In whole numbers: rates in millionths of a flow's own, bandwidths in kB/s. The clock is that of
// all jobs together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/time.hpp"

namespace orrery::sim {

__extension__ using Work = __int128;
inline constexpr std::int64_t kOwnRate = 1'000'000;

// What one link did since sums were last begun.
struct LinkSums {
    std::vector<double> bytes;  // carried, by job
    std::vector<Picoseconds>
        held;              // by job: what its flows lost there, summed over flows in flight
    Picoseconds busy = 0;  // something passed
    Picoseconds met = 0;   // flows of several jobs did
    Picoseconds full = 0;  // it kept flows below the rate that they have alone
};

// What a job's flow does, as one of the calls below.
struct FlowCall {
    enum class Kind : std::uint8_t { begin, allow, end };
    Kind kind = Kind::begin;
    std::int32_t flow = 0;   // as its job numbers it
    std::int32_t path = 0;   // of begin
    std::int64_t value = 0;  // kB/s of begin, rate of allow
};

class SharedLinks {
  public:
    // One link of a path, in one direction: unit flows that pass, and what they carry together, in
    // rates of one unit.
    struct Passage {
        std::int32_t link = 0;
        std::int32_t flows = 0;
        double load = 0;
    };
    struct Limit {
        std::int32_t job = 0;
        std::int32_t flow = 0;  // as its job numbers it
        std::int64_t rate = kOwnRate;
    };

    // Capacities in kB/s, by link; at least 1.
    SharedLinks(std::vector<std::int64_t> capacities, std::int32_t jobs);

    // To be numbered by NetworkUse::path; of a transfer out first, in right after.
    std::int32_t add_path(std::vector<Passage> path);
    std::size_t paths() const { return paths_.size(); }

    // Time moves on to `now`, from where it was; rates stay.
    void move_to(Picoseconds now) { now_ = now; }
    Picoseconds now() const { return now_; }

    // `kBps`: of one unit flow at its own rate. Returns the flow's number here.
    std::int32_t begin(std::int32_t job, std::int32_t flow, std::int32_t path, std::int64_t kBps);
    // What its nodes allow it.
    void allow(std::int32_t number, std::int64_t rate);
    void end(std::int32_t number);

    // Whether a link was ever asked for more than it has.
    bool was_crowded(std::int32_t number) const {
        return links_[static_cast<std::size_t>(number)].was_crowded;
    }

    // The limits that have changed since the last call; to be called before time moves on.
    const std::vector<Limit>& settle();

    // Whether a link that flows of the job are on was asked for more than it has, as last settled.
    bool crowds(std::int32_t job) const;

    // Sums from now on; what is in flight counts from now.
    void begin_sums();
    // Of the time since, by link.
    std::vector<LinkSums> sums();

  private:
    struct Flow {
        std::int32_t job = -1;  // −1: not in flight
        std::int32_t flow = 0;
        std::int32_t path = 0;
        std::int32_t bottleneck = -1;       // link that holds it
        std::vector<std::int64_t> demands;  // kB/s at its own rate, along its path
        std::int64_t allowed = kOwnRate;
        std::int64_t rate = kOwnRate;  // limit
        std::int64_t filled = 0;       // while rates are computed: the rate so far …
        bool frozen = false;           // … and whether it is final
        Picoseconds since = 0;         // it is counted up to here
    };
    struct Passing {
        std::int32_t flow = 0;
        std::int32_t passage = 0;  // of its path
    };
    struct Link {
        std::int64_t capacity = 0;
        std::vector<Passing> passing;
        std::vector<std::int32_t> of_job;  // flows, by job
        std::int32_t jobs = 0;             // that have any
        std::int64_t shared_out = 0;       // while rates are computed: its capacity
        bool full = false;
        bool was_crowded = false;
        Picoseconds since = 0;
        std::vector<Work> carried;  // kB/s · ps · millionths, by job
        std::vector<Work> held;     // ps · millionths
        LinkSums sums;
    };
    // What remains of a link for the flows that it holds, over their number.
    struct Level {
        std::int32_t link = -1;
        std::int64_t left = 0;
        std::int64_t units = 0;
    };

    const std::vector<Passage>& path_of(const Flow& flow) const {
        return paths_[static_cast<std::size_t>(flow.path)];
    }
    Flow& flow(std::int32_t number) { return flows_[static_cast<std::size_t>(number)]; }
    Link& link(std::int32_t number) { return links_[static_cast<std::size_t>(number)]; }
    std::int64_t unit_flows(const Passing& passing);
    std::int64_t asked(const Passing& passing, std::int64_t rate);
    void count(Flow& flow);
    void count(Link& link);
    bool meets_others(const Flow& flow);
    void find_crowded();
    Level level_of(std::int32_t link);
    void hold(const Level& level);
    void fill();
    void note_full();

    std::vector<std::vector<Passage>> paths_;
    std::vector<Link> links_;
    std::vector<Flow> flows_;
    std::vector<std::int32_t> free_, in_flight_;
    std::vector<std::int32_t> crowded_;  // links that cannot give all that is asked of them
    std::vector<std::int64_t> asked_;    // by job, of one link
    std::vector<bool> taken_;            // while a level is computed: flows that need less
    std::vector<Limit> limits_;
    bool changed_ = false;
    Picoseconds now_ = 0;
};

}  // namespace orrery::sim
