// How far constants of one device, carried over by the ratio of the datasheets, miss what was
// measured on another: what a datasheet's "like" may state as the error of a transfer.
#pragma once

#include <string>
#include <vector>

#include "calib/fit/fit_profile.hpp"

namespace orrery::fit {

struct TransferredFamily {
    std::string family;   // "gemm bf16", "attention d128", "collectives"
    ErrorSummary errors;  // predicted ÷ measured − 1, over every row of the device
};

struct TransferReport {
    std::string from;    // device whose constants were carried over
    std::string device;  // device whose tables judge
    std::vector<TransferredFamily> families;
};

// Carries the constants of the profile at `like_path` over to the datasheet's hardware and compares
// with the rows that the datasheet's "tables" ask for. Nothing is fitted to them or written; the
// tables are short bursts, so GEMM rates are taken at burst. Collectives are compared at each
// median size, within one node. Throws as fit_profile.
TransferReport judge_transfer(const FitInputs& inputs, const std::string& like_path);

}  // namespace orrery::fit
