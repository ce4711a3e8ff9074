#include "tests/fuzz/targets.hpp"

#include <set>

#include "plan/text/text.hpp"
#include "tests/fuzz/memory_files.hpp"

namespace orrery::fuzz {

const std::vector<Target>& targets() {
    static const std::vector<Target> all = {
        kScenario,     kOverrides,     kPrediction,  kPlanText,  kNativeTrace,
        kNativeFrames, kPerfettoTrace, kChromeTrace, kProfile,   kCollectives,
        kTokens,       kMegatronIndex, kSafetensors, kManifest,  kScheduleCsv,
        kCommandLine,  kMessageHead,   kMeeting,     kDataFrames};
    return all;
}

const Target* find_target(std::string_view name) {
    for (const Target& target : targets())
        if (target.name == name) return &target;
    return nullptr;
}

// Everything that stands in quotation marks in a shipped scenario, model, cluster, framework or
// profile, or alone in a plan's text.
std::vector<std::string> dictionary() {
    constexpr std::size_t kLongestWord = 32;
    std::set<std::string> words;
    for (const auto& [path, text] : shipped_files().all()) {
        for (std::size_t from = 0; (from = text.find('"', from)) != std::string::npos;) {
            const std::size_t to = text.find('"', from + 1);
            if (to == std::string::npos) break;
            const std::string word = text.substr(from + 1, to - from - 1);
            if (word.size() <= kLongestWord && word.find(' ') == std::string::npos)
                words.insert(word);
            from = to + 1;
        }
    }
    for (const std::string& seed : kPlanText.seeds()) {
        std::string word;
        for (const char c : seed + ' ') {
            if ((c >= 'a' && c <= 'z') || c == '_') {
                word += c;
                continue;
            }
            if (word.size() > 2) words.insert(word);
            word.clear();
        }
    }
    return {words.begin(), words.end()};
}

}  // namespace orrery::fuzz
