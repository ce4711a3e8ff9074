#include "tests/parity/pytorch_golden.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace orrery::parity {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const fs::path kGoldens = fs::path(ORRERY_SOURCE_DIR) / "tests/parity/pytorch/golden";

bool ends_with(const std::string& text, const std::string& ending) {
    return text.size() >= ending.size() &&
           text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

GoldenRun run_of(const ordered_json& json) {
    return {json.at("losses").get<std::vector<double>>(),
            json.value("further_losses", std::vector<double>{}),
            json.at("gradient_norms").get<std::vector<double>>()};
}

}  // namespace

std::vector<std::string> golden_families() {
    std::vector<std::string> families;
    for (const auto& entry : fs::directory_iterator(kGoldens))
        families.push_back(entry.path().stem().string());
    std::sort(families.begin(), families.end());
    return families;
}

Golden read_golden(const std::string& family) {
    std::ifstream file(kGoldens / (family + ".json"));
    if (!file) throw std::runtime_error("no golden file of " + family);
    const ordered_json json = ordered_json::parse(file);
    const ordered_json& model = json.at("model");
    const ordered_json& training = json.at("training");
    Golden golden;
    golden.family = family;
    golden.model_json = model.dump();
    golden.optimizer_json = training.at("optimizer").dump();
    golden.vocabulary = model.at("vocab_size");
    golden.norm_weight_offset = family.starts_with("gemma") ? 1 : 0;
    golden.sequence_length = training.at("sequence_length");
    golden.global_batch_size = training.at("global_batch_size");
    golden.steps = training.at("steps");
    golden.windows = training.at("windows");
    golden.seed = training.at("seed");
    json.at("windows_shown").get_to(golden.windows_shown);
    json.at("last_tokens").get_to(golden.last_tokens);
    golden.fp64 = run_of(json.at("fp64"));
    golden.fp32 = run_of(json.at("fp32"));
    for (const auto& [name, tensor] : json.at("tensors").items())
        golden.tensors[name] = {tensor.at("shape").get<std::vector<std::int64_t>>(),
                                tensor.at("initial").get<ThreeNumbers>(),
                                tensor.at("gradient").get<ThreeNumbers>(),
                                tensor.at("final").get<ThreeNumbers>()};
    return golden;
}

double uniform(const std::string& name, std::uint64_t i) {
    std::uint64_t state = 0xCBF29CE484222325U;  // FNV-1a of the name
    for (const char c : name)
        state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    std::uint64_t z = state + (i + 1) * 0x9E3779B97F4A7C15U;  // splitmix64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-53;
}

double symmetric(const std::string& name, std::uint64_t i) {
    return 2 * uniform(name, i) - 1;
}

double initial(const Golden& golden, const std::string& name, std::uint64_t i) {
    for (const char* norm : {"norm.weight", "norm1.weight", "norm2.weight"})
        if (ends_with(name, norm))
            return (1 - golden.norm_weight_offset) + symmetric(name, i) * 0.1;
    return symmetric(name, i) * (ends_with(name, ".bias") ? 0.1 : 0.15);
}

std::int32_t token(std::uint64_t i, std::int64_t vocabulary) {
    const double u = uniform("tokens", i);
    return static_cast<std::int32_t>(std::floor(u * u * static_cast<double>(vocabulary)));
}

std::string data_file(const Golden& golden) {
    std::string bytes;
    for (std::int64_t i = 0; i <= golden.windows * golden.sequence_length; ++i)
        bytes += static_cast<char>(token(static_cast<std::uint64_t>(i), golden.vocabulary));
    return bytes;
}

ThreeNumbers three_numbers(const std::string& name, std::span<const double> values) {
    double squares = 0, first = 0, second = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        squares += values[i] * values[i];
        first += values[i] * symmetric(name + "#1", i);
        second += values[i] * symmetric(name + "#2", i);
    }
    return {std::sqrt(squares), first, second};
}

}  // namespace orrery::parity
