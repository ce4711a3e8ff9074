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
//
// Where experts have a capacity, they take that much at most of each unit of tokens. At random,
// what a unit's tokens choose of an expert is nearly normal, and E max(X − C, 0) of it is dropped;
// else each unit's shares are those of all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/ops/spec.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// Rows as multiples of those that come to a rank when all experts are chosen alike often.
struct RowLoad {
    double mean = 1;     // of the group's ranks; less than 1 where rows are dropped
    double fullest = 1;  // of them
};

class ExpertLoads {
  public:
    explicit ExpertLoads(const plan::Scenario& scenario);

    // 1 where nothing is spread. `expected`: a rank's when all experts are chosen alike often.
    RowLoad of(const plan::ExpertPlaces& places, double expected) const;

    // Of an op's rows; 1 for ops that have none of experts.
    RowLoad of(const plan::OpSpec& spec) const;

    // Of the rows for which tokens choose experts; 0 where there is no capacity.
    double dropped_share() const;

  private:
    RowLoad of_exchange(const plan::AllToAllV& op) const;
    RowLoad at_random(double experts, double parts, double tokens) const;
    RowLoad of_rows(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t parts) const;
    const std::vector<std::vector<std::int64_t>>& drawn(std::int64_t experts) const;
    RowLoad chosen_rows(std::int64_t experts, std::int64_t parts, double tokens) const;

    plan::ExpertRouting routing_;
    std::int64_t experts_ = 1, chosen_ = 1;
    // What an expert takes of a unit's tokens as a multiple of its share of them; 0: all.
    double capacity_ = 0;
    double unit_tokens_ = 0;
    // What was drawn, by number of experts.
    mutable std::map<std::int64_t, std::vector<std::vector<std::int64_t>>> draws_;
};

// Mean of the largest of `count` independent standard normal numbers.
double largest_of_normals(double count);

}  // namespace orrery::sim
