// orrery-gpu-check: every kernel on the GPU against the CPU's, then whole training steps. One JSON
// line per output, then a summary; exit code 0 where all are right, 6 without a device, 7 where one
// is wrong.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/cuda/nccl_driver.hpp"
#include "tests/gpu/checks/checks.hpp"
#include "tests/gpu/checks/whole_step.hpp"

namespace {

using orrery::plan::DType;
using namespace orrery::runtime;
using namespace orrery::runtime::gpu_check;

constexpr int kUsage = 2;
constexpr int kNoDevice = 6;
constexpr int kWrong = 7;

nlohmann::ordered_json line_of(const Finding& finding) {
    nlohmann::ordered_json line = {{"op", finding.op},
                                   {"case", finding.variant},
                                   {"output", finding.output},
                                   {"dtype", orrery::plan::name(finding.dtype)},
                                   {"elements", finding.elements},
                                   {"wrong", finding.wrong},
                                   {"repeats", finding.repeats},
                                   {"right", finding.right()}};
    // Infinite where there is no bound to be a part of.
    if (std::isfinite(finding.worst)) line["worst_of_bound"] = finding.worst;
    if (!finding.first_wrong.empty()) line["first_wrong"] = finding.first_wrong;
    return line;
}

struct Summary {
    std::int64_t outputs = 0, wrong = 0;
};

void check_type(DType dtype, Summary& summary) {
    for (const Check& check : kChecks) {
        const auto driver = make_cuda_driver(0);
        World world(*driver, dtype, true);
        check.run(world);
        for (const Finding& finding : world.findings()) {
            std::cout << line_of(finding).dump() << '\n';
            ++summary.outputs;
            if (!finding.right()) ++summary.wrong;
        }
        std::cout.flush();
    }
}

nlohmann::ordered_json line_of(const GradientFinding& finding) {
    return {{"op", "whole step of " + finding.model},
            {"output", finding.tensor},
            {"dtype", orrery::plan::name(finding.dtype)},
            {"right", finding.right()},
            {"worst_of_bound", finding.difference / finding.bound}};
}

void check_steps(DType dtype, const std::string& scenarios, Summary& summary) {
    const DriverSource devices{cuda_devices(), make_cuda_driver, make_nccl_driver};
    for (const GradientFinding& finding : check_whole_steps(devices, dtype, scenarios)) {
        std::cout << line_of(finding).dump() << '\n';
        ++summary.outputs;
        if (!finding.right()) ++summary.wrong;
    }
}

}  // namespace

// The argument: the folder of scenarios.
int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: orrery-gpu-check SCENARIOS\n";
        return kUsage;
    }
    try {
        Summary summary;
        cuda_devices();
        for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
            check_type(dtype, summary);
        for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
            check_steps(dtype, argv[1], summary);
        std::cout << nlohmann::ordered_json{{"summary",
                                             {{"outputs", summary.outputs},
                                              {"wrong", summary.wrong}}}}
                         .dump()
                  << '\n';
        return summary.wrong == 0 ? EXIT_SUCCESS : kWrong;
    } catch (const DeviceError& error) {
        std::cerr << "orrery-gpu-check: " << error.what() << '\n';
        return kNoDevice;
    } catch (const std::exception& error) {
        std::cerr << "orrery-gpu-check: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
