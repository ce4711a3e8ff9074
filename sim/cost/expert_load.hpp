// How unequal the rows are that come to the ranks of an expert group: what the fullest rank has, as
// a multiple of the mean. All of the group wait for it, since each needs rows back from it. Every
// layer and micro-batch is another draw; what is priced is their mean.
//
// - random: each token goes through `chosen` experts of all, each set of them as probable, as
//   forced balance has it and balanced routers come near. Rows of a rank are then a sum of
//   hypergeometric counts, one a token; those of all ranks add up, so that their maximum is that
//   of as many independent normal ones, spread by √(ranks ÷ (ranks − 1)) more.
// - dirichlet, zipf: experts have popularities, and a token goes through different ones; drawn for
//   4,096 tokens, twelve times, from the seed. Own generator and logarithm: the same everywhere.
// - counts: as they are, the mean over their rows.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/ops/spec.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

class ExpertLoads {
  public:
    explicit ExpertLoads(const plan::Scenario& scenario);

    // Rows of the fullest of the group's ranks over the mean; 1 where nothing is spread.
    // `expected`: of a rank, when all experts are chosen alike often.
    double fullest(const plan::ExpertPlaces& places, double expected) const;

    // Of an op's rows; 1 for ops that have none of experts.
    double fullest(const plan::OpSpec& spec) const;

  private:
    double of_exchange(const plan::AllToAllV& op) const;
    double at_random(double experts, double parts, double tokens) const;
    double of_rows(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t parts) const;
    std::vector<std::vector<std::int64_t>> drawn(std::int64_t experts) const;

    plan::ExpertRouting routing_;
    std::int64_t chosen_ = 1;
    // What was drawn, by number of experts.
    mutable std::map<std::int64_t, std::vector<std::vector<std::int64_t>>> draws_;
};

// Mean of the largest of `count` independent standard normal numbers.
double largest_of_normals(double count);

}  // namespace orrery::sim
