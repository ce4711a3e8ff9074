// Makes the "collectives" section of a profile (sim/network/collective_table.hpp) from timings of
// collectives within one node: the median of each size, made monotone, thinned to what the
// interpolation needs, with the error of interpolation on points held out. The constants of the
// algorithms, which price what was not measured, are NCCL's own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "calib/fit/csv_table.hpp"
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

// Columns of a table of timings; "nccl" is the library's version.
extern const std::vector<std::string> kCollectiveColumns;

// Throws FitError with the line for what it cannot read.
std::vector<CollectiveSample> collective_samples(const CsvTable& table);

// Whose costs price what no curve covers: NCCL's, or, where ranks are processes of a host, rings
// whose hops take the cluster's stated latencies and whose bandwidth is that of the links. Samples
// of the latter are of threads that wait to be woken: monotone_by_medians.
enum class Algorithms { nccl, links };

struct CollectiveFit {
    std::string system;   // as in the samples
    std::string library;  // as in the samples; may be empty where the system has only one
    double intra_node_bandwidth_GBps = 0;   // line rate of the measured machine, per device
    std::optional<sim::MeasuredLink> link;  // of it; nothing where nobody knows
    Algorithms algorithms = Algorithms::nccl;
    bool hierarchical = false;  // nccl only: the machine has NVLS, reduction in the switch
    double inter_node_efficiency = 0.8;
    double inter_node_relative_sd = 0.3;
    std::string inter_node_source =
        "assumed of InfiniBand; published clusters reach 0.2 to 0.8 of the NICs' line rate";
};

// The section. Samples of other systems, of several nodes and of collectives that no plan has
// (all_to_all) are left out. Throws FitError where nothing is left, or several library versions
// are there and none is chosen.
nlohmann::json fit_collectives(const std::vector<CollectiveSample>& samples,
                               const CollectiveFit& fit);

// A section without curves, for a device whose collectives nobody has timed; fit.library is unused.
nlohmann::json unmeasured_collectives(const CollectiveFit& fit,
                                      const sim::LinkEfficiency& intra_node);

// Steps of the above, each useful alone.
// Median time of each size, then the nearest (least squares, weighted by samples) series that
// never falls: pool adjacent violators (Barlow et al. 1972).
std::vector<sim::CurvePoint> monotone_medians(const std::vector<CollectiveSample>& samples);
// The same by least absolute errors, each sample by itself (a pool has the median of its samples;
// Robertson and Wright 1973): of samples that are few for each size, and some of them far off.
std::vector<sim::CurvePoint> monotone_by_medians(const std::vector<CollectiveSample>& samples);
// The fewest points, chosen greedily, from which interpolation gives every point within
// `tolerance` (relative). Keeps the ends.
std::vector<sim::CurvePoint> thinned(const std::vector<sim::CurvePoint>& points, double tolerance);
// Root mean square of the relative error at every second point, interpolated from the others.
// Pessimistic: the spacing is twice that of the curve. 0 for fewer than three points.
double held_out_error(const std::vector<sim::CurvePoint>& points);

}  // namespace orrery::fit
