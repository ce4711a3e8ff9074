#include "tests/fuzz/reading.hpp"

#include <nlohmann/json.hpp>

#include "plan/check.hpp"
#include "tests/fuzz/memory_files.hpp"

namespace orrery::fuzz {

const char* const kSmallScenario = R"({
  "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 32,
            "vocab_size": 128},
  "cluster": {"nodes": 2, "devices_per_node": 8, "device": "a100-80gb-sxm",
              "profile": "profiles/a100-80gb-sxm.json",
              "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 300, "latency_us": 2},
              "inter_node": {"kind": "infiniband", "nics_per_node": 8, "bandwidth_Gbps": 200,
                             "latency_us": 5}},
  "layout": {"data_parallel": 2, "global_batch_size": 8},
  "training": {"sequence_length": 32, "framework": "orrery"}
})";

namespace {

constexpr std::size_t kMostSets = 16;

plan::ReadResult read(std::string_view text, const std::vector<std::string>& sets) {
    return plan::read_scenario_text(text, "fuzz.json", kShippedFolder, sets, kShippedFolder,
                                    shipped_files());
}

using Json = nlohmann::ordered_json;

void walk(const Json& value, const std::string& path, std::vector<std::string>& sets) {
    if (value.is_structured()) {
        for (const auto& [key, inner] : value.items())
            walk(inner, path.empty() ? key : path + '.' + key, sets);
        return;
    }
    if (value.is_boolean()) {
        sets.push_back(path + (value.get<bool>() ? "=false" : "=true"));
        return;
    }
    if (!value.is_number()) return;
    for (const char* extreme : {"0", "7", "1000000", "9223372036854775807", "1e-300", "1e30"})
        sets.push_back(path + '=' + extreme);
}

}  // namespace

plan::ReadResult read_checked(std::string_view text, const std::vector<std::string>& sets) {
    plan::ReadResult result = read(text, sets);
    ORRERY_CHECK(result.scenario.has_value() == result.errors.empty(), "neither or both");
    ORRERY_CHECK(result.scenario.has_value() != result.resolved_json.empty(), "resolved");
    ORRERY_CHECK(!result.unreadable || !result.errors.empty(), "unreadable without a reason");
    for (const plan::Diagnostic& fault : result.errors)
        ORRERY_CHECK(!fault.code.empty() && !fault.message.empty(), "a fault without words");
    ORRERY_CHECK(plan::format_text(result.errors).empty() == result.errors.empty(), "text");
    ORRERY_CHECK(!plan::format_json(result.errors).empty(), "json");
    if (!result.scenario) return result;
    const plan::ReadResult again = read(result.resolved_json, {});
    ORRERY_CHECK(again.scenario.has_value(), plan::format_text(again.errors));
    ORRERY_CHECK(*again.scenario == *result.scenario, result.resolved_json);
    ORRERY_CHECK(again.resolved_json == result.resolved_json, result.resolved_json);
    return result;
}

std::vector<std::string> extreme_sets() {
    std::vector<std::string> sets;
    walk(Json::parse(read(kSmallScenario, {}).resolved_json), "", sets);
    return sets;
}

std::vector<std::string> sets_in(std::string_view input) {
    std::vector<std::string> sets;
    while (!input.empty() && sets.size() < kMostSets) {
        const std::string_view line = input.substr(0, input.find('\n'));
        if (plan::valid_override(line)) sets.emplace_back(line);
        input.remove_prefix(std::min(input.size(), line.size() + 1));
    }
    return sets;
}

}  // namespace orrery::fuzz
