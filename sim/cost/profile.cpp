#include "sim/cost/profile.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "plan/scenario/files.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/log2.hpp"
#include "sim/cost/profile_section.hpp"

namespace orrery::sim {
namespace {

constexpr double kSmallestRatio = 0.75;  // of a neighbour point: the curve is trusted to ±25 %
constexpr double kLargestRatio = 1.25;

Hardware read_hardware(ProfileSection s) {
    Hardware hardware;
    if (s.has("kind")) {
        const std::string kind = s.text("kind");
        if (kind != "cpu" && kind != "gpu") s.fail("kind", "must be \"cpu\" or \"gpu\"");
        hardware.cpu = kind == "cpu";
    }
    hardware.capacity_bytes = s.positive_quantity("capacity_bytes");
    hardware.memory_GBps = s.positive_quantity("memory_GBps");
    hardware.cache_bytes = s.positive_quantity("cache_bytes");
    hardware.multiprocessors = s.positive_quantity("multiprocessors");
    hardware.power_w = s.positive_quantity("power_w");
    if (s.has("link_GBps")) hardware.link_GBps = s.positive_quantity("link_GBps");
    ProfileSection peaks = s.section("peak_tflops");
    for (const char* dtype : {"fp8", "bf16", "fp16", "tf32", "fp32"})
        if (peaks.has(dtype))
            hardware.peak_tflops.emplace_back(dtype, peaks.positive_quantity(dtype));
    peaks.finish();
    s.finish();
    return hardware;
}

HeldOut read_held_out(ProfileSection s) {
    HeldOut held_out;
    held_out.rows = static_cast<std::int64_t>(s.positive("rows"));
    held_out.mean_abs_error = s.number("mean_abs_error", 0);
    held_out.median_abs_error = s.number("median_abs_error", 0);
    held_out.p95_abs_error = s.number("p95_abs_error", 0);
    s.finish();
    return held_out;
}

std::vector<NeighbourPoint> read_neighbours(ProfileSection& s) {
    std::vector<NeighbourPoint> points;
    for (const auto& row : s.array("neighbours")) {
        NeighbourPoint point;
        bool right = row.is_array() && (row.size() == 4 || row.size() == 5);
        for (std::size_t i = 0; right && i < 4; ++i)
            right = row[i].is_number();
        if (right && row.size() == 5 && row[4].is_string())
            point.product = plan::value_spelled<plan::GemmProduct>(row[4].get<std::string>());
        if (!right || (row.size() == 5 && !point.product))
            s.fail("neighbours",
                   "rows of [log2 m, log2 n, log2 k, ratio] are expected, and behind that perhaps "
                   "\"forward\", \"input_gradient\" or \"weight_gradient\"");
        point.log2_m = row[0].get<double>();
        point.log2_n = row[1].get<double>();
        point.log2_k = row[2].get<double>();
        point.ratio = row[3].get<double>();
        if (point.ratio < kSmallestRatio || point.ratio > kLargestRatio)
            s.fail("neighbours", fmt::format("ratio {} is outside [{}, {}]", point.ratio,
                                             kSmallestRatio, kLargestRatio));
        points.push_back(point);
    }
    return points;
}

GemmCurve read_gemm(ProfileSection s) {
    GemmCurve curve;
    curve.measured = s.flag("measured");
    curve.source = s.source();
    curve.t0_us = s.number("t0_us", 0);
    curve.rate_tflops = s.positive("rate_tflops");
    curve.bandwidth_GBps = s.positive("bandwidth_GBps");
    curve.sustained = s.positive("sustained");
    curve.relative_sd = s.positive("relative_sd");
    if (curve.measured) {
        curve.held_out = read_held_out(s.section("held_out"));
        curve.m = s.span("m");
        curve.n = s.span("n");
        curve.k = s.span("k");
        curve.neighbours = read_neighbours(s);
    }
    const auto scales = [&s](const char* key, std::optional<Quantity>& ratio) {
        if (s.has(key)) ratio = s.positive_quantity(key);
    };
    scales("row_scales", curve.row_scales);
    scales("block_scales", curve.block_scales);
    scales("micro_block_scales", curve.micro_block_scales);
    s.finish();
    return curve;
}

AttentionCurve read_attention_curve(ProfileSection s) {
    AttentionCurve curve;
    curve.measured = s.flag("measured");
    curve.source = s.source();
    curve.t0_us = s.number("t0_us", 0);
    curve.query_element_ps = s.number("query_element_ps", 0);
    curve.key_element_ps = s.number("key_element_ps", 0);
    curve.rate_tflops = s.positive("rate_tflops");
    curve.relative_sd = s.positive("relative_sd");
    if (curve.measured) {
        curve.held_out = read_held_out(s.section("held_out"));
        curve.sequence = s.span("sequence");
    }
    s.finish();
    return curve;
}

// Keys are head sizes; JSON objects are read in the order of their text, so they are put in
// ascending order here.
std::vector<AttentionCurve> read_head_sizes(ProfileSection s) {
    std::vector<AttentionCurve> curves;
    for (const std::string& key : s.keys()) {
        if (key == "source") continue;
        if (key.empty() || key.size() > 6 ||
            key.find_first_not_of("0123456789") != std::string::npos || key[0] == '0')
            s.fail(key, "a head size is expected as key");
        AttentionCurve curve = read_attention_curve(s.section(key));
        curve.head_dim = std::stoll(key);
        auto place = curves.begin();
        while (place != curves.end() && place->head_dim < curve.head_dim)
            ++place;
        curves.insert(place, curve);
    }
    return curves;
}

AttentionProfile read_attention(ProfileSection s) {
    AttentionProfile attention;
    const auto dtype = plan::from_name<plan::DType>(s.text("dtype"));
    if (dtype != plan::DType::bf16 && dtype != plan::DType::fp16 && dtype != plan::DType::fp32)
        s.fail("dtype", "bf16, fp16 or fp32 is expected");
    attention.dtype = *dtype;
    attention.forward = read_head_sizes(s.section("forward"));
    if (attention.forward.empty()) s.fail("forward", "at least one head size is expected");
    ProfileSection backward = s.section("backward");
    if (backward.has("curves")) {
        attention.backward = read_head_sizes(backward.section("curves"));
        if (attention.backward.empty())
            backward.fail("curves", "at least one head size is expected");
    } else {
        attention.backward_flop_ratio = backward.positive_quantity("flop_ratio");
        attention.backward_rate_ratio = backward.positive_quantity("rate_ratio");
        attention.backward_relative_sd = backward.positive("relative_sd");
    }
    backward.finish();
    if (s.has("dropout")) {
        ProfileSection dropout = s.section("dropout");
        attention.forward_dropout_ps = dropout.quantity("forward_ps", 0);
        attention.backward_dropout_ps = dropout.quantity("backward_ps", 0);
        dropout.finish();
    }
    s.finish();
    return attention;
}

bool is_memory_bound(plan::OpKind kind) {
    switch (kind) {
        case plan::OpKind::gemm:
        case plan::OpKind::activated_gemm:
        case plan::OpKind::residual_gemm:
        case plan::OpKind::bias_gradient_gemm:
        case plan::OpKind::batched_gemm:
        case plan::OpKind::attention:
        case plan::OpKind::attention_backward:
        case plan::OpKind::attention_block:
        case plan::OpKind::attention_block_backward:
            return false;
        default:
            return !plan::is_communication(kind);
    }
}

void read_kernels(ProfileSection s, MemoryProfile& memory) {
    for (const std::string& key : s.keys()) {
        if (key == "source") continue;
        const auto kind = plan::from_name<plan::OpKind>(key);
        if (!kind || !is_memory_bound(*kind))
            s.fail(key, "the name of a memory-bound kernel is expected as key");
        ProfileSection section = s.section(key);
        KernelCurve curve;
        curve.source = section.source();
        curve.t0_us = section.number("t0_us", 0);
        curve.GBps = section.number("GBps", 0);
        curve.relative_sd = section.positive("relative_sd");
        curve.held_out = read_held_out(section.section("held_out"));
        section.finish();
        memory.kernels[static_cast<std::size_t>(*kind)] = curve;
    }
}

MemoryProfile read_memory(ProfileSection s) {
    MemoryProfile memory;
    memory.measured = s.flag("measured");
    memory.t0_us = s.quantity("t0_us", 0);
    memory.reduction_t0_us = s.quantity("reduction_t0_us", 0);
    memory.efficiency = s.positive_quantity("efficiency");
    memory.resident_bytes = s.quantity("resident_bytes", 0);
    memory.cache_GBps = s.positive_quantity("cache_GBps");
    memory.relative_sd = s.positive("relative_sd");
    if (s.has("kernels")) read_kernels(s.section("kernels"), memory);
    s.finish();
    return memory;
}

// A kernel that communication slows more than this is a slip; the engine's clock counts on it.
constexpr double kLargestSlowdown = 8;

OverlapProfile read_overlap(ProfileSection s) {
    OverlapProfile overlap;
    overlap.measured = s.flag("measured");
    overlap.compute_slowdown = s.quantity("compute_slowdown", 1);
    if (overlap.compute_slowdown.value > kLargestSlowdown)
        s.fail("compute_slowdown", "a factor from 1 to 8 is expected");
    s.finish();
    return overlap;
}

constexpr double kLargestStretch = 8;  // beyond, as above

SharingProfile read_sharing(ProfileSection s) {
    SharingProfile sharing;
    sharing.source = s.source();
    sharing.relative_sd = s.positive("relative_sd");
    for (const auto& row : s.array("stretch")) {
        const bool numbers =
            row.is_array() && row.size() == 2 && row[0].is_number_integer() && row[1].is_number();
        if (!numbers) s.fail("stretch", "rows of [ranks, factor] are expected");
        const auto ranks = row[0].get<std::int64_t>();
        const auto factor = row[1].get<double>();
        if (ranks <= (sharing.stretch.empty() ? 0 : sharing.stretch.back().first))
            s.fail("stretch", "ascending numbers of ranks are expected");
        if (!(factor > 1 / kLargestStretch && factor < kLargestStretch))
            s.fail("stretch", fmt::format("factor {} is outside [1/8, 8]", factor));
        sharing.stretch.emplace_back(ranks, factor);
    }
    if (sharing.stretch.empty()) s.fail("stretch", "at least one row is expected");
    s.finish();
    return sharing;
}

ProcessProfile read_process(ProfileSection s) {
    ProcessProfile process;
    process.shared_bytes = s.quantity("shared_bytes", 0);
    process.rank_bytes = s.quantity("rank_bytes", 0);
    process.op_bytes = s.quantity("op_bytes", 0);
    process.relative_sd = s.positive("relative_sd");
    s.finish();
    return process;
}

ProfiledMachine read_machine(ProfileSection s) {
    ProfiledMachine machine;
    machine.processor = s.text("processor");
    const auto& cores = s.raw("cores");
    if (!cores.is_number_integer() || cores.get<std::int64_t>() < 1)
        s.fail("cores", "a number of cores is expected");
    machine.cores = cores.get<std::int64_t>();
    machine.kernels = s.text("kernels");
    machine.date = s.text("date");
    machine.version = s.text("version");
    s.finish();
    return machine;
}

std::vector<std::string> read_provenance(ProfileSection& s) {
    std::vector<std::string> lines;
    for (const auto& line : s.array("provenance")) {
        if (!line.is_string()) s.fail("provenance", "an array of texts is expected");
        lines.push_back(line.get<std::string>());
    }
    if (lines.empty()) s.fail("provenance", "says nothing");
    return lines;
}

Profile read_profile(ProfileSection s, const std::string& path) {
    Profile profile;
    profile.path = path;
    if (s.text("format") != kProfileFormat)
        s.fail("format", fmt::format("\"{}\" is expected", kProfileFormat));
    const auto& version = s.raw("version");
    if (!version.is_number_integer() || version.get<int>() != kProfileVersion)
        s.fail("version", fmt::format("this program reads version {}", kProfileVersion));
    profile.device = s.text("device");
    profile.provenance = read_provenance(s);
    if (s.has("machine")) profile.machine = read_machine(s.section("machine"));
    profile.hardware = read_hardware(s.section("hardware"));
    ProfileSection gemm = s.section("gemm");
    for (plan::DType dtype :
         {plan::DType::bf16, plan::DType::fp16, plan::DType::fp32, plan::DType::fp8_e4m3}) {
        const std::string key(product_key(dtype));
        if (gemm.has(key))
            profile.gemm[static_cast<std::size_t>(dtype)] = read_gemm(gemm.section(key));
    }
    gemm.finish();
    if (s.has("grouped_gemm")) {
        ProfileSection grouped = s.section("grouped_gemm");
        profile.expert_by_expert = grouped.flag("expert_by_expert");
        grouped.finish();
    }
    ProfileSection batched = s.section("batched_gemm");
    profile.batched_gemm.rate_ratio = batched.positive_quantity("rate_ratio");
    profile.batched_gemm.relative_sd = batched.positive("relative_sd");
    batched.finish();
    profile.attention = read_attention(s.section("attention"));
    profile.memory = read_memory(s.section("memory"));
    profile.overlap = read_overlap(s.section("overlap"));
    if (s.has("sharing")) profile.sharing = read_sharing(s.section("sharing"));
    if (s.has("process")) profile.process = read_process(s.section("process"));
    if (s.has("collectives")) profile.collectives_json = s.raw("collectives").dump();
    s.finish();
    return profile;
}

}  // namespace

std::string_view product_key(plan::DType dtype) {
    return plan::is_eight_bit(dtype) ? "fp8" : plan::name(dtype);
}

const Quantity* Hardware::peak(const std::string& dtype) const {
    for (const auto& [name, quantity] : peak_tflops)
        if (name == dtype) return &quantity;
    return nullptr;
}

const Quantity* Hardware::peak(plan::DType dtype) const {
    return peak(std::string(product_key(dtype)));
}

double SharingProfile::of(std::int64_t ranks) const {
    const auto above = std::find_if(stretch.begin(), stretch.end(),
                                    [&](const auto& row) { return row.first >= ranks; });
    if (above == stretch.end()) return stretch.back().second;
    if (above == stretch.begin() || above->first == ranks) return above->second;
    const auto& below = *std::prev(above);
    const auto octaves = [&](std::int64_t n) {
        return log2_of(static_cast<double>(n) / static_cast<double>(below.first));
    };
    const double share = octaves(ranks) / octaves(above->first);
    return below.second + share * (above->second - below.second);
}

double Profile::stretch_of(std::int64_t ranks) const {
    double stretch = sharing ? sharing->of(ranks) : 1;
    if (!machine) return stretch;
    const double threads = static_cast<double>(ranks) * hardware.multiprocessors.value;
    const auto cores = static_cast<double>(machine->cores);
    return threads > cores ? stretch * threads / cores : stretch;
}

const GemmCurve* Profile::gemm_curve(plan::DType dtype) const {
    const auto& own = gemm[static_cast<std::size_t>(dtype)];
    if (own) return &*own;
    if (dtype == plan::DType::fp16) return gemm_curve(plan::DType::bf16);
    return nullptr;
}

Profile parse_profile(const std::string& text, const std::string& path) {
    nlohmann::json root;
    try {
        root = nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& error) {  // of the syntax, or a huge number
        throw ProfileError(fmt::format("{}: not JSON: {}", path, error.what()));
    }
    return read_profile(ProfileSection(root, "", path, ""), path);
}

Profile load_profile(const std::string& path) {
    std::string why;
    const std::optional<std::string> text = plan::disk().read(path, why);
    if (!text) throw ProfileError(fmt::format("{}: cannot be read: {}", path, why));
    return parse_profile(*text, path);
}

Profile load_profiles(const plan::Cluster& cluster) {
    Profile profile = load_profile(cluster.profile_path);
    for (const plan::Cluster& others : cluster.other_nodes)
        profile.others.push_back(load_profile(others.profile_path));
    return profile;
}

}  // namespace orrery::sim
