// From a file of jobs to the cluster that they share and a Scenario each: what `orrery jobs` reads
// (docs/jobs.md). Everything that is wrong is reported at once, that of the scenarios too.
//
//     { "cluster": "clusters/….json" or its keys,
//       "jobs": [ { "name": "a", "scenario": "runs/….json" or its keys, "nodes": 128,
//                   "placement": "compact" }, … ] }
//
// The cluster of a job's scenario is the shared one with as many nodes as the job has, alike and of
// one kind, the first that it fits: which it gets is decided later. Codes of faults across jobs are
// J001 to J010, those within a scenario its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/scenario.hpp"
#include "plan/scenario/schema.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::plan {

// Which nodes a job gets; sim/jobs/placement.hpp says how.
enum class PlacementPolicy : std::uint8_t { compact, scattered, random, rail_aligned };
template <>
struct Spelling<PlacementPolicy> {
    static constexpr std::array<std::string_view, 4> names = {"compact", "scattered", "random",
                                                              "rail_aligned"};
};

struct SharedJob {
    std::string name;
    Scenario scenario;
    std::int64_t nodes = 0;
    PlacementPolicy placement = PlacementPolicy::compact;
    std::int64_t seed = 1;
    std::vector<std::int64_t> on_nodes;  // ascending; empty: by `placement`
    double start_s = 0;
    // Of the shared cluster's nodes, ascending: those of the devices that its scenario names; none:
    // any. There are nodes for all jobs (share_nodes.hpp).
    std::vector<std::size_t> kinds;
};

struct SharedCluster {
    Cluster cluster;
    std::vector<SharedJob> jobs;
};

struct JobsReadResult {
    std::optional<SharedCluster> shared;  // set exactly when `errors` is empty
    std::vector<Diagnostic> errors;
    bool unreadable = false;
    std::vector<std::string> files;  // that were read, the jobs file among them
};

JobsReadResult read_jobs(const std::string& path, const std::string& library_dir,
                         const Files& files = disk());

// Whole nodes that a pipeline stage of the job fills; 0: stages share nodes.
std::int64_t stage_nodes(const Scenario& scenario);

// What may stand in such a file: "cluster" as in a scenario, "jobs" with their keys.
const std::vector<KeySpec>& jobs_schema();
// The same as a JSON Schema; ends in a newline.
std::string jobs_json_schema();

}  // namespace orrery::plan
