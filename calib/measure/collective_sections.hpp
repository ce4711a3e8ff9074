// What timings of collectives become: sections of a profile, and the table that nccl-tests would
// print.
#pragma once

#include <optional>
#include <string>

#include "calib/fit/collectives.hpp"
#include "calib/measure/collective_timings.hpp"
#include "calib/measure/profile_sections.hpp"

namespace orrery::measure {

struct CollectiveFacts {
    std::string system;   // that they are of: the device
    std::string library;  // and its version; not empty
    std::string source;
    std::optional<double> link_GBps;  // line rate out of a device, one direction
    fit::Algorithms algorithms = fit::Algorithms::nccl;
};

// The section "collectives": of ranks on one node, as the curves of a profile are. A message from
// each rank to the next is its curve of `exchange`; profiles have none of all_to_all. Without a
// line rate bandwidths are shares of the fastest bus bandwidth, which the section says. Throws
// fit::FitError.
Json collectives_json(const CollectiveTimings& timings, const CollectiveFacts& facts);

// The section "overlap": the mean over the collectives. Of none nothing.
std::optional<Json> overlap_json(const CollectiveTimings& timings, const std::string& source);

// What profiles have no place for: calls beside products, all_to_all, what was left out.
std::vector<std::string> collective_notes(const CollectiveTimings& timings,
                                          const CollectiveGrid& grid);

// A table for each of all_reduce, all_gather and reduce_scatter; `program`: that timed.
std::string nccl_tables(const CollectiveTimings& timings, const std::string& program,
                        const std::string& nccl_version);

}  // namespace orrery::measure
