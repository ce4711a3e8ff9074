// What may stand behind an option, for the shell that completes it. These are validators of CLI11
// that refuse nothing and say nothing in help: `->check(completed_by(WordSource::models))`. Paths
// need none: CommandFiles knows them; nor do CLI::IsMember's words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace orrery::cli {

// Lists that are asked for when a word is completed, as the library of the day has them.
enum class WordSource {
    models,       // llama3-70b
    model_files,  // models/llama3-70b.json
    clusters,     // clusters/h100-sxm-256.json
    frameworks,   // megatron
    devices,      // h100-sxm
    settings,     // layout.tensor_parallel=, layout.schedule=1f1b: what --set takes
    keys,         // layout.tensor_parallel
    op_kinds      // all_reduce
};
inline constexpr std::size_t kWordSources = 8;
std::string_view name(WordSource source);

std::vector<std::string> words_of(WordSource source);

CLI::Validator completed_by(WordSource source);
CLI::Validator completed_by(const std::string& words);  // "step_time, energy"

// What has been said of an option: the words, or where they are asked for.
struct CompletedValues {
    std::vector<std::string> words;
    std::optional<WordSource> source;
};
CompletedValues completed_values(CLI::Option& option);

}  // namespace orrery::cli
