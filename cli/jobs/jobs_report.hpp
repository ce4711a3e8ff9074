// What `orrery jobs` answers, for people and as JSON (docs/jobs.md).
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "plan/scenario/jobs/read_jobs.hpp"
#include "sim/jobs/place_search.hpp"
#include "sim/jobs/run_jobs.hpp"

namespace orrery::cli {

struct JobsReport {
    const plan::SharedCluster& shared;
    const std::vector<sim::Job>& jobs;
    const std::vector<sim::NodeList>& nodes;
    const std::vector<std::string>& placed;  // by job: how
    const sim::JobsOutcome& outcome;
    // By job: its step alone if all its devices and links were as fast as their like; none where
    // the cluster's are.
    const std::vector<double> even_s;
    const sim::PlaceSearchResult* search = nullptr;  // where places were searched for
    const sim::ShiftSearchResult* shifts = nullptr;  // likewise; the outcome is that of the best
    sim::JobsObjective objective = sim::JobsObjective::sum;
};

//     4 jobs of 4,096 ranks on 512 nodes of 8 x a100-80gb-sxm, fat tree: leaves of 16 nodes, 4:1
//
//     job   ranks  nodes  leaves  alone   shared  slower   exposed  alone  tokens/s
//     a     1,024    128       8  25.7 s  26.1 s  1.015 x   3.9 s   3.8 s   120,400
//
// Where nodes are of several kinds a line says which each job has; where some are slow, which job
// has them and what they cost it.
std::string jobs_text(const JobsReport& report, const Console& console);
std::string jobs_json(const JobsReport& report);

}  // namespace orrery::cli
