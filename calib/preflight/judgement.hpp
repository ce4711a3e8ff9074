// Which ranks, nodes and pairs are slower than their like, and whether all are slower than the
// profile says. What is compared is measured time over expected time: of one check all ranks do the
// same, and where devices or links differ by the cluster's own description they are expected to.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "calib/preflight/timings.hpp"

namespace orrery::preflight {

// A check of those that should be alike: pairs within a node are not like pairs between nodes.
struct Family {
    Check check = Check::product;
    bool between_nodes = false;
    std::vector<Timing> measured, expected;  // of the same
    // Measured over expected time of the one in the middle; of two the faster one.
    double usual = 1;
    double expected_sd = 0;  // relative

    bool is_expected() const { return std::isfinite(expected_sd); }

    double slowdown(std::size_t i) const {
        return measured[i].seconds / expected[i].seconds / usual;
    }
};

struct Slow {
    Check check = Check::product;
    bool between_nodes = false;
    // Whose: all ranks of a node, one rank, or one pair.
    std::int64_t node = -1;
    plan::Rank rank = -1, peer = -1;
    double slowdown = 1;  // against its like; of a node or a rank's links, in the median
    std::int64_t slow_pairs = 0, pairs = 0;  // of a rank's links
};

struct Judgement {
    std::vector<Family> families;
    std::vector<Slow> slow;  // worst first
    // Families whose usual time is beyond the profile's and its 90 %, and the tolerance.
    std::vector<std::size_t> behind_profile;
};

// tolerance: 0.1 lets a rank take a tenth longer than its like.
Judgement judge(const std::vector<Timing>& measured, const Expected& expected,
                std::int64_t ranks_per_node, double tolerance);

}  // namespace orrery::preflight
