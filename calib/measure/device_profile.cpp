#include "calib/measure/device_profile.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "calib/fit/carry_unmeasured.hpp"
#include "calib/fit/curve_json.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/relative_fit.hpp"
#include "calib/fit/write_profile.hpp"
#include "calib/measure/collective_sections.hpp"
#include "calib/measure/profile_sections.hpp"

namespace orrery::measure {
namespace {

std::string or_unknown(const std::string& text) {
    return text.empty() ? "unknown" : text;
}

template <typename Value>
std::string or_unknown(const std::optional<Value>& value, const char* unit) {
    return value ? fmt::format("{:.0f} {}", static_cast<double>(*value), unit) : "unknown";
}

std::string reading_text(const runtime::GpuReading& reading) {
    return fmt::format("clock {}, memory clock {}, power {}, temperature {}",
                       or_unknown(reading.clock_MHz, "MHz"),
                       or_unknown(reading.memory_clock_MHz, "MHz"),
                       or_unknown(reading.power_w, "W"), or_unknown(reading.temperature_c, "C"));
}

double fastest_tflops(const std::vector<fit::GemmRow>& rows) {
    double fastest = 0;
    for (const fit::GemmRow& row : rows)
        fastest = std::max(fastest, 2e-6 * static_cast<double>(row.m * row.n) *
                                        static_cast<double>(row.k) / row.time_us);
    return fastest;
}

// Of the largest copy within the device.
double memory_GBps(const CopyTimings& copies) {
    const auto& [bytes, us] = copies.on_device.back();
    return 2e-3 * static_cast<double>(bytes) / us;
}

Json hardware_json(const DeviceTimings& timings, const DeviceMachine& machine,
                   const std::string& source) {
    const std::string driver = "as the driver tells it";
    Json hardware;
    hardware["source"] = source;
    hardware["capacity_bytes"] = {{"value", machine.gpu.memory_bytes}, {"source", driver}};
    hardware["memory_GBps"] = quantity(memory_GBps(timings.copies),
                                       "measured: the largest copy, read and written; datasheets "
                                       "say more");
    hardware["cache_bytes"] = {{"value", machine.gpu.cache_bytes}, {"source", driver}};
    hardware["multiprocessors"] = {{"value", machine.gpu.multiprocessors}, {"source", driver}};
    constexpr double kAssumedPower = 700;
    hardware["power_w"] =
        machine.power_limit_w
            ? quantity(*machine.power_limit_w, "the limit that NVML tells")
            : quantity(kAssumedPower, "assumed: NVML is not there or does not tell the limit");
    for (const ProductTimings& products : timings.products)
        hardware["peak_tflops"][fit::name_of_products(products.dtype)] =
            quantity(fastest_tflops(products.rows), "the fastest product that was measured");
    return hardware;
}

Json sustained_json(const DeviceTimer::Sustained& sustained, const DeviceSampling& sampling) {
    return quantity(
        std::min(1.0, sustained.burst_us / sustained.sustained_us),
        fmt::format("one large product: {:.1f} us in a burst, {:.1f} us over the "
                    "second half of {:.0f} s of nothing else",
                    sustained.burst_us, sustained.sustained_us, sampling.sustained_seconds));
}

// What the simulator multiplies the rate by: t0 is left out of both times.
Json row_scales_json(const ProductTimings& products, const fit::GemmFit& fit,
                     const std::string& source) {
    std::vector<double> ratios;
    for (const auto& [row, time_us] : products.of_scaled_rows) {
        const double of_tensors = products.rows[row].time_us - fit.curve.t0_us;
        if (of_tensors > fit.curve.t0_us && time_us > fit.curve.t0_us)
            ratios.push_back(of_tensors / (time_us - fit.curve.t0_us));
    }
    if (ratios.empty()) throw fit::FitError("products with scales of rows show no rate");
    const double ratio = median(ratios);
    return quantity(ratio, fmt::format("{}; median of {} products that are not mostly t0, root "
                                       "mean square {:.1f} %",
                                       source, ratios.size(), 100 * spread(ratios, ratio)));
}

// Microseconds, and GB/s that come on top of them.
std::pair<double, double> copy_constants(const CopyRows& rows) {
    fit::RelativeProblem problem;
    problem.columns = 2;
    for (const auto& [bytes, us] : rows) {
        problem.terms.insert(problem.terms.end(), {1.0, static_cast<double>(bytes)});
        problem.times.push_back(us);
    }
    const std::vector<double> x = fit::fit_relative(problem);
    return {x[0], x[1] > 0 ? 1e-3 / x[1] : 0};
}

std::string copy_text(const char* what, const CopyRows& rows) {
    const auto [us, GBps] = copy_constants(rows);
    return fmt::format("{} {:.1f} us and {:.4g} GB/s", what, us, GBps);
}

// One bandwidth and latency stand for both ways in a cluster: those of the slower one.
std::string host_copy_text(const HostCopyTimings& copies, const std::string& host_cores) {
    const auto to = copy_constants(copies.to_device), from = copy_constants(copies.from_device);
    const auto both = copy_constants(copies.both_ways);
    const double GBps = std::min(to.second, from.second);
    return fmt::format(
        "copies of pinned memory of the host{}, to {} MiB: {}; {}; both ways at once {:.4g} GB/s "
        "each way; beside products copies take {:.3f} times as long, products beside copies {:.3f} "
        "times (a cluster takes it as cluster.host_memory.bandwidth_GBps={:.4g} and "
        "cluster.host_memory.latency_us={:.3g})",
        host_cores.empty() ? "" : " (" + host_cores + ")", copies.to_device.back().first >> 20,
        copy_text("to the device", copies.to_device), copy_text("from it", copies.from_device),
        both.second, copies.copies_beside_products, copies.products_beside_copies, GBps,
        std::max(0.0, std::max(to.first, from.first)));
}

// What a profile has no place for.
std::vector<std::string> notes_of(const DeviceTimings& timings, const DeviceMachine& machine) {
    return {
        fmt::format("launches: {:.2f} us of the host for each (a scenario takes it as "
                    "training.framework.flags.launch_us.value), {:.2f} us of the device for "
                    "a kernel with next to nothing to do",
                    timings.launches.host_us, timings.launches.device_us),
        fmt::format("copies of {} sizes to {} MiB: {}; {}; {} (bytes once)",
                    timings.copies.to_device.size(), timings.copies.to_device.back().first >> 20,
                    copy_text("to the device", timings.copies.to_device),
                    copy_text("from it", timings.copies.from_device),
                    copy_text("within it", timings.copies.on_device)),
        host_copy_text(timings.host_copies, machine.host_cores)};
}

std::string left_out_text(const DeviceTimings& timings, const DeviceOptions& options) {
    return fmt::format("left out, as {:.0f} s were not enough: some or all of {}", options.seconds,
                       fmt::join(timings.left_out, ", "));
}

Json provenance_json(const DeviceTimings& timings, const DeviceOptions& options,
                     const DeviceMachine& machine, const std::string& source) {
    const SampleCounts& counts = timings.counts;
    Json lines = {
        source,
        fmt::format("driver {}, CUDA {}, cuBLASLt {}; attention and memory-bound kernels are "
                    "Orrery's own",
                    or_unknown(machine.driver), or_unknown(machine.cuda),
                    or_unknown(machine.cublaslt)),
        fmt::format("before: {}; after: {}", reading_text(timings.before),
                    reading_text(timings.after)),
        fmt::format("each time: the median of at least {} samples after {} warm-ups, by marks of "
                    "the device, on numbers of N(0, 1); memory-bound kernels with a flushed cache",
                    options.sampling.samples, options.sampling.warm_ups),
        fmt::format("{} kernels, {} samples, {} dropped for a clock more than {:.0f} % off, {} "
                    "without a known clock",
                    counts.kernels, counts.samples, counts.dropped,
                    100 * options.sampling.largest_clock_deviation, counts.without_clock)};
    for (const std::string& note : notes_of(timings, machine))
        lines.push_back(note);
    if (!timings.left_out.empty()) lines.push_back(left_out_text(timings, options));
    return lines;
}

void add_products(const DeviceTimings& timings, const DeviceOptions& options,
                  const std::string& source, Calibration& result) {
    for (const ProductTimings& products : timings.products) {
        const std::string name = fit::name_of_products(products.dtype);
        const fit::GemmFit fit =
            fit::fit_gemm(products.rows, static_cast<double>(plan::size_bytes(products.dtype)));
        result.profile["gemm"][name] =
            fit::curve_json(fit, source, sustained_json(products.sustained, options.sampling));
        if (!products.of_scaled_rows.empty())
            result.profile["gemm"][name]["row_scales"] = row_scales_json(products, fit, source);
        result.families.push_back(fit::family_report(name, fit));
    }
}

void add_memory(const DeviceTimings& timings, const DeviceMachine& machine,
                const std::string& source, Calibration& result) {
    Json& profile = result.profile;
    const double resident = resident_bytes(machine.gpu);
    const fit::MemoryFit memory = fit::fit_memory(timings.moves, resident);
    profile["batched_gemm"] = batched_gemm_json(timings.attention_products, profile["gemm"]["bf16"],
                                                memory, memory.memory_GBps, source);
    profile["attention"] =
        attention_json(timings.attention, plan::DType::bf16, source, result.families);
    profile["memory"] = memory_json(
        memory, profile["hardware"]["memory_GBps"]["value"].get<double>(), resident, source);
    result.families.push_back(fit::family_report(memory));
    // Timed with nothing in cache, so of any size.
    const std::vector<fit::KernelFit> kernels =
        fit::fit_kernels(timings.kernels, std::numeric_limits<double>::infinity());
    profile["memory"]["kernels"] =
        kernels_json(kernels, source + ", in the steps of small models, with a flushed cache");
    for (const fit::KernelFit& fit : kernels)
        result.families.push_back(fit::family_report(fit));
}

std::string nodes_text(const CollectiveTimings& timings) {
    return timings.nodes() == 1 ? "one node" : fmt::format("{} nodes", timings.nodes());
}

// What they say that the sections do not.
std::vector<std::string> notes_of(const CollectivesOfRanks& collectives) {
    if (collectives.devices_shared)
        return {"left out: collectives and what they do to products, as ranks shared a GPU"};
    std::vector<std::string> notes = collective_notes(collectives.timings, collectives.grid);
    if (collectives.timings.nodes() > 1)
        notes.push_back(
            fmt::format("left out: curves of collectives, which a profile has of one node; these "
                        "ranks were on {}",
                        nodes_text(collectives.timings)));
    return notes;
}

// In place of those of the base.
void add_collectives(const CollectivesOfRanks& collectives, const std::string& source,
                     Json& profile) {
    const CollectiveTimings& timings = collectives.timings;
    const std::string of_ranks =
        fmt::format("{}, {} ranks on {}, each call among {} in a row", source, timings.ranks,
                    nodes_text(timings), timings.calls);
    for (const std::string& note : notes_of(collectives))
        profile["provenance"].push_back(note);
    if (collectives.devices_shared) return;
    CollectiveFacts facts;
    facts.system = profile.at("device");
    facts.library = collectives.library.empty() ? "unknown" : collectives.library;
    facts.source = of_ranks;
    const Json::json_pointer link("/hardware/link_GBps/value");
    if (profile.contains(link)) facts.link_GBps = profile.at(link).get<double>();
    if (timings.nodes() == 1) profile["collectives"] = collectives_json(timings, facts);
    if (const auto overlap = overlap_json(timings, of_ranks)) profile["overlap"] = *overlap;
}

}  // namespace

Calibration profile_of(const DeviceTimings& timings, const DeviceOptions& options,
                       const DeviceMachine& machine) {
    const std::string source =
        fmt::format("orrery {} calibrate, {}: {}", options.version, machine.date, machine.gpu.name);
    Calibration result;
    Json& profile = result.profile;
    profile["format"] = "orrery profile";
    profile["version"] = 1;
    profile["device"] = options.device.empty() ? device_name(machine.gpu.name) : options.device;
    profile["provenance"] = provenance_json(timings, options, machine, source);
    profile["hardware"] = hardware_json(timings, machine, source);
    add_products(timings, options, source, result);
    add_memory(timings, machine, source, result);
    profile["overlap"] = {{"measured", false}, {"source", "not measured"}, {"compute_slowdown", 1}};
    if (!options.base_path.empty()) fit::carry_unmeasured(profile, options.base_path);
    if (options.collectives) add_collectives(*options.collectives, source, profile);
    profile["grouped_gemm"] =
        fit::grouped_gemm_json(profile, timings.experts, source, result.families);
    result.notes = notes_of(timings, machine);
    if (options.collectives)
        for (const std::string& note : notes_of(*options.collectives))
            result.notes.push_back(note);
    if (!timings.left_out.empty()) result.notes.push_back(left_out_text(timings, options));
    return result;
}

}  // namespace orrery::measure
