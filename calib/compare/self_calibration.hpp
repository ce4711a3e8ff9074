// A user's own stack and cluster from a few of its measured steps: constants of the preset and of
// the network shift from what the population says towards what the runs show, each as far as its
// prior's spread allows.
//
// ln(predicted ÷ measured) of the rows is taken as linear in the logarithms of the constants; the
// shift minimises Σ r² ÷ s² + Σ (shift ÷ sd)². With one row the common factor moves, with more what
// they differ by. How far single runs lie about the constants, s, is what makes the rows most
// probable: rows that no shift brings together move constants less. Each row is also predicted by a
// shift that has not seen it (leave one out), which says how much the calibration helps runs that
// are not among those given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/stack_prior.hpp"

namespace orrery::compare {

// Of single runs about what their source shows, before any are seen; it counts as so many rows.
inline constexpr double kRunSpread = sim::kStructureLate;
inline constexpr double kRunSpreadRows = 4;

struct ShiftedConstant {
    std::string key;    // of a scenario: "training.kernel_factor"
    double before = 1;  // of the preset or cluster
    double after = 1;
    double prior_sd = 0;  // of its logarithm: of stacks, or of clusters, about each other …
    double sd = 0;        // … and with what the runs show
};

struct SelfCalibration {
    std::vector<ShiftedConstant> constants;
    std::int64_t rows = 0;
    double run_spread = 0;  // of logarithms: of single runs about what the constants say
    double mean_error_before_pct = 0;
    double mean_error_after_pct = 0;     // of the same rows, predicted again
    double mean_error_left_out_pct = 0;  // each by the others; 0 with one row
};

// Records as `orrery validate` reads them, of one stack and cluster. Throws RecordsError where no
// row can be predicted, or rows name different stacks.
SelfCalibration calibrate_to_runs(const std::string& records_path, const std::string& library_dir);

}  // namespace orrery::compare
