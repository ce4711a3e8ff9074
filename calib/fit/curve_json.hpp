// Fitted curves as a profile has them (sim/cost/profile.hpp), and as a report tells them.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "calib/fit/fit_attention.hpp"
#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/fit_kernels.hpp"
#include "calib/fit/fit_memory.hpp"
#include "calib/fit/fit_profile.hpp"

namespace orrery::fit {

// Numbers are rounded to what a fit can know. `source`: where the rows come from; what the fit did
// is added to it. `sustained` is the profile's, a number or {"value", "source"}.
nlohmann::ordered_json curve_json(const GemmFit& fit, const std::string& source,
                                  const nlohmann::ordered_json& sustained);
nlohmann::ordered_json curve_json(const AttentionFit& fit, const std::string& source);
// What a profile's section "gemm" calls products of an element type.
std::string name_of_products(plan::DType dtype);

// The source is that of the section around it.
nlohmann::ordered_json curve_json(const KernelFit& fit);

FamilyReport family_report(const std::string& dtype, const GemmFit& fit);
FamilyReport family_report(const AttentionFit& fit);
FamilyReport family_report(const MemoryFit& fit);
FamilyReport family_report(const KernelFit& fit);
// Of each measured curve.
std::vector<CollectiveReport> collective_reports(const sim::Profile& profile);

}  // namespace orrery::fit
