// Which of the simulator's two ways to price the products of a rank's experts (KernelCost: a kernel
// for each expert, or one for all) says what they take on a device.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "calib/fit/fit_profile.hpp"
#include "plan/ops/experts.hpp"

namespace orrery::fit {

// bf16, as many rows for each expert.
struct ExpertTiming {
    plan::GroupedGemm product;
    double time_us = 0;
};

// The section grouped_gemm: the way that is nearer to the timings, and how far both are off. Of no
// timings what the runtime is known to do. `profile` is what has been measured so far, whole.
nlohmann::ordered_json grouped_gemm_json(const nlohmann::ordered_json& profile,
                                         const std::vector<ExpertTiming>& timings,
                                         const std::string& source,
                                         std::vector<FamilyReport>& families);

}  // namespace orrery::fit
