// Several jobs on one fabric, step after step: what the links that they share make of each.
//
// Every job is simulated as it is alone (sim/machine.hpp, folded; ranks that shared links tell
// apart are parted), and all engines run in one time: where collectives and transfers of several
// jobs are on a link at once they share it max-min fairly (sim/engine/shared_links.hpp), take
// longer, and what waits for them starts later. When a job's run of its step is over the next
// begins, so that jobs drift against each other until their phases settle, as Rajasekaran et al.
// 2024, "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters" (NSDI), observe.
//
// A step is what simulate calls one. Of a job whose steps overlap, a run is as many of them as
// simulate runs for the one that counts.
//
// Where the cluster has jitter of kernels, step k of a job is drawn as simulate draws it with a
// seed higher by k, and compared with that step alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/jobs/job.hpp"
#include "sim/jobs/step_recorder.hpp"
#include "sim/network/fabric_links.hpp"

namespace orrery::sim {

struct RunJobsOptions {
    // Counted of each job, once all have done `warm_up` steps; the fastest do more meanwhile.
    int steps = 4;
    int warm_up = 1;
    // Ranks that only shared links tell apart are taken as one: all move at the pace of the slowest
    // of their groups. Faster, and a little late; for a first look at many placements.
    bool coarse = false;
    bool unfolded = false;  // every rank for itself; the same result, slower
    bool in_full = false;   // every run from its beginning on; likewise
    const std::atomic<bool>* stop = nullptr;
};

struct SharedStep {
    double mean_s = 0;
    double least_s = 0;
    double most_s = 0;
    double deviation_s = 0;  // standard, over its steps
    double exposed_s = 0;    // communication that nothing hides, mean over steps and ranks
    std::int64_t steps = 0;
    // By how much the mean of the second half of its steps exceeds that of the first, relative:
    // near 0 where phases have settled.
    double drift = 0;
};

struct JobOutcome {
    StepRecord alone;  // on the same nodes, with the fabric for itself: what simulate says
    SharedStep shared;
    std::int64_t leaves = 0;  // that its nodes are below
    std::int64_t tracks = 0;  // ranks that were simulated
    // Alone, over the very steps that `shared` is of: where each draws its kernels' times anew no
    // step is as the first.
    double alone_mean_s = 0;
    double alone_exposed_s = 0;
    double slowdown() const { return shared.mean_s / alone_mean_s; }
    // Against a first step elsewhere.
    double slowdown_against(double step_s) const;
};

struct LinkOutcome {
    FabricLink link;
    double GBps = 0;
    std::vector<std::int32_t> jobs;
    std::vector<double> bytes;   // by job, in the window
    std::vector<double> held_s;  // by job: what its flows lost there, one after another
    double carried = 0;          // share of what it could have carried
    double busy = 0;             // share of the window: something passed …
    double met = 0;              // … of several jobs …
    double full = 0;             // … and it kept flows back
};

struct JobsOutcome {
    std::vector<JobOutcome> jobs;
    std::vector<LinkOutcome> links;  // that jobs share and may fill, ascending
    double window_s = 0;             // over which they were watched
    double start_s = 0;              // of it
    std::uint64_t op_events = 0;
    std::string stuck;  // a job that deadlocks; the rest is then meaningless

    // Jain, Chiu, Hawe 1984, of the jobs' speeds against alone: 1 where all are slowed alike,
    // 1 ÷ jobs where one has all.
    double fairness() const;
};

// What searches look at: slow-downs of all jobs, or that of the job that loses most.
enum class JobsObjective : std::uint8_t { sum, worst };
double score_of(JobsObjective objective, const std::vector<double>& slowdowns);

// `nodes`: by job, apart from each other, each of a kind that the job fits. What of the cluster is
// slow slows the jobs that have it. Throws as build_machine, and Stopped.
JobsOutcome run_jobs(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                     const std::vector<NodeList>& nodes, const RunJobsOptions& options);

// One job's step on these nodes with nothing else there, and what it puts on each link above them.
struct LinkShare {
    double busy = 0;    // of the step, that something of it passes …
    double demand = 0;  // … and takes so much of what the link carries, on average over that
};
struct AloneStep {
    StepRecord step;
    std::map<FabricLink, LinkShare> links;
    bool stuck = false;
};
AloneStep run_alone(const plan::Cluster& cluster, const Job& job, const NodeList& nodes);

// What each job alone asks of the links that it shares and that jobs may fill, over a run of it.
struct LoadsAlone {
    struct Link {
        double kBps = 0;
        std::vector<std::vector<double>> loads;  // by job and slot, mean kB/s
    };
    std::vector<StepRecord> steps;  // by job
    Picoseconds slot = 0;           // `slots` of them are the shortest run
    std::vector<Link> links;
    std::string stuck;  // as of JobsOutcome
};
LoadsAlone loads_alone(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                       const std::vector<NodeList>& nodes, std::int64_t slots);

}  // namespace orrery::sim
