#include "plan/scenario/import/reasons.hpp"

#include <algorithm>
#include <vector>

namespace orrery::plan::imports {
namespace {

// Where in a key a word says what it is for.
enum class Place { anywhere, first, last };

constexpr struct {
    const char* word;
    Place place;
    const char* why;
} kWordsOfNames[] = {
    {"wandb", Place::anywhere, kLog},
    {"tensorboard", Place::anywhere, kLog},
    {"mlflow", Place::anywhere, kLog},
    {"logger", Place::anywhere, kLog},
    {"logging", Place::anywhere, kLog},
    {"log", Place::first, kLog},
    {"verbose", Place::last, kLog},
    {"verbosity", Place::last, kLog},
    {"timing", Place::first, kProfile},
    {"profile", Place::first, kProfile},
    {"profiler", Place::anywhere, kProfile},
    {"profiling", Place::anywhere, kProfile},
    {"nsys", Place::anywhere, kProfile},
    {"eval", Place::first, kEvaluation},
    {"evaluation", Place::first, kEvaluation},
    {"save", Place::first, kCheckpoint},
    {"tokenizer", Place::anywhere, kData},
    {"dataset", Place::first, kData},
    {"datasets", Place::first, kData},
    {"seed", Place::last, "what is drawn at random is as large"},
};

// The words of "--wandb-team" and "metrics.wandb_team"; of a dotted key those of its last part.
std::vector<std::string> words_of_name(const std::string& key) {
    std::vector<std::string> words;
    bool within = false;
    for (const char c : key.substr(key.rfind('.') + 1)) {
        if (c == '-' || c == '_') {
            within = false;
            continue;
        }
        if (!within) words.emplace_back();
        within = true;
        words.back() += c;
    }
    return words;
}

// Data that are read and weights that a run begins with: "--data-dir", "--load-iteration".
const char* of_files(const std::vector<std::string>& words) {
    const auto last_is = [&](std::initializer_list<const char*> ends) {
        return std::any_of(ends.begin(), ends.end(),
                           [&](const char* end) { return words.back() == end; });
    };
    if (words.size() < 2) return nullptr;
    if (words[0] == "data" && last_is({"path", "paths", "prefix", "dir", "cache", "folder"}))
        return kData;
    if (words[0] == "load" && last_is({"path", "dir", "checkpoint", "ckpt", "iteration", "rng"}))
        return kCheckpoint;
    return nullptr;
}

}  // namespace

const char* harmless_by_name(const std::string& key) {
    const std::vector<std::string> words = words_of_name(key);
    if (words.empty()) return nullptr;
    for (const auto& known : kWordsOfNames) {
        const bool found = known.place == Place::first ? words.front() == known.word
                           : known.place == Place::last
                               ? words.back() == known.word
                               : std::find(words.begin(), words.end(), known.word) != words.end();
        if (found) return known.why;
    }
    return of_files(words);
}

}  // namespace orrery::plan::imports
