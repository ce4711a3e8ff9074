// Constants of a software generation or a cluster from published runs: the values that bring
// predicted steps closest to measured ones, held to what was believed before.
//
// Minimises Σ huber(ln(predicted ÷ measured)) ÷ kSpread² + Σ (ln(value ÷ prior) ÷ sd)² over the
// training half of the records (by a hash of their ids), by Gauss-Newton on the logarithms of the
// constants with iterated weights. The other half judges: its errors are of constants that never
// saw it. Constants trade off against each other (a slow attention looks like a slow product); the
// prior decides where the records cannot, and the deviation that remains says so.
#pragma once

#include <string>
#include <vector>

#include "calib/compare/validate.hpp"

namespace orrery::compare {

struct Constant {
    std::string key;        // of a scenario: "training.attention_factor"
    double prior = 1;       // > 0
    double prior_sd = 0.3;  // of its logarithm
};

struct FittedConstant {
    Constant constant;
    double value = 1;
    double sd = 0;  // of its logarithm, prior and records together
};

struct ConstantsFit {
    std::vector<FittedConstant> constants;
    // Rows with a measured time that nobody mistrusts, before (at the priors) and after.
    ErrorSummary training_before, training, held_out_before, held_out;
};

// Residuals beyond this weigh less: half of the sources' errors are below it.
inline constexpr double kSpread = 0.05;

// Whether a record trains: the parity of the 64-bit FNV-1a hash of its id.
bool in_training_half(const std::string& id);

// `fixed` overrides apply throughout. Throws RecordsError where fewer rows train than there are
// constants, or where a constant is refused by the scenarios (then no row is left).
ConstantsFit fit_constants(const std::string& records_path, const std::string& library_dir,
                           const std::vector<Constant>& constants,
                           const std::vector<std::string>& fixed = {});

}  // namespace orrery::compare
