// Constants measured on one device in units of another's datasheet, with a residual that is wider
// by what such a transfer misses: what a profile of a device that nobody timed is made of.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace orrery::fit {

// Of the constants that are carried over, beside their own residual; as standard deviations.
struct TransferError {
    double gemm = 0;
    double attention = 0;
    double memory = 0;
    double collectives = 0;
    std::string gemm_source, attention_source, memory_source, collectives_source;
};

// The sections of the profile at `like_path`, scaled to the hardware of `datasheet`: rates by the
// dense peak of their element type (attention's as the GEMM rate), bandwidths by the memory's, the
// cache by its size and by the number of multiprocessors; times of launch, shares, ratios and
// collectives as they stand. Residuals are joined as independent: sqrt(own² + transfer²). Curves
// lose what belongs to the other device's shapes: neighbours, spans, held-out errors. GEMM curves
// of element types that one of the two sheets does not list are left out, but bf16 becomes fp16
// where only that is listed. What the datasheet itself states stands instead of what would be
// carried over; `path` is the datasheet's. Throws FitError where a sheet lacks what a ratio needs,
// sim::ProfileError where `like_path` is no profile.
nlohmann::ordered_json carry_over(const nlohmann::ordered_json& datasheet,
                                  const std::string& like_path, const TransferError& error,
                                  const std::string& path);

}  // namespace orrery::fit
