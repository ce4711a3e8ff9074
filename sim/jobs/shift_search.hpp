// By how much jobs that share a fabric should start later, so that one communicates while the
// others compute.
//
// Jobs of like steps keep their phases against each other, and a shift lasts: what CASSINI
// (Rajasekaran et al. 2024, NSDI) makes use of. As there, what each job alone asks of a link over
// its step is laid on a circle, and circles are turned against each other until the sum rises least
// above what the link carries: all jobs spread evenly, packed one after another, and moved one at a
// time from these and from where they are. The estimate of a job is its step, longer by what rises
// above on the worst of its links while it is there. The best by estimate, and the starts given,
// are then simulated together (run_jobs), and the winner is the best of these: never worse than
// what was given.
//
// Where steps are unlike phases drift, and what a shift gains goes with them: the circle is then
// some steps of the longest job, and `drifts` says how fast.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/jobs/run_jobs.hpp"

namespace orrery::sim {

struct ShiftSearchOptions {
    JobsObjective objective = JobsObjective::sum;
    int simulated = 3;
    std::vector<double> against_s;  // steps that slow-downs are against, by job; empty: alone there
    RunJobsOptions run;
};

struct ShiftCandidate {
    std::string how;              // "as given", "spread evenly", "packed, then moved"
    std::vector<double> later_s;  // by job, than given
    double estimate = 0;          // of the objective
};

struct SimulatedShifts {
    ShiftCandidate candidate;
    JobsOutcome outcome;
    std::vector<double> slowdowns;  // by job
    double score = 0;               // objective
};

// Two jobs that meet on a link that they can fill, and whose steps are unlike.
struct PhaseDrift {
    std::int32_t slow = 0, fast = 0;  // by the length of their runs
    double drift_s = 0;               // of the fast one's phase, in a run of the slow one
    double runs = 0;                  // of the slow one, until it has gone through a whole run
};

struct ShiftSearchResult {
    std::vector<SimulatedShifts> simulated;  // best first
    std::int64_t estimated = 0;              // candidates
    std::vector<PhaseDrift> drifts;          // by pair, in order of the file; none: shifts last
    const SimulatedShifts& given() const;
};

// The result does not depend on the number of threads.
ShiftSearchResult search_shifts(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                                const std::vector<NodeList>& nodes,
                                const ShiftSearchOptions& options);

}  // namespace orrery::sim
