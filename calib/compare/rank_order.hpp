// Whether predictions put layouts in the order in which they were measured: what a search needs
// more than the right time. Runs of one source, model, sequence length, software and cluster
// compete; those whose batches differ by the time of a sequence.
#pragma once

#include <string>
#include <vector>

#include "calib/compare/validate.hpp"

namespace orrery::compare {

// Two measured times that are closer than this are equal: runs vary by as much.
inline constexpr double kEqualTimes = 0.05;
// Fewer runs say nothing about an order.
inline constexpr std::size_t kLeastContest = 6;

struct Contest {
    std::string group;  // source
    std::string what;   // "LLaMA-65B, 80 layers of 8192, 2048 tokens, 128 a100-80gb-sxm, …"
    std::size_t runs = 0;
    std::size_t pairs = 0;  // that differ in measurement
    // Kendall's tau-b (Kendall 1945): (concordant − discordant pairs) ÷ √(pairs that differ in
    // measurement × pairs that differ in prediction); 1: the same order.
    double tau_b = 0;
    // Measured time of the run that is predicted to be fastest over that of the fastest, − 1.
    double regret = 0;
};

// Of trusted rows; those in which no two runs differ are none.
std::vector<Contest> contests_of(const Validation& validation);

struct RankOrder {
    double mean_tau_b = 0, mean_regret = 0;
};
RankOrder mean_of(const std::vector<Contest>& contests);  // of at least one

// A section of docs/accuracy.md; empty without contests.
std::string rank_order_markdown(const Validation& validation);

}  // namespace orrery::compare
