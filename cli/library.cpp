#include "cli/library.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/scenario_input.hpp"
#include "plan/check.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::cli {
namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

}  // namespace

std::string_view name(LibraryKind kind) {
    switch (kind) {
        case LibraryKind::models:
            return "models";
        case LibraryKind::clusters:
            return "clusters";
        case LibraryKind::profiles:
            return "profiles";
        case LibraryKind::frameworks:
            return "frameworks";
    }
    return "";
}

std::vector<std::string> library_names(LibraryKind kind, const std::string& word) {
    const std::string folder(name(kind));
    std::vector<std::string> names;
    for (const std::string& file : plan::disk().names(library_folder() + '/' + folder)) {
        if (!file.ends_with(".json")) continue;
        if (lower(file).find(lower(word)) == std::string::npos) continue;
        names.push_back(folder + '/' + file);
    }
    return names;
}

std::string nearest_in_library(LibraryKind kind, const std::string& word) {
    constexpr std::size_t kFewNames = 5;
    std::vector<std::string> names;
    for (const std::string& reference : library_names(kind, ""))
        names.push_back(std::filesystem::path(reference).stem().string());
    std::string near;
    for (const std::string& name : plan::by_distance(lower(word), names, kFewNames))
        near += (near.empty() ? "" : ", ") + name;
    return near;
}

std::string usual_framework(const std::string& device) {
    for (const std::string& reference : library_names(LibraryKind::frameworks, "")) {
        std::string why;
        const auto text = plan::disk().read(library_folder() + '/' + reference, why);
        if (!text) continue;
        const auto preset = nlohmann::json::parse(*text, nullptr, false, true);
        if (!preset.is_object() || !preset.contains("usual_on")) continue;
        for (const nlohmann::json& beginning : preset.at("usual_on"))
            if (beginning.is_string() && device.starts_with(beginning.get<std::string>()))
                return std::filesystem::path(reference).stem().string();
    }
    return plan::Framework{}.name;
}

std::optional<plan::Scenario> probe(LibraryKind kind, const std::string& reference,
                                    std::string& why) {
    nlohmann::json scenario = {
        {"model", "models/gpt2.json"},
        {"cluster", "clusters/h100-sxm-8.json"},
        {"layout", {{"data_parallel", 1}, {"global_batch_size", 1}}},
        {"training", {{"sequence_length", 8}, {"framework", "orrery"}}},
    };
    if (kind == LibraryKind::models) scenario["model"] = reference;
    if (kind == LibraryKind::clusters) scenario["cluster"] = reference;
    if (kind == LibraryKind::frameworks) scenario["training"]["framework"] = reference;
    ORRERY_CHECK(kind != LibraryKind::profiles, "a profile has a reader of its own");
    plan::ReadResult read =
        plan::read_scenario_text(scenario.dump(), "a scenario", ".", {}, library_folder());
    if (!read.scenario) why = read.errors.front().message;
    return std::move(read.scenario);
}

}  // namespace orrery::cli
