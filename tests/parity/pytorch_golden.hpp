// What PyTorch made of small models (tests/parity/pytorch/golden), and the formulas by which
// both sides have the same weights and the same data (tests/parity/pytorch/formulas.py).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace orrery::parity {

// [√Σx², ⟨x, r1⟩, ⟨x, r2⟩] of a tensor: r1 and r2 by `symmetric` of its name and "#1", "#2".
using ThreeNumbers = std::array<double, 3>;

struct GoldenTensor {
    std::vector<std::int64_t> shape;  // [out, in], or [width]
    ThreeNumbers initial{};
    ThreeNumbers gradient{};  // of the first step, before clipping
    ThreeNumbers final{};     // after the last step
};

struct GoldenRun {
    std::vector<double> losses;          // of each step
    std::vector<double> further_losses;  // of the token after the next one, where it is predicted
    std::vector<double> gradient_norms;  // before clipping
};

struct Golden {
    std::string family;
    std::string model_json;  // config.json
    std::string optimizer_json;
    std::int64_t vocabulary = 0;
    int norm_weight_offset = 0;  // 1: norms multiply by 1 + weight
    std::int64_t sequence_length = 0, global_batch_size = 0, steps = 0, windows = 0;
    std::uint64_t seed = 0;
    std::vector<std::int64_t> windows_shown;  // of the data file, by sample
    std::vector<std::int32_t> last_tokens;    // of the data file
    GoldenRun fp64, fp32;
    std::map<std::string, GoldenTensor> tensors;  // by name: "layer.1/qkv.weight"; values in fp64
};

std::vector<std::string> golden_families();
Golden read_golden(const std::string& family);

// Element `i` of what is named `name`, in [0, 1) and in [−1, 1).
double uniform(const std::string& name, std::uint64_t i);
double symmetric(const std::string& name, std::uint64_t i);

// Element `i` of a parameter before training.
double initial(const Golden& golden, const std::string& name, std::uint64_t i);

std::int32_t token(std::uint64_t i, std::int64_t vocabulary);
// The data file, for DataFormat::text: a byte a token.
std::string data_file(const Golden& golden);

ThreeNumbers three_numbers(const std::string& name, std::span<const double> values);

}  // namespace orrery::parity
