// Constants of a training stack: each comes from the preset, where it carries its source, and may
// be set by itself as a key of training.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

const Keys<MeasuredOn>& measured_on_keys() {
    static const Keys<MeasuredOn> keys = {
        text<&MeasuredOn::device>("device",
                                  "As profiles name it; \"cpu\": whatever a CPU is called")
            .required(),
        count<&MeasuredOn::step_times>("step_times", "How many were measured", {0, kLargestCount}),
        count<&MeasuredOn::peaks>("peaks", "Of memory, and whether it was enough",
                                  {0, kLargestCount}),
        text<&MeasuredOn::source>("source", "Of the measurements").required(),
    };
    return keys;
}

// Of a preset, but its flags.
const Keys<Framework>& preset_keys() {
    static const Keys<Framework> keys = {
        text<&Framework::name>("name", "What reports call it").required(),
        own<Framework>("description", KeyType::text, "For people"),
        own<Framework>("in_use", KeyType::any, "Which layouts the stack is usually run with"),
        flag<&Framework::assumed>("assumed", "Nobody named it: it is the default"),
        choice<&Framework::generation>(
            "generation", "Of which stacks it is one where its own constants are not known"),
        own<Framework>("usual_on", KeyType::list,
                       "Beginnings of the names of devices on which runs are usually made with it; "
                       "on others with Orrery's own")
            .of_entries(KeyType::text),
        text<&Framework::released>("released", "Version or date of what its constants are of"),
        own<Framework>("fitted_to", KeyType::list,
                       "Words of the sources to whose runs its constants were fitted"),
        own<Framework>("measured_on", KeyType::list,
                       "Devices on which runs of the stack were held against predictions",
                       specs(measured_on_keys())),
        own<Framework>("flags", KeyType::object, "The stack's constants").required(),
    };
    return keys;
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
// "value": …, "source": "…"}], what it is on some devices. Those of
// other devices are read to nowhere.
void read_flag(Reading& reading, const Key<Framework>& constant, Framework& framework,
               Verbatim& verbatim) {
    const std::string key(constant.spec.name);
    const std::string pointer = "/training/framework/flags/" + key;
    if (!reading.good_at(pointer)) return;
    Section flag(reading, pointer, key);
    if (!flag.exists()) return;
    const auto read = [&](Section& from, Framework& to) {
        from.require("value");
        constant.read(from, "value", constant.spec, Presence::optional, to);
    };
    read(flag, framework);
    flag.text("source", verbatim.sources[key], Presence::required);
    flag.known("on");
    // For validation, which leaves out what the stack's own runs say: what stands without them, and
    // whether that stands here already.
    flag.known("prior");
    flag.known("pooled");
    flag.finish();
    const Json* on = flag.find("on");
    if (on == nullptr) return;
    if (!on->is_array()) {
        flag.wrong_type("on", "an array of values on some devices");
        return;
    }
    for (std::size_t i = 0; i < on->size(); ++i) {
        Section entry(reading, fmt::format("{}/{}", flag.pointer("on"), i),
                      fmt::format("{}.on[{}]", key, i));
        const bool counts = is_of_this_device(reading, entry);
        Framework nobody;
        read(entry, counts ? framework : nobody);
        std::string source;
        entry.text("source", source, Presence::required);
        entry.known("pooled");
        if (counts) verbatim.sources[key] = source;
        entry.finish();
    }
}

void read_measured_on(Reading& reading, Section& preset, Framework& framework) {
    const Json* list = preset.find("measured_on");
    if (list == nullptr) return;
    if (!list->is_array()) {
        preset.wrong_type("measured_on", "an array of devices with what was measured on them");
        return;
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
        MeasuredOn measured;
        read_object(reading, fmt::format("{}/{}", preset.pointer("measured_on"), i),
                    fmt::format("training.framework.measured_on[{}]", i), measured_on_keys(),
                    measured);
        framework.measured_on.push_back(std::move(measured));
    }
}

void read_preset(Reading& reading, Framework& framework, Verbatim& verbatim) {
    Section preset(reading, "/training/framework", "training.framework");
    if (!preset.exists()) return;
    read_keys(preset, preset_keys(), framework);
    read_measured_on(reading, preset, framework);
    preset.finish();
    if (!preset.has("flags")) return;
    Section flags(reading, preset.pointer("flags"), "training.framework.flags");
    for (const Key<Framework>& constant : framework_constants())
        flags.require(std::string(constant.spec.name));
    flags.finish();
    for (const Key<Framework>& constant : framework_constants())
        read_flag(reading, constant, framework, verbatim);
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

// Accumulators are of the weights' type, or of fp32 beside weights of 16 bits: a preset's fp32 is
// what gradients have at least.
void settle_gradients(Reading& reading, const Section& keys, Precision precision,
                      Framework& framework) {
    const bool own = keys.has("gradient_dtype");
    const std::string pointer =
        own ? keys.pointer("gradient_dtype") : "/training/framework/flags/gradient_dtype/value";
    if (!reading.good({"training.precision"}) || !reading.good_at(pointer)) return;
    const std::string_view weights = name(held_precision(precision));
    const int width = bytes_of(weights);
    const bool widened = !own && framework.gradient_dtype == GradientType::fp32 && width > 4;
    const std::string_view gradients = framework.gradient_dtype == GradientType::same || widened
                                           ? weights
                                           : spelling(framework.gradient_dtype);
    framework.gradient_bytes = bytes_of(gradients);
    if (gradients == weights) framework.gradient_dtype = GradientType::same;
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
    if (reading.good({"training.framework"})) read_preset(reading, framework, verbatim);
    for (const Key<Framework>& constant : framework_constants()) {
        const std::string key(constant.spec.name);
        if (!constant.read(keys, key, constant.spec, Presence::optional, framework)) continue;
        verbatim.sources[key] = said_by(reading, keys.pointer(key));
    }
    if (reading.good({"training.framework"})) settle_gradients(reading, keys, precision, framework);
}

Json written_framework(const Framework& framework, const Verbatim& verbatim) {
    Json out = {{"name", framework.name}};
    if (framework.assumed) out["assumed"] = true;
    out["generation"] = spelling(framework.generation);
    if (!framework.released.empty()) out["released"] = framework.released;
    out["measured_on"] = Json::array();
    for (const MeasuredOn& measured : framework.measured_on)
        out["measured_on"].push_back(written(measured_on_keys(), measured));
    Json& flags = out["flags"] = Json::object();
    for (const Key<Framework>& constant : framework_constants()) {
        const std::string key(constant.spec.name);
        flags[key] = {{"value", constant.write(constant.spec, framework)},
                      {"source", verbatim.sources.at(key)}};
    }
    return out;
}

std::vector<KeySpec> framework_keys() {
    std::vector<KeySpec> keys = specs(preset_keys());
    std::vector<KeySpec> flags;
    for (const Key<Framework>& constant : framework_constants()) {
        KeySpec value = constant.spec;
        value.name = "value";
        value.help = "";
        value.required = true;
        KeySpec flag{.name = constant.spec.name,
                     .type = KeyType::object,
                     .help = constant.spec.help,
                     .required = true};
        flag.keys = {value,
                     {.name = "source",
                      .type = KeyType::text,
                      .help = "Where the value is from",
                      .required = true,
                      .non_empty = true},
                     {.name = "prior",
                      .type = KeyType::any,
                      .help = "What is known of it without the stack's own runs: value, source"},
                     {.name = "pooled",
                      .type = KeyType::flag,
                      .help = "The value is the population's: nothing was fitted to this stack"},
                     {.name = "on",
                      .type = KeyType::list,
                      .help = "What it is on some devices: entries of devices, value and source",
                      .of = KeyType::any}};
        flags.push_back(std::move(flag));
    }
    keys.back().keys = std::move(flags);
    return keys;
}

}  // namespace orrery::plan
