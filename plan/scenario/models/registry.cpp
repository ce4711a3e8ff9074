#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/models/family.hpp"

namespace orrery::plan {
namespace {

// Model types that people have, and why none of them is here.
struct Known {
    const char* name;
    const char* why;
};

constexpr Known kUnmodelled[] = {
    {"gemma3", "pictures beside the text; its text_config is, as \"gemma3_text\""},
    {"llama4", "pictures beside the text; its text_config is, as \"llama4_text\""},
    {"gptj", "a head with a bias"},
    {"phi", "a head with a bias"},
    {"gpt_bigcode", "its config.json is not read"},
    {"gpt_neo", "windows in every other layer"},
    {"mpt", "its config.json is not read"},
    {"t5", "encoders"},
    {"bert", "encoders"},
    {"mamba", "state-space layers"},
};

std::string known_names() {
    std::string out;
    for (const Family& family : families())
        out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", family.name);
    return out;
}

}  // namespace

const std::vector<Family>& families() {
    static const std::vector<Family> all = {
        gpt2(),    llama(),     llama4(),    qwen2(),       qwen3(),       mistral(),
        mixtral(), qwen2_moe(), qwen3_moe(), deepseek_v2(), deepseek_v3(), grok1(),
        olmo2(),   phi3(),      gemma(),     gemma2(),      gemma3(),      gpt_oss(),
        opt(),     bloom(),     falcon(),    gpt_neox(),    nemotron(),    megatron()};
    return all;
}

std::vector<std::string_view> family_names() {
    std::vector<std::string_view> names;
    for (const Family& family : families())
        names.emplace_back(family.name);
    return names;
}

const Family* read_family(Reading& reading, Section& section) {
    std::vector<std::string> names;
    for (const Family& family : families())
        names.emplace_back(family.name);
    std::string name;
    if (section.word_of("model_type", name, names, "", Presence::required)) {
        const auto it = std::find(names.begin(), names.end(), name);
        return &families()[static_cast<std::size_t>(it - names.begin())];
    }
    if (!section.has("model_type")) {
        reading.report("S005", "/model/model_type", "model needs the key \"model_type\"")
            .help.push_back("known: " + known_names());
        return nullptr;
    }
    for (const Known& known : kUnmodelled) {
        if (name != known.name) continue;
        Diagnostic& fault = reading.errors().back();
        fault.note = fmt::format("{} is not modelled: {}", name, known.why);
        fault.help = {"known: " + known_names()};  // no neighbour in spelling was meant
    }
    return nullptr;
}

}  // namespace orrery::plan
