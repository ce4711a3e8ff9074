// A scenario file: JSON text to a scenario or diagnostics.
#include "tests/fuzz/memory_files.hpp"
#include "tests/fuzz/reading.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

void run(std::string_view input) {
    read_checked(input, {});
}

// Every shipped run as it stands and resolved, where all keys are written out.
std::vector<std::string> seeds() {
    std::vector<std::string> texts = {kSmallScenario,
                                      read_checked(kSmallScenario, {}).resolved_json};
    for (const auto& [path, text] : shipped_files().all()) {
        if (path.find("/runs/") == std::string::npos) continue;
        texts.push_back(text);
        texts.push_back(read_checked(text, {}).resolved_json);
    }
    return texts;
}

}  // namespace

const Target kScenario = {"scenario", 20480, run, seeds};

}  // namespace orrery::fuzz
