#include "plan/ops/experts.hpp"

namespace orrery::plan {
namespace {

// That none of k draws of n, none twice, is among so many of them.
double misses(double n, double among, std::int64_t k) {
    double probability = 1;
    for (std::int64_t i = 0; i < k; ++i)
        probability *= std::max(n - among - static_cast<double>(i), 0.0) /
                       std::max(n - static_cast<double>(i), 1.0);
    return probability;
}

double choose(std::int64_t n, std::int64_t k) {
    if (k < 0 || k > n) return 0;
    double ways = 1;
    for (std::int64_t i = 0; i < k; ++i)
        ways *= static_cast<double>(n - i) / static_cast<double>(i + 1);
    return ways;
}

}  // namespace

// A set is missed by all draws with C(E − E/G, k)/C(E, k). Of kept groups it has a part of one with
// their share of all, or holds several, of which so many are kept (hypergeometrically).
double TokenDraws::copies(std::int64_t sets) const {
    if (tokens == 0 || sets == 0) return 0;
    const auto all = static_cast<double>(from), parts = static_cast<double>(sets);
    const double of_set = all / parts;
    double hit = 1 - misses(all, of_set, drawn);
    if (kept_groups > 0 && kept_groups < groups) {
        const auto kept = static_cast<double>(kept_groups), of_all = static_cast<double>(groups);
        const double open = all * kept / of_all;
        if (sets % groups == 0) {
            hit = kept / of_all * (1 - misses(open, of_set, drawn));
        } else if (groups % sets == 0) {
            const std::int64_t held = groups / sets;
            hit = 1;
            for (std::int64_t n = 0; n <= held; ++n)
                hit -= choose(held, n) * choose(groups - held, kept_groups - n) /
                       choose(groups, kept_groups) *
                       misses(open, static_cast<double>(n) * all / of_all, drawn);
        }
    }
    return static_cast<double>(tokens) * parts * hit;
}

}  // namespace orrery::plan
