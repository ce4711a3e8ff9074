#include "calib/measure/cpu_profile.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calib/fit/curve_json.hpp"
#include "calib/fit/fit_kernels.hpp"
#include "calib/fit/this_machine.hpp"
#include "calib/fit/write_profile.hpp"
#include "calib/measure/profile_sections.hpp"
#include "runtime/cpu/kernels.hpp"

namespace orrery::measure {
namespace {

using Json = nlohmann::ordered_json;

// Of the last-level cache, what operands of one rank may fill. Beyond the limit a larger cache is
// not asked for its edge: kernels of a step seldom have larger operands.
double resident_share(const CalibrationOptions& options, const Machine& machine) {
    constexpr double kLargest = 32 << 20;
    const std::int64_t share = machine.cache_bytes / options.ranks;
    return std::min(kLargest, static_cast<double>(share));
}

Json hardware_json(const CalibrationOptions& options, const Machine& machine,
                   const CpuTimings& timings, double resident_bytes, const std::string& source) {
    double fastest = 0;
    for (const fit::GemmRow& row : timings.gemm.front().second)
        fastest = std::max(fastest, 2e-6 * static_cast<double>(row.m * row.n) *
                                        static_cast<double>(row.k) / row.time_us);
    const Json peak = quantity(fastest,
                               "the fastest fp32 product that was measured; 16 bits and eight "
                               "are computed in fp32");
    Json hardware;
    hardware["kind"] = "cpu";
    hardware["source"] = source;
    hardware["capacity_bytes"] = {
        {"value", machine.memory_bytes / options.ranks},
        {"source", fmt::format("physical memory, shared by {} ranks", options.ranks)}};
    hardware["memory_GBps"] =
        quantity(timings.copy_bytes_per_s / 1e9, "copies by all ranks at once, read and written");
    hardware["cache_bytes"] = {{"value", resident_bytes},
                               {"source", "last-level cache, shared by the ranks"}};
    hardware["multiprocessors"] = options.threads_per_rank;
    hardware["power_w"] = quantity(10.0 * options.threads_per_rank, "assumed: 10 W per core");
    hardware["peak_tflops"] = {{"fp8", peak}, {"bf16", peak}, {"fp16", peak}, {"fp32", peak}};
    return hardware;
}

Json attention_json(const CpuTimings& timings, const std::string& source,
                    std::vector<fit::FamilyReport>& families) {
    std::vector<fit::AttentionRow> backward = timings.attention.forward;
    for (std::size_t i = 0; i < backward.size(); ++i)
        backward[i].time_us = timings.attention.backward_us[i];
    Json attention;
    attention["dtype"] = std::string(plan::name(plan::DType::fp32));
    attention["forward"] = attention_curves_json(timings.attention.forward, timings.steps.attention,
                                                 source, "attention", families);
    attention["backward"]["curves"] = attention_curves_json(
        backward, timings.steps.attention_backward, source, "attention backward", families);
    return attention;
}

Json sharing_json(const std::vector<SharingRow>& rows, const std::string& source) {
    std::map<std::int64_t, std::vector<double>> by_ranks;
    for (const SharingRow& row : rows)
        by_ranks[row.ranks].push_back(row.stretch);
    Json stretch = Json::array();
    double widest = 0;
    for (auto& [ranks, values] : by_ranks) {
        const double middle = median(values);
        widest = std::max(widest, spread(values, middle));
        stretch.push_back({ranks, fit::rounded(middle, fit::kFittedDigits)});
    }
    return {{"source", fmt::format("{}: {} steps of small models, over their kernels' medians",
                                   source, rows.size())},
            {"relative_sd", fit::rounded(std::max(fit::kLeastError, widest), fit::kFittedDigits)},
            {"stretch", stretch}};
}

Json collectives_json(const CalibrationOptions& options,
                      const std::vector<fit::CollectiveSample>& samples) {
    fit::CollectiveFit fit;
    fit.system = options.device;
    fit.intra_node_bandwidth_GBps = options.intra_node_bandwidth_GBps;
    fit.link = {plan::IntraNodeKind::host, options.intra_node_latency_us};
    fit.algorithms = fit::Algorithms::links;
    return Json(fit::fit_collectives(samples, fit));
}

}  // namespace

Calibration profile_of(const CpuTimings& timings, const CalibrationOptions& options,
                       const Machine& machine) {
    const double resident_bytes = resident_share(options, machine);
    const std::string source = fmt::format(
        "orrery {} calibrate, {}: {} on {} cores, {} ranks of {} thread{} busy at once, {} kernels",
        options.version, machine.date, machine.processor, machine.cores, options.ranks,
        options.threads_per_rank, options.threads_per_rank == 1 ? "" : "s",
        runtime::kernels().instruction_set);
    Calibration result;
    constexpr double kQuiet = 0.05;  // of all cores
    if (timings.others_cores > kQuiet * static_cast<double>(machine.cores))
        result.warning = fmt::format(
            "other work had {:.1f} of {} cores meanwhile: the profile is of this machine with that "
            "work; times of a quiet one are shorter",
            timings.others_cores, machine.cores);
    Json& profile = result.profile;
    profile["format"] = "orrery profile";
    profile["version"] = 1;
    profile["device"] = options.device;
    profile["provenance"] = {
        source, "built with " + machine.compiler,
        fmt::format("each time: the mean over ranks of the median of {} samples after {} warm-ups, "
                    "on numbers of N(0, 1)",
                    options.sampling.samples, options.sampling.warm_ups),
        fmt::format("{} of {} samples and {} of {} runs of whole steps were disturbed; other work "
                    "had {:.2f} cores meanwhile",
                    timings.samples.dropped, timings.samples.taken, timings.performed.dropped,
                    timings.performed.taken, timings.others_cores)};
    profile["machine"] =
        fit::machine_json({machine.processor, machine.cores}, options.version, machine.date);
    profile["hardware"] = hardware_json(options, machine, timings, resident_bytes, source);
    for (auto [dtype, rows] : timings.gemm) {
        if (dtype == plan::DType::fp32)
            rows.insert(rows.end(), timings.steps.gemm.begin(), timings.steps.gemm.end());
        const std::string name = fit::name_of_products(dtype);
        const fit::GemmFit fit = fit::fit_gemm(rows, static_cast<double>(plan::size_bytes(dtype)));
        profile["gemm"][name] =
            fit::curve_json(fit, source, quantity(1, "timed with all ranks busy throughout"));
        if (plan::is_eight_bit(dtype))
            for (const char* scales : {"row_scales", "block_scales", "micro_block_scales"})
                profile["gemm"][name][scales] = quantity(
                    1, "assumed: each number is expanded to fp32, whatever shares its scale");
        result.families.push_back(fit::family_report(name, fit));
    }
    const fit::MemoryFit memory = fit::fit_memory(timings.memory, resident_bytes);
    profile["batched_gemm"] = batched_gemm_json(timings.products, profile["gemm"]["fp32"], memory,
                                                std::numeric_limits<double>::infinity(), source);
    profile["attention"] = attention_json(timings, source, result.families);
    const double memory_GBps = profile["hardware"]["memory_GBps"]["value"].get<double>();
    profile["memory"] = memory_json(memory, memory_GBps, resident_bytes, source);
    result.families.push_back(fit::family_report(memory));
    const std::vector<fit::KernelFit> kernels =
        fit::fit_kernels(timings.steps.memory, resident_bytes);
    profile["memory"]["kernels"] =
        kernels_json(kernels, source + ", in whole steps of small models");
    for (const fit::KernelFit& fit : kernels)
        result.families.push_back(fit::family_report(fit));
    profile["overlap"] = {{"measured", false}, {"source", "not measured"}, {"compute_slowdown", 1}};
    if (!timings.steps.sharing.empty())
        profile["sharing"] = sharing_json(timings.steps.sharing, source);
    if (!timings.steps.collectives.empty())
        profile["collectives"] = collectives_json(options, timings.steps.collectives);
    return result;
}

Calibration measure_cpu_profile(const CalibrationOptions& wanted,
                                const std::function<void(const std::string&)>& progress) {
    const Machine machine = this_machine();
    CalibrationOptions options = wanted;
    if (options.ranks == 0)
        options.ranks = std::max<std::int64_t>(1, machine.cores / options.threads_per_rank);
    options.kernels.memory_high =
        std::max(options.kernels.memory_high, 8 * resident_share(options, machine));
    return profile_of(time_cpu(options, progress), options, machine);
}

}  // namespace orrery::measure
