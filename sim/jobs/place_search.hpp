// Better places for jobs that share a fabric.
//
// Candidates are policies (compact, scattered, rail-aligned, random) with the jobs in several
// orders, first come first placed, and then swaps of nodes between jobs, and with free ones, on
// from the best. Each is judged by an estimate: the step alone on those nodes, simulated, and what
// meeting others on the worst link adds if phases fall by chance. The best by estimate, and what
// was there before, are simulated together (run_jobs), and the winner is the best of these.
//
// Where nodes differ, by kind or because some are slow, jobs are also placed on those that their
// step alone is shortest on, and exchanges give slow nodes away.
//
// What a job's slow-down is against is its step alone on the emptied cluster, placed compactly: so
// nodes far apart count as well as neighbours. Where nodes differ, on those that are fastest for
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/jobs/placement.hpp"
#include "sim/jobs/run_jobs.hpp"
#include "sim/jobs/shift_search.hpp"

namespace orrery::sim {

struct PlaceSearchOptions {
    JobsObjective objective = JobsObjective::sum;
    std::uint64_t seed = 1;
    int random_orders = 2;  // beside those by the file and by size
    int random_places = 2;
    int swaps = 8;   // tried in a round
    int rounds = 4;  // while they help
    int simulated = 3;
    bool shifts = false;  // search them, too, where places are simulated (shift_search.hpp)
    RunJobsOptions run;
};

struct PlaceCandidate {
    std::string how;  // "compact, largest first", "as given", "swapped 3 times"
    std::vector<NodeList> nodes;
    double estimate = 0;  // of the objective
};

struct SimulatedPlaces {
    PlaceCandidate candidate;
    JobsOutcome outcome;
    std::vector<double> slowdowns;            // by job, against compact on the emptied cluster
    double score = 0;                         // objective
    std::optional<ShiftSearchResult> shifts;  // best first; the outcome is that of the best
};

struct PlaceSearchResult {
    std::vector<SimulatedPlaces> simulated;  // best first
    std::int64_t estimated = 0;              // candidates
    std::vector<double> compact_s;           // by job: its step alone, compact
};

// `given`: where the jobs are, or are to be; `pinned`: by job, that it stays there. The result does
// not depend on the number of threads.
PlaceSearchResult search_places(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                                const std::vector<NodeList>& given, const std::vector<bool>& pinned,
                                const PlaceSearchOptions& options);

}  // namespace orrery::sim
