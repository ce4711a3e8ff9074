#include "calib/fit/carry_unmeasured.hpp"

#include <fmt/format.h>

#include "calib/fit/datasheet.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {
namespace {

// Every source below `node`.
void say_whose(Json& node, const std::string& whose) {
    if (!node.is_structured()) return;
    for (auto& item : node.items())
        if (item.key() == "source" && item.value().is_string())
            item.value() = whose + item.value().get<std::string>();
        else
            say_whose(item.value(), whose);
}

// A number of `hardware`, whose source may stand above it.
Json with_source(const Json& quantity, const Json& hardware) {
    if (quantity.is_object()) return quantity;
    return {{"value", quantity}, {"source", hardware.at("source")}};
}

}  // namespace

void carry_unmeasured(Json& profile, const std::string& base_path) {
    const sim::Profile base = sim::load_profile(base_path);  // so that its sections are well formed
    Json from = read_json_object(base_path);
    const std::string whose =
        fmt::format("not measured here: as in the profile of {}: ", base.device);
    const Json& hardware = from.at("hardware");
    for (const auto& item : hardware.at("peak_tflops").items()) {
        if (item.key() == "source") continue;
        Json& peak = profile["hardware"]["peak_tflops"][item.key()];
        peak = with_source(item.value(), hardware);
        say_whose(peak, whose);
    }
    if (hardware.contains("link_GBps")) {
        Json& link = profile["hardware"]["link_GBps"];
        link = with_source(hardware.at("link_GBps"), hardware);
        say_whose(link, whose);
    }
    for (const char* section : {"overlap", "collectives"}) {
        if (!from.contains(section)) continue;
        say_whose(from.at(section), whose);
        profile[section] = from.at(section);
    }
}

}  // namespace orrery::fit
