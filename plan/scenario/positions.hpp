// What rotary positions and ALiBi compute with: closed forms of a model's features, for whoever
// turns heads or biases scores.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// Radians per position of each turned pair of a head, rotary_dim / 2 of them: θ^(−2i/rotary_dim)
// (Su et al. 2021, arXiv 2104.09864), stretched as rope_scaling says:
//   linear  all are divided by the factor (Chen et al. 2023, arXiv 2306.15595);
//   llama3  those that make less than low_freq_factor turns over the original positions are divided
//   by
//           the factor, those that make more than high_freq_factor stay, between them the two are
//           mixed in proportion to the turns (Grattafiori et al. 2024, arXiv 2407.21783; the form
//           is that of Hugging Face's modeling_rope_utils and Meta's llama-models);
//   yarn    pairs that make more than beta_fast turns over the original positions stay, those that
//           make fewer than beta_slow are divided by the factor, between them the two are mixed in
//           proportion to the pair's number (Peng et al. 2023, arXiv 2309.00071, by parts; bounds
//           rounded outwards to whole pairs, as in Hugging Face's modeling_rope_utils). Scores are
//           multiplied by attention_factor squared, which Model::attention_scale() has.
// Pair i is made of the elements i and i + rotary_dim / 2 of a head, as in Hugging Face's weights
// of every family here.
std::vector<double> inverse_frequencies(const Model& model);

// ALiBi (Press et al. 2022, arXiv 2108.12409): the score of a key is biased by slope × its
// position. Of n heads that are a power of two, head h from 0 has 2^(−8(h + 1)/n). Else the first p
// heads, the largest power of two below n, are those of p, the rest every other of those of 2p,
// from its first on; so in the authors' code, BLOOM and Falcon.
double alibi_slope(std::int64_t heads, std::int64_t head);
// The same as it adds to scaled scores in this model: with scaled_alibi times attention_scale().
double alibi_slope(const Model& model, std::int64_t head);

}  // namespace orrery::plan
