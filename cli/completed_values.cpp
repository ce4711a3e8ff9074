#include "cli/completed_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "cli/library.hpp"
#include "plan/ir/kinds.hpp"
#include "plan/scenario/schema.hpp"

namespace orrery::cli {
namespace {

constexpr std::string_view kFromSource = "completed by source ";
constexpr std::string_view kFromWords = "completed by words ";

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> words;
    std::istringstream in(text);
    for (std::string word; std::getline(in >> std::ws, word, ',');)
        words.push_back(word);
    return words;
}

CLI::Validator named(const std::string& name) {
    CLI::Validator validator([](std::string&) { return std::string(); }, "");
    return validator.name(name);
}

std::vector<std::string> stems(LibraryKind kind) {
    std::vector<std::string> words;
    for (const std::string& reference : library_names(kind, ""))
        words.push_back(std::filesystem::path(reference).stem().string());
    return words;
}

std::vector<std::string> devices_of_clusters() {
    std::set<std::string> devices;
    for (const std::string& reference : library_names(LibraryKind::clusters, "")) {
        std::string why;
        if (const auto scenario = probe(LibraryKind::clusters, reference, why))
            devices.insert(scenario->cluster.device);
    }
    return {devices.begin(), devices.end()};
}

// Keys of entries of lists have no path of their own.
template <typename Visit>
void for_each_path(Visit&& visit) {
    plan::for_each_key(plan::scenario_schema(), "",
                       [&](const std::string& path, const plan::KeySpec& key) {
                           if (path.find('[') == std::string::npos) visit(path, key);
                       });
}

std::vector<std::string> settings() {
    std::vector<std::string> words;
    for_each_path([&](const std::string& path, const plan::KeySpec& key) {
        words.push_back(path + '=');
        for (const std::string_view word : key.words)
            words.push_back(fmt::format("{}={}", path, word));
        if (key.type != plan::KeyType::flag) return;
        words.push_back(path + "=true");
        words.push_back(path + "=false");
    });
    return words;
}

std::vector<std::string> keys() {
    std::vector<std::string> words;
    for_each_path([&](const std::string& path, const plan::KeySpec&) { words.push_back(path); });
    return words;
}

std::vector<std::string> op_kinds() {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < plan::kOpKinds; ++i)
        words.emplace_back(plan::name(static_cast<plan::OpKind>(i)));
    return words;
}

}  // namespace

std::string_view name(WordSource source) {
    switch (source) {
        case WordSource::models:
            return "models";
        case WordSource::model_files:
            return "model_files";
        case WordSource::clusters:
            return "clusters";
        case WordSource::frameworks:
            return "frameworks";
        case WordSource::devices:
            return "devices";
        case WordSource::settings:
            return "settings";
        case WordSource::keys:
            return "keys";
        case WordSource::op_kinds:
            return "op_kinds";
    }
    return "";
}

std::vector<std::string> words_of(WordSource source) {
    switch (source) {
        case WordSource::models:
            return stems(LibraryKind::models);
        case WordSource::model_files:
            return library_names(LibraryKind::models, "");
        case WordSource::clusters:
            return library_names(LibraryKind::clusters, "");
        case WordSource::frameworks:
            return stems(LibraryKind::frameworks);
        case WordSource::devices:
            return devices_of_clusters();
        case WordSource::settings:
            return settings();
        case WordSource::keys:
            return keys();
        case WordSource::op_kinds:
            return op_kinds();
    }
    return {};
}

CLI::Validator completed_by(WordSource source) {
    return named(fmt::format("{}{}", kFromSource, name(source)));
}

CLI::Validator completed_by(const std::string& words) {
    return named(std::string(kFromWords) + words);
}

CompletedValues completed_values(CLI::Option& option) {
    CompletedValues found;
    for (int index = 0;; ++index) {
        const CLI::Validator* validator = nullptr;
        try {
            validator = option.get_validator(index);
        } catch (const CLI::OptionNotFound&) {
            return found;
        }
        const std::string tag = validator->get_name(), described = validator->get_description();
        if (tag.starts_with(kFromWords)) {
            found.words = split_at_commas(tag.substr(kFromWords.size()));
        } else if (tag.starts_with(kFromSource)) {
            for (std::size_t i = 0; i < kWordSources; ++i)
                if (tag.substr(kFromSource.size()) == name(static_cast<WordSource>(i)))
                    found.source = static_cast<WordSource>(i);
        } else if (described.starts_with('{') && described.ends_with('}')) {  // CLI::IsMember
            found.words = split_at_commas(described.substr(1, described.size() - 2));
        }
    }
}

}  // namespace orrery::cli
