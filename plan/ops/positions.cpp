#include "plan/ops/positions.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plan/check.hpp"

namespace orrery::plan {
namespace {

double llama3_frequency(double frequency, const RopeScaling& scaling) {
    const double turns =
        static_cast<double>(scaling.original_max_positions) * frequency / (2 * std::numbers::pi);
    if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
    if (turns >= scaling.high_freq_factor) return frequency;
    const double kept =
        (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

// The pair, counted as a fraction, that makes so many turns over the original positions.
double pair_of_turns(double turns, std::int64_t rotary_dim, double theta,
                     const RopeScaling& scaling) {
    const auto positions = static_cast<double>(scaling.original_max_positions);
    return static_cast<double>(rotary_dim) / 2 *
           std::log(positions / (turns * 2 * std::numbers::pi)) / std::log(theta);
}

// Fast pairs stay, slow ones are divided by the factor, between them by their number.
std::vector<double> yarn_frequencies(std::int64_t rotary_dim, double theta,
                                     const RopeScaling& scaling, std::vector<double> frequencies) {
    const auto last = static_cast<double>(rotary_dim - 1);
    double first_slowed = pair_of_turns(scaling.beta_fast, rotary_dim, theta, scaling);
    double first_slow = pair_of_turns(scaling.beta_slow, rotary_dim, theta, scaling);
    if (scaling.truncate) {
        first_slowed = std::floor(first_slowed);
        first_slow = std::ceil(first_slow);
    }
    first_slowed = std::clamp(first_slowed, 0.0, last);
    first_slow = std::clamp(first_slow, 0.0, last);
    const double width = std::max(first_slow - first_slowed, 0.001);  // as Hugging Face divides
    for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
        const double slowed =
            std::clamp((static_cast<double>(pair) - first_slowed) / width, 0.0, 1.0);
        frequencies[pair] *= slowed / scaling.factor + (1 - slowed);
    }
    return frequencies;
}

double stretched(double frequency, const RopeScaling& scaling) {
    switch (scaling.kind) {
        case RopeScaling::Kind::none:
        case RopeScaling::Kind::yarn:  // by the number of the pair
            return frequency;
        case RopeScaling::Kind::linear:
            return frequency / scaling.factor;
        case RopeScaling::Kind::llama3:
            return llama3_frequency(frequency, scaling);
    }
    return frequency;
}

}  // namespace

std::vector<double> inverse_frequencies(std::int64_t rotary_dim, double theta,
                                        const RopeScaling& scaling) {
    ORRERY_CHECK(rotary_dim > 0, "frequencies of positions that are not rotary");
    std::vector<double> out;
    for (std::int64_t i = 0; i < rotary_dim; i += 2) {
        const double share = static_cast<double>(i) / static_cast<double>(rotary_dim);
        out.push_back(stretched(std::pow(theta, -share), scaling));
    }
    return scaling.kind == RopeScaling::Kind::yarn
               ? yarn_frequencies(rotary_dim, theta, scaling, out)
               : out;
}

double yarn_scale(double of, double factor) {
    return 0.1 * of * std::log(factor) + 1;
}

double alibi_slope(std::int64_t heads, std::int64_t head) {
    ORRERY_CHECK(head >= 0 && head < heads, "slope of a head that there is none of");
    std::int64_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    if (head < power)
        return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
    const std::int64_t odd = 2 * (head - power) + 1;
    return std::exp2(-8.0 * static_cast<double>(odd) / static_cast<double>(2 * power));
}

}  // namespace orrery::plan
