// Makes the "collectives" section of a profile (sim/network/collective_table.hpp) from timings of
// collectives within one node: the median of each size, made monotone, thinned to what the
// interpolation needs, with the error of interpolation on points held out. The constants of the
// algorithms, which price what was not measured, are NCCL's own.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/network/collective_table.hpp"

namespace orrery::fit {

// One timing; bytes is S of nccl-tests.
struct CollectiveSample {
    std::string system;
    std::string library;  // version of the library that ran it
    std::string collective;
    int ranks = 0;
    int nodes = 1;
    double bytes = 0;
    double seconds = 0;
    std::string source;
};

// CSV with the header "system,nccl,collective,ranks,nodes,bytes,time_us,source". Throws
// std::runtime_error with the line number for what it cannot read.
std::vector<CollectiveSample> read_collective_samples(std::istream& csv);

struct CollectiveFit {
    std::string system;   // as in the samples
    std::string library;  // as in the samples; may be empty where the system has only one
    double intra_node_bandwidth_GBps = 0;  // line rate of the measured machine, per device
    bool hierarchical = false;             // it has NVLS: in-switch reduction
    double inter_node_efficiency = 0.8;
    double inter_node_relative_sd = 0.3;
    std::string inter_node_source =
        "assumed; published clusters reach 0.2 to 0.8 of the NICs' line rate";
};

// The section. Samples of other systems, of several nodes and of collectives that no plan has
// (all_to_all) are left out. Throws std::runtime_error where nothing is left, or several library
// versions are there and none is chosen.
nlohmann::json fit_collectives(const std::vector<CollectiveSample>& samples,
                               const CollectiveFit& fit);

// Steps of the above, each useful alone.
// Median time of each size, then the nearest (least squares, weighted by samples) series that
// never falls: pool adjacent violators (Barlow et al. 1972).
std::vector<sim::CurvePoint> monotone_medians(const std::vector<CollectiveSample>& samples);
// The fewest points, chosen greedily, from which interpolation gives every point within
// `tolerance` (relative). Keeps the ends.
std::vector<sim::CurvePoint> thinned(const std::vector<sim::CurvePoint>& points, double tolerance);
// Root mean square of the relative error at every second point, interpolated from the others.
// Pessimistic: the spacing is twice that of the curve. 0 for fewer than three points.
double held_out_error(const std::vector<sim::CurvePoint>& points);

}  // namespace orrery::fit
