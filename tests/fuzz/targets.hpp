// What is fuzzed: each reader of text or bytes that strangers wrote, with what must hold whatever
// it is given. A target is a function, so that the fuzzer (program/fuzz.cpp) and an ordinary test
// of inputs that once broke something (regressions_test.cpp) call the very same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::fuzz {

struct Target {
    const char* name;
    std::size_t longest_input;
    // Returns when all that must hold does, else stops the program.
    void (*run)(std::string_view input);
    // Inputs that the reader accepts, to start from.
    std::vector<std::string> (*seeds)();
};

extern const Target kScenario;
extern const Target kOverrides;
extern const Target kPrediction;
extern const Target kPlanText;
extern const Target kNativeTrace;
extern const Target kNativeFrames;
extern const Target kPerfettoTrace;
extern const Target kChromeTrace;
extern const Target kProfile;
extern const Target kCollectives;
extern const Target kTokens;
extern const Target kMegatronIndex;
extern const Target kSafetensors;
extern const Target kManifest;
extern const Target kScheduleCsv;
extern const Target kCommandLine;
extern const Target kMessageHead;
extern const Target kMeeting;
extern const Target kDataFrames;

const std::vector<Target>& targets();
const Target* find_target(std::string_view name);  // null: no such target

// Words that a fuzzer of this target's language may put in, from the shipped files.
std::vector<std::string> dictionary();

}  // namespace orrery::fuzz
