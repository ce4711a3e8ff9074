// Constants of a training stack: each comes from the preset, where it carries its source, and may
// be set by itself as a key of training.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr NumberRange kAny = {0, 1e9, false, false};
constexpr NumberRange kFactor = {0, 1000, true, false};
constexpr NumberRange kMegabytes = {0, 1e7, false, false};

// How one constant is read from a section under some key, wherever it stands.
struct Constant {
    const char* key;
    std::function<bool(Section&, const std::string& key)> read;
};

std::vector<Constant> constants(Framework& framework, std::string& gradient_dtype) {
    const auto number = [](double& out, NumberRange range) {
        return [&out, range](Section& section, const std::string& key) {
            return section.number(key, out, range);
        };
    };
    const auto integer = [](std::int64_t& out, std::int64_t least = 1) {
        return [&out, least](Section& section, const std::string& key) {
            return section.integer(key, out, {least, 1'000'000});
        };
    };
    const auto boolean = [](bool& out) {
        return
            [&out](Section& section, const std::string& key) { return section.boolean(key, out); };
    };
    return {
        {"attention_kernel",
         [&framework](Section& section, const std::string& key) {
             return section.choice<AttentionKernel>(
                 key, framework.attention_kernel,
                 {{"flash", AttentionKernel::flash}, {"unfused", AttentionKernel::unfused}});
         }},
        {"gradient_dtype",
         [&gradient_dtype](Section& section, const std::string& key) {
             return section.word_of(key, gradient_dtype, {"same", "bf16", "fp16", "fp32", "fp64"},
                                    "");
         }},
        {"dropout_masks",
         [&framework](Section& section, const std::string& key) {
             return section.choice<DropoutMasks>(
                 key, framework.dropout_masks,
                 {{"stored", DropoutMasks::stored}, {"recomputed", DropoutMasks::recomputed}});
         }},
        {"logits_dtype",
         [&framework](Section& section, const std::string& key) {
             return section.choice<LogitsType>(
                 key, framework.logits_dtype,
                 {{"same", LogitsType::same}, {"fp32", LogitsType::fp32}});
         }},
        {"loss_logits",
         [&framework](Section& section, const std::string& key) {
             return section.choice<LossLogits>(key, framework.loss_logits,
                                               {{"in_place", LossLogits::in_place},
                                                {"copied", LossLogits::copied},
                                                {"gathered", LossLogits::gathered},
                                                {"fused", LossLogits::fused}});
         }},
        {"norm_kernel",
         [&framework](Section& section, const std::string& key) {
             return section.choice<NormKernel>(
                 key, framework.norm_kernel,
                 {{"fused", NormKernel::fused}, {"composed", NormKernel::composed}});
         }},
        {"recompute_stops_early", boolean(framework.recompute_stops_early)},
        {"overlap_gradient_reduce", boolean(framework.overlap_gradient_reduce)},
        {"overlap_parameter_gather", boolean(framework.overlap_parameter_gather)},
        {"overlap_pipeline_transfers",
         [&framework](Section& section, const std::string& key) {
             return section.choice<TransferOverlap>(key, framework.overlap_pipeline_transfers,
                                                    {{"always", TransferOverlap::always},
                                                     {"interleaved", TransferOverlap::interleaved},
                                                     {"never", TransferOverlap::never}});
         }},
        {"transfer_streams",
         [&framework](Section& section, const std::string& key) {
             return section.choice<TransferStreams>(
                 key, framework.transfer_streams,
                 {{"one", TransferStreams::one}, {"per_peer", TransferStreams::per_peer}});
         }},
        {"tensor_overlap_parts", integer(framework.tensor_overlap_parts)},
        {"overlap_tensor_backward", boolean(framework.overlap_tensor_backward)},
        {"defer_embedding_gradient", boolean(framework.defer_embedding_gradient)},
        {"scatter_gather_transfers", boolean(framework.scatter_gather_transfers)},
        {"zero_prefetch", integer(framework.zero_prefetch, 0)},
        {"gradient_bucket_mb", number(framework.gradient_bucket_mb, {0, 1e9, true, false})},
        {"gradient_bucket_mb_per_rank", number(framework.gradient_bucket_mb_per_rank, kAny)},
        {"vocabulary_multiple", integer(framework.vocabulary_multiple)},
        {"launch_us", number(framework.launch_us, kAny)},
        {"backward_launch_factor", number(framework.backward_launch_factor, {0, 1000})},
        {"collective_launch_factor", number(framework.collective_launch_factor, {0, 1000})},
        {"transfer_launch_factor", number(framework.transfer_launch_factor, {0, 1000})},
        {"launch_queue", integer(framework.launch_queue)},
        {"attention_factor", number(framework.attention_factor, kFactor)},
        {"memory_kernel_factor", number(framework.memory_kernel_factor, kFactor)},
        {"column_cast_factor", number(framework.column_cast_factor, kFactor)},
        {"overlap_factor", number(framework.overlap_factor, {0, 1000, false, false})},
        {"deviation_factor", number(framework.deviation_factor, kFactor)},
        {"residual_sd", number(framework.residual_sd, {0, 1, false, true})},
        {"workspace_mb", number(framework.workspace_mb, kMegabytes)},
        {"context_mb", number(framework.context_mb, kMegabytes)},
        {"communicator_mb", number(framework.communicator_mb, kMegabytes)},
        {"fragmentation", number(framework.fragmentation, {0, 1, false, true})},
    };
}

