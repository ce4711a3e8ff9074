// A training step of small models by a device and by the CPU, on the same weights and tokens: the
// loss, and the gradient of every parameter.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "runtime/streams/stream_backend.hpp"

namespace orrery::runtime::gpu_check {

// ‖gradient − the CPU's‖ over the larger of ‖the CPU's‖ and a thousandth of what a tensor has on
// average.
struct GradientFinding {
    std::string model;
    plan::DType dtype = plan::DType::fp32;
    std::string tensor;  // "loss": of the loss, its relative difference
    double difference = 0;
    double bound = 0;

    bool right() const { return difference <= bound; }  // NaN is wrong
};

// `scenarios`: the library's folder, for frameworks and profiles. On as many devices as there are,
// two at most. Of the models whose names say `only`.
std::vector<GradientFinding> check_whole_steps(const DriverSource& devices, plan::DType dtype,
                                               const std::string& scenarios,
                                               const std::string& only = "");

}  // namespace orrery::runtime::gpu_check
