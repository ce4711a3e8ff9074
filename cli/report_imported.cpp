// What a scenario that was imported lacks of the run that it came from.
#include <fmt/format.h>

#include "cli/report_sections.hpp"
#include "plan/scenario/json_text.hpp"

namespace orrery::cli {
namespace {

// " 4", " te"; nothing for a flag alone.
std::string given_value(const plan::Json& approximation) {
    const plan::Json value = approximation.value("value", plan::Json());
    if (value.is_string()) return ' ' + value.get<std::string>();
    return value.is_null() || value == true ? "" : ' ' + value.dump();
}

}  // namespace

std::string imported_text(const std::string& resolved_json) {
    const plan::Json scenario = plan::Json::parse(resolved_json);
    if (!scenario.contains("imported")) return "";
    const plan::Json& imported = scenario["imported"];
    std::string list;
    for (const plan::Json& one : imported["approximations"])
        list += fmt::format("{}{}{} ({})", list.empty() ? "" : ", ", one["key"].get<std::string>(),
                            given_value(one), one["why"].get<std::string>());
    if (list.empty()) return "";
    return labelled("imported", fmt::format("from {}; not simulated: {}",
                                            imported["from"].get<std::string>(), list));
}

}  // namespace orrery::cli
