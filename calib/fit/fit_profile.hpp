// From tables of measurements and a datasheet to a profile. The datasheet is a profile as a person
// writes it, with what no table gives (sizes, peaks, factors from papers, unmeasured curves), each
// with its source, and a key "tables" that says what is to be fitted:
//
//   "tables": { "system": "a100-80gb-sxm",          the tables' name for the device
//               "gemm":      { "dtype": "bf16", "source": "…", "sustained": {"value", "source"} },
//               "attention": { "source": "…" },
//               "collectives": { "library": "2.27.3", "intra_node_bandwidth_GBps": 300,
//                                "intra_node_kind": "nvswitch", "intra_node_latency_us": 2,
//                                "hierarchical": false } }      each of the three may be absent
//
// The fit replaces "tables" by the curves it found; every other key goes over as it stands. A
// datasheet may also ask for constants of a device like it ("like") and for collectives that nobody
// timed ("links"): calib/fit/derived_profile.hpp. It needs "tables" or "like".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calib/fit/held_out.hpp"

namespace orrery::fit {

struct FitInputs {
    std::string datasheet_path;
    std::string gemm_csv;         // read only if the datasheet asks for it
    std::string attention_csv;    // likewise
    std::string collectives_csv;  // likewise
    std::string output_path;      // replaced whole, or left alone when the fit fails
};

struct FamilyReport {
    std::string family;  // "gemm bf16", "attention d128"
    std::int64_t fitted_rows = 0;
    std::int64_t left_out_rows = 0;  // neither fitted nor held out
    ErrorSummary held_out;
    std::string parameters;  // for people: "t0 6.46 us, 263 TFLOP/s, …"
};

// A curve of a collective: how far interpolation misses a point that it does not have.
struct CollectiveReport {
    std::string collective;
    int ranks = 0;
    std::size_t points = 0;
    double relative_sd = 0;
};

struct FitReport {
    std::string device;
    std::vector<FamilyReport> families;
    std::vector<CollectiveReport> collectives;
    // "--gemm FILE": tables that the datasheet does not ask for.
    std::vector<std::string> unread = {};
};

// The datasheet and the profile that it is carried over from, if any. Throws FitError.
std::vector<std::string> files_of_datasheet(const std::string& path);

// Throws FitError for a table or a datasheet's "tables" at fault, FitStorageError when the profile
// cannot be written, sim::ProfileError when the
// result is not a valid profile (then nothing is written).
FitReport fit_profile(const FitInputs& inputs);

}  // namespace orrery::fit
