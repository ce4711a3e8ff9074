// What rotary positions and ALiBi compute with: closed forms of what an op says, for whoever turns
// heads or biases scores.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/ops/fields.hpp"

namespace orrery::plan {

// How rotary frequencies are stretched over longer sequences than a model began with; see
// inverse_frequencies.
struct RopeScaling {
    enum class Kind : std::uint8_t { none, linear, llama3, yarn };
    Kind kind = Kind::none;
    double factor = 1;
    double low_freq_factor = 1;   // llama3: turns of the original length below which …
    double high_freq_factor = 4;  // … and above which a frequency is slow, or fast
    std::int64_t original_max_positions = 0;  // llama3, yarn
    double beta_slow = 1;                     // yarn: turns of the original length below which …
    double beta_fast = 32;                    // … and above which a frequency is slow, or fast
    bool truncate = true;                     // yarn: the bounds are whole pairs, outwards
    double attention_factor = 1;              // yarn: turned queries and keys are multiplied by it
    // yarn, of latent attention: scores are multiplied by the square of yarn_scale of it.
    double mscale_all_dim = 0;

    // Of an op: attention_factor and mscale_all_dim are in its scale.
    template <typename V>
    static void fields(V&& v) {
        v.number("scaling", &RopeScaling::kind);
        v.number("factor", &RopeScaling::factor);
        v.number("low_freq_factor", &RopeScaling::low_freq_factor);
        v.number("high_freq_factor", &RopeScaling::high_freq_factor);
        v.number("original_max_positions", &RopeScaling::original_max_positions);
        v.number("beta_slow", &RopeScaling::beta_slow);
        v.number("beta_fast", &RopeScaling::beta_fast);
        v.number("truncate", &RopeScaling::truncate);
    }
    bool operator==(const RopeScaling&) const = default;
};
template <>
struct Spelling<RopeScaling::Kind> {
    static constexpr std::array<std::string_view, 4> names = {"none", "linear", "llama3", "yarn"};
};

// Radians per position of each turned pair of a head, rotary_dim / 2 of them: θ^(−2i/rotary_dim)
// (Su et al. 2021, arXiv 2104.09864), stretched as the scaling says:
//   linear  all are divided by the factor (Chen et al. 2023, arXiv 2306.15595);
//   llama3  those that make less than low_freq_factor turns over the original positions are divided
//           by the factor, those that make more than high_freq_factor stay, between them the two
//           are mixed in proportion to the turns (Grattafiori et al. 2024, arXiv 2407.21783; the
//           form is that of Hugging Face's modeling_rope_utils and Meta's llama-models);
//   yarn    pairs that make more than beta_fast turns over the original positions stay, those that
//           make fewer than beta_slow are divided by the factor, between them the two are mixed in
//           proportion to the pair's number (Peng et al. 2023, arXiv 2309.00071, by parts; bounds
//           rounded outwards to whole pairs, as in Hugging Face's modeling_rope_utils). Scores are
//           multiplied by attention_factor squared, which Model::attention_scale() has.
// Pair i is made of the elements i and i + rotary_dim / 2 of a head, as in Hugging Face's weights
// of every family here.
std::vector<double> inverse_frequencies(std::int64_t rotary_dim, double theta,
                                        const RopeScaling& scaling);

// What YaRN multiplies by where positions are stretched by `factor`, for a scale of this size (Peng
// et al. 2023, eq. 22, for 1; DeepSeek-AI 2024, arXiv 2405.04434, section 3.1.4): 1 + 0.1·of·ln.
double yarn_scale(double of, double factor);

// ALiBi (Press et al. 2022, arXiv 2108.12409): the score of a key is biased by slope × its
// position. Of n heads that are a power of two, head h from 0 has 2^(−8(h + 1)/n). Else the first p
// heads, the largest power of two below n, are those of p, the rest every other of those of 2p,
// from its first on; so in the authors' code, BLOOM and Falcon.
double alibi_slope(std::int64_t heads, std::int64_t head);

}  // namespace orrery::plan
