// Constants of a stack and of links from one measured step: what its kernels, collectives and gaps
// took over what the model says of the same ops. Of a run of Orrery's own (train --trace), or of
// another program's that import-trace has matched with a plan.
//
// A family's factor is the measured time of all its ops over the modelled one. Products say
// kernel_factor, since every kernel has it; attention and memory-bound kernels what they differ by
// from products; collectives within a node and between nodes the bandwidth and latency of the
// links. launch_us is that with which the simulated device waits for its host as long as the
// measured one did; where both wait equally long, to a five-hundredth of the step, it stays.
// Nothing is made to fit the step: it is predicted again with what was found, and what is left is
// told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/kernel_cost.hpp"

namespace orrery::compare {

struct FamilyOverModel {
    sim::CostFamily family = sim::CostFamily::gemm;
    double measured_s = 0;  // of all its ops in a step, by their means
    double modelled_s = 0;
    double relative_sd = 0;  // of the factor between the family's ops
};

struct FoundConstant {
    std::string key;    // of a scenario: "training.kernel_factor"
    double before = 1;  // of the trace's scenario
    double after = 1;
};

struct TraceCalibration {
    std::string model;
    std::int64_t ranks = 0;  // that were measured
    double measured_step_s = 0;
    double predicted_before_s = 0;
    double predicted_after_s = 0;
    double measured_wait_s = 0;             // for the host, mean over ranks
    std::vector<FamilyOverModel> families;  // that were measured, in their order
    std::vector<FoundConstant> constants;
};

// `sets`: keys of the trace's scenario to be overridden, as its profile. Throws RecordsError where
// the trace does not say its scenario, or that is none; sim::CostsError where it was not measured.
TraceCalibration calibrate_to_trace(const std::string& path, const std::vector<std::string>& sets,
                                    const std::string& library_dir);

}  // namespace orrery::compare
