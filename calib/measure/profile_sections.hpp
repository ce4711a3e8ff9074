// Sections of a profile that timings of any backend make alike (sim/cost/profile.hpp says what they
// mean): fitted, rounded, each with its source.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "calib/fit/fit_kernels.hpp"
#include "calib/fit/fit_profile.hpp"
#include "calib/measure/kernel_timings.hpp"

namespace orrery::measure {

using Json = nlohmann::ordered_json;

// Root mean square of value ÷ middle − 1.
double spread(const std::vector<double>& values, double middle);

// {"value", "source"}, rounded.
Json quantity(double value, const std::string& source);

// A curve per head size of the rows, each of which is added to `families` as `family`. Three rows
// of whole steps or more scale all curves: by the median of what they took over what the curve of
// their head size says. Throws fit::FitError.
Json attention_curves_json(const std::vector<fit::AttentionRow>& rows,
                           const std::vector<fit::AttentionRow>& in_steps,
                           const std::string& source, const std::string& family,
                           std::vector<fit::FamilyReport>& families);

// Forward curves, and the backward as a ratio to them.
Json attention_json(const AttentionTimings& timings, plan::DType dtype, const std::string& source,
                    std::vector<fit::FamilyReport>& families);

// The rate is that of a constant and FLOP, once the operands' time at operands_GBps is taken off
// (infinite: they are in cache, none is). The simulator adds the operands at the bandwidth of
// memory, which overstates those in cache: the error stated is that of its whole formula
// (KernelCost::price_batched_gemm).
Json batched_gemm_json(const std::vector<ProductRow>& rows, const Json& gemm,
                       const fit::MemoryFit& memory, double operands_GBps,
                       const std::string& source);

// The profile states bandwidths as shares of the hardware's: efficiency times each.
Json memory_json(const fit::MemoryFit& fit, double memory_GBps, double resident_bytes,
                 const std::string& source);

Json kernels_json(const std::vector<fit::KernelFit>& fits, const std::string& source);

}  // namespace orrery::measure
