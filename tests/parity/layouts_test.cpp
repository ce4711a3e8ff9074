// Every layout trains the same model: losses of 20 steps and gradients of the first are those of
// one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

struct Case {
    const char* model;
    const char* text;
    std::string precision;
    NamedLayout layout;
};

// gtest prints the name alone.
void PrintTo(const Case& c, std::ostream* os) {
    *os << c.model << " " << c.precision << " " << c.layout.name;
}

const Trained& alone(const Case& c, const Sets& sets) {
    static std::map<std::string, Trained> runs;
    std::string key = c.model + c.precision;
    for (const std::string& set : sets)
        key += " " + set;
    const auto found = runs.find(key);
    if (found != runs.end()) return found->second;
    return runs[key] = train(scenario(c.text, sets));
}

// Settings that say what is computed, not where.
Sets model_settings(const Case& c) {
    Sets sets = {"training.precision=" + c.precision};
    for (const std::string& set : c.layout.sets)
        if (set.starts_with("model.") || set.starts_with("layout.global_batch_size=") ||
            set.find("clip_norm") != std::string::npos)
            sets.push_back(set);
    return sets;
}

class Layouts : public testing::TestWithParam<Case> {};

TEST_P(Layouts, TrainTheModelOfOneRank) {
    const Case& c = GetParam();
    const Trained& reference = alone(c, model_settings(c));
    Sets sets = c.layout.sets;
    sets.push_back("training.precision=" + c.precision);
    const Trained run = train(scenario(c.text, sets));
    expect_same_training(run, reference, c.precision == "fp64" ? kFp64 : kFp32);
    for (const runtime::RankMemory& memory : run.result.memory)
        EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
}

// Every layout in both precisions and of both models, which take turns.
std::vector<Case> cases() {
    std::vector<Case> all;
    bool turn = false;
    for (const NamedLayout& layout : all_layouts()) {
        turn = !turn;
        all.push_back({turn ? "gpt" : "llama", turn ? kGpt : kLlama, "fp64", layout});
        all.push_back({turn ? "llama" : "gpt", turn ? kLlama : kGpt, "fp32", layout});
    }
    for (const auto& layouts : {zero_bubble_layouts(), context_layouts()})
        for (const NamedLayout& layout : layouts) {
            turn = !turn;
            all.push_back({turn ? "gpt" : "llama", turn ? kGpt : kLlama, "fp32", layout});
        }
    for (const NamedLayout& layout : windowed_layouts())
        for (const char* precision : {"fp64", "fp32"})
            all.push_back({"mistral", kLlama, precision, layout});
    for (const FamilySets& family : llama_like_families())
        for (NamedLayout layout : layer_layouts()) {
            layout.sets.insert(layout.sets.end(), family.sets.begin(), family.sets.end());
            all.push_back({family.name, kLlama, "fp64", layout});
        }
    for (const NamedLayout& layout : context_dropout_layouts())
        all.push_back({"gpt", kGpt, "fp64", layout});
    for (const NamedLayout& layout : context_slope_layouts())
        all.push_back({"bloom", kBloom, "fp64", layout});
    return all;
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
    const Case& c = tested.param;
    return std::string(c.model) + "_" + c.precision + "_" + c.layout.name;
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(cases()), name_of);

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
