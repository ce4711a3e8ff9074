// What collectives take between the ranks of a backend, by kind and size, and what products and
// collectives do to each other on a device that is at both: by the marks of each rank's own device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calib/measure/collective_plan.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::measure {

struct CollectiveGrid {
    std::int64_t least_bytes = 8, most_bytes = 1 << 30;  // powers of two between them
    int calls = 20;                                      // in a row of small ones; as nccl-tests
    int large_calls = 5;                                 // of more than 16 MiB
    int steps = 3;                     // of each plan that count, after one that does not
    double seconds = 120;              // what is left of sizes then is not timed
    std::int64_t product_size = 4096;  // m, n and k of what runs beside; 0: nothing does
    plan::DType product_dtype = plan::DType::bf16;
    std::int64_t overlap_bytes = 64 << 20;
    std::int64_t workspace_bytes = 0;  // of a product
};

struct CollectiveRow {
    plan::OpKind kind = plan::OpKind::all_reduce;
    bool in_place = false;
    std::int64_t bytes = 0;
    double seconds = 0;  // of one call among several in a row: the mean over ranks
};

// Over what each takes alone.
struct OverlapRow {
    plan::OpKind kind = plan::OpKind::all_reduce;
    double products = 1;  // beside calls
    double calls = 1;     // beside products
};

struct CollectiveTimings {
    std::int64_t ranks = 0;
    std::vector<CollectiveRow> rows;  // by size, then kind
    std::vector<OverlapRow> overlap;
    std::int64_t largest_bytes = 0;  // that were timed
    int calls = 0;                   // in a row, of small ones
    struct Place {
        std::string host;
        std::int64_t process = 0;
        std::string device;  // as its rank describes it
    };
    std::vector<Place> places;  // by rank

    std::int64_t nodes() const;  // hosts by their names
};

// On one rank: its device, for people, of whom a line may have several words behind the first,
// which says where it hangs.
using DescribeDevice = std::function<std::string()>;

// All ranks of the backend take part. In the process of rank 0 what was timed, elsewhere nothing.
// `describe` is called in each rank's process; `progress` is told by rank 0; `now`: seconds of the
// host's clock. Throws what a backend throws.
std::optional<CollectiveTimings> time_collectives(
    std::int64_t ranks, runtime::Backend& backend, const CollectiveGrid& grid,
    const std::function<double()>& now, const DescribeDevice& describe,
    const std::function<void(const std::string&)>& progress);

// Of one step, by rank and op.
using StepOfRanks = std::vector<std::vector<runtime::OpTime>>;

// One call of several in a row: from the end of the first to that of the last, as the first one
// waits for ranks that come late. The mean over ranks.
double seconds_of_call(const OpRange& range, const StepOfRanks& times);

// Medians of what ran wholly while the other was at work, over the medians of what ran alone; of
// all ranks together. Nothing where none did.
std::optional<OverlapRow> overlap_of(const OverlapPlan& plan, plan::OpKind kind,
                                     const StepOfRanks& times);

}  // namespace orrery::measure