// Whether the scenario's devices are among those that an entry of "on" names.
bool is_of_this_device(Reading& reading, Section& entry) {
    entry.require("devices");
    const Json* devices = entry.find("devices");
    if (devices == nullptr) return false;
    if (!devices->is_array() || devices->empty() ||
        !std::all_of(devices->begin(), devices->end(), [](const Json& d) { return d.is_string(); }))
        entry.wrong_type("devices", "an array of names of devices");
    const Json* own = reading.document().find("/cluster/device");
    return own != nullptr && std::find(devices->begin(), devices->end(), *own) != devices->end();
}

// One flag of a preset: {"value": …, "source": "…"}, and perhaps "on": [{"devices": ["…"],
// "value": …, "source": "…"}], what it is on some devices. `elsewhere` reads the same constant to
// nowhere.
void read_flag(Reading& reading, const Constant& constant, const Constant& elsewhere,
               Verbatim& verbatim) {
    const std::string pointer = std::string("/training/framework/flags/") + constant.key;
    if (!reading.good_at(pointer)) return;
    Section flag(reading, pointer, constant.key);
    if (!flag.exists()) return;
    flag.require("value");
    constant.read(flag, "value");
    flag.text("source", verbatim.sources[constant.key], Presence::required);
    flag.known("on");
    flag.finish();
    const Json* on = flag.find("on");
    if (on == nullptr) return;
    if (!on->is_array()) {
        flag.wrong_type("on", "an array of values on some devices");
        return;
    }
    for (std::size_t i = 0; i < on->size(); ++i) {
        Section entry(reading, fmt::format("{}/{}", flag.pointer("on"), i),
                      fmt::format("{}.on[{}]", constant.key, i));
        const bool counts = is_of_this_device(reading, entry);
        entry.require("value");
        (counts ? constant : elsewhere).read(entry, "value");
        std::string source;
        entry.text("source", source, Presence::required);
        if (counts) verbatim.sources[constant.key] = source;
        entry.finish();
    }
}

void read_measured_on(Reading& reading, Section& preset, Framework& framework) {
    preset.known("measured_on");
    const Json* list = preset.find("measured_on");
    if (list == nullptr) return;
    if (!list->is_array()) {
        preset.wrong_type("measured_on", "an array of devices with what was measured on them");
        return;
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
        Section section(reading, fmt::format("{}/{}", preset.pointer("measured_on"), i),
                        fmt::format("training.framework.measured_on[{}]", i));
        MeasuredOn measured;
        section.text("device", measured.device, Presence::required);
        section.integer("step_times", measured.step_times, {0, kLargestCount});
        section.integer("peaks", measured.peaks, {0, kLargestCount});
        section.text("source", measured.source, Presence::required);
        section.finish();
        framework.measured_on.push_back(std::move(measured));
    }
}

