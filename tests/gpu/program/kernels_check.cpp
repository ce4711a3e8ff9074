// orrery-run gpu-check: every kernel on the GPU against the CPU's, and whole training steps. One
// JSON line per output, then a summary; exit code 0 where all are right, 6 without a device, 7
// where one is wrong. Checks can be named: what ruins a device's context for good ruins it for one
// process.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/cuda/nccl_driver.hpp"
#include "tests/gpu/checks/checks.hpp"
#include "tests/gpu/checks/whole_step.hpp"
#include "tests/gpu/program/kernels_check.hpp"

namespace {

using orrery::plan::DType;
using namespace orrery::runtime;
using namespace orrery::runtime::gpu_check;

constexpr const char* kWholeSteps = "steps";
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

    // What a kernel broke off does not keep others from being checked, where the device goes on.
    void note_failed(const std::string& check, DType dtype, const std::exception& error) {
        std::cout << nlohmann::ordered_json{{"op", check},
                                            {"dtype", orrery::plan::name(dtype)},
                                            {"right", false},
                                            {"error", error.what()}}
                         .dump()
                  << std::endl;
        ++outputs;
        ++wrong;
    }
};

void check_kernels(const Check& check, DType dtype, bool cudnn, Summary& summary) {
    CudaSettings settings;
    settings.cudnn = cudnn;
    const auto driver = make_cuda_driver(0, settings);
    World world(*driver, dtype, true);
    try {
        check.run(world);
    } catch (const DeviceError& error) {
        summary.note_failed(check.name, dtype, error);
    }
    for (const Finding& finding : world.findings()) {
        nlohmann::ordered_json line = line_of(finding);
        if (check.by_cudnn) line["cudnn"] = cudnn;
        std::cout << line.dump() << '\n';
        ++summary.outputs;
        if (!finding.right()) ++summary.wrong;
    }
    std::cout.flush();
}

nlohmann::ordered_json line_of(const GradientFinding& finding) {
    return {{"op", "whole step of " + finding.model},
            {"output", finding.tensor},
            {"dtype", orrery::plan::name(finding.dtype)},
            {"right", finding.right()},
            {"worst_of_bound", finding.difference / finding.bound}};
}

void check_steps(DType dtype, const std::string& scenarios, Summary& summary) {
    const DriverSource devices{cuda_devices(), [](int device) { return make_cuda_driver(device); },
                               make_nccl_driver};
    for (const GradientFinding& finding : check_whole_steps(devices, dtype, scenarios)) {
        std::cout << line_of(finding).dump() << '\n';
        ++summary.outputs;
        if (!finding.right()) ++summary.wrong;
    }
}

}  // namespace

// After the program's name the folder of scenarios, and names of checks: none for all. Without
// arguments: lists the names.
int orrery::runtime::gpu_check::check_program(int argc, char** argv) {
    if (argc < 2) {
        for (const Check& check : kChecks)
            std::cout << check.name << '\n';
        std::cout << kWholeSteps << '\n';
        return EXIT_SUCCESS;
    }
    const std::set<std::string> named(argv + 2, argv + argc);
    std::set<std::string> unknown = named;
    const auto is_asked_for = [&](const std::string& name) {
        unknown.erase(name);
        return named.empty() || named.count(name) > 0;
    };
    try {
        Summary summary;
        cuda_devices();
        for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
            for (const Check& check : kChecks)
                if (is_asked_for(check.name)) {
                    check_kernels(check, dtype, false, summary);
                    if (check.by_cudnn) check_kernels(check, dtype, true, summary);
                }
            if (is_asked_for(kWholeSteps)) check_steps(dtype, argv[1], summary);
        }
        for (const std::string& name : unknown)
            std::cerr << "orrery-gpu-check: there is no check " << name << '\n';
        if (!unknown.empty()) return kUsage;
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