void read_preset(Reading& reading, const std::vector<Constant>& all, Framework& framework,
                 Verbatim& verbatim) {
    Section preset(reading, "/training/framework", "training.framework");
    if (!preset.exists()) return;
    preset.text("name", framework.name, Presence::required);
    preset.known("description");
    preset.known("in_use");  // plan/scenario/stacks_in_use.hpp
    preset.boolean("assumed", framework.assumed);
    read_measured_on(reading, preset, framework);
    preset.require("flags");
    preset.finish();
    if (!preset.has("flags")) return;
    Section flags(reading, preset.pointer("flags"), "training.framework.flags");
    for (const Constant& constant : all)
        flags.require(constant.key);
    flags.finish();
    Framework nobody;
    std::string nobodys_gradient_dtype;
    const std::vector<Constant> elsewhere = constants(nobody, nobodys_gradient_dtype);
    for (std::size_t i = 0; i < all.size(); ++i)
        read_flag(reading, all[i], elsewhere[i], verbatim);
}

std::string said_by(const Reading& reading, const std::string& pointer) {
    Diagnostic where;
    reading.document().locate(pointer, "", where);
    return where.origin.rfind("file ", 0) == 0 ? where.origin.substr(5) + ":" + where.pointer
                                               : where.origin.substr(5);
}

int bytes_of(std::string_view dtype) {
    if (dtype == "fp64") return 8;
    return dtype == "fp32" ? 4 : 2;
}

// Accumulators are of the weights' type, or of fp32 beside weights of 16 bits.
void settle_gradients(Reading& reading, const Section& keys, Precision precision,
                      Framework& framework, const std::string& dtype) {
    const bool own = keys.has("gradient_dtype");
    const std::string pointer =
        own ? keys.pointer("gradient_dtype") : "/training/framework/flags/gradient_dtype/value";
    if (!reading.good({"training.precision"}) || !reading.good_at(pointer)) return;
    const std::string_view weights = name(held_precision(precision));
    const std::string_view gradients = dtype == "same" ? weights : std::string_view(dtype);
    framework.gradient_bytes = bytes_of(gradients);
    const int width = bytes_of(weights);
    if (gradients == weights || (gradients == "fp32" && width == 2)) return;
    const bool narrower = framework.gradient_bytes < width;
    Diagnostic& fault = reading.report("S024", pointer, "");
    fault.arithmetic =
        fmt::format("gradient_dtype = {}, training.precision = {}", gradients, weights);
    if (narrower) {
        fault.message = "gradients cannot be narrower than the weights they belong to";
        fault.arithmetic =
            fmt::format("gradient_dtype = {} ({} bytes), training.precision = {} ({} bytes)",
                        gradients, framework.gradient_bytes, weights, width);
    } else if (gradients == "fp64") {
        fault.message = "gradients in fp64 belong to weights in fp64";
    } else {
        fault.message = "gradients of 16 bits are of the type of the weights they belong to";
    }
    fault.help.push_back(precision == Precision::fp64 ? "gradient_dtype: \"same\" or \"fp64\""
                                                      : "gradient_dtype: \"same\" or \"fp32\"");
}

}  // namespace

void read_framework(Reading& reading, Section& keys, Precision precision, Framework& framework,
                    Verbatim& verbatim) {
    const std::vector<Constant> all = constants(framework, verbatim.gradient_dtype);
    if (reading.good({"training.framework"})) read_preset(reading, all, framework, verbatim);
    for (const Constant& constant : all) {
        if (!constant.read(keys, constant.key)) continue;
        verbatim.sources[constant.key] = said_by(reading, keys.pointer(constant.key));
    }
    if (reading.good({"training.framework"})) {
        settle_gradients(reading, keys, precision, framework, verbatim.gradient_dtype);
    }
}

}  // namespace orrery::plan
