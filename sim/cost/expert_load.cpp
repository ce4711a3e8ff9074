#include "sim/cost/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "plan/blocks/dims.hpp"
#include "sim/cost/log2.hpp"

namespace orrery::sim {
namespace {

constexpr int kDraws = 12;
constexpr int kTokens = 4096;
constexpr int kTries = 64;  // of an expert that the token has not chosen yet

// splitmix64 (Steele, Lea and Flood 2014, doi 10.1145/2660193.2660195).
class Generator {
  public:
    explicit Generator(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    // In (0, 1).
    double uniform() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }

    // Polar method (Marsaglia and Bray 1964).
    double normal() {
        for (;;) {
            const double x = 2 * uniform() - 1, y = 2 * uniform() - 1, s = x * x + y * y;
            if (s < 1 && s > 0) return x * std::sqrt(-2 * natural_log(s) / s);
        }
    }

    // Gamma distribution (Marsaglia and Tsang 2000, doi 10.1145/358407.358414).
    double gamma(double shape) {
        if (shape < 1) return gamma(shape + 1) * power_of_two(log2_of(uniform()) / shape);
        const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
        for (;;) {
            const double x = normal(), root = 1 + c * x;
            if (root <= 0) continue;
            const double v = root * root * root;
            if (natural_log(uniform()) < 0.5 * x * x + d - d * v + d * natural_log(v)) return d * v;
        }
    }

    static double natural_log(double x) {
        constexpr double kLnTwo = 0.69314718055994531;
        return log2_of(x) * kLnTwo;
    }
    // 2^x, 0 below what a normal number holds; + − × ÷ only.
    static double power_of_two(double x) {
        constexpr double kLnTwo = 0.69314718055994531;
        if (x < -1000) return 0;
        const double whole = std::floor(x + 0.5), rest = (x - whole) * kLnTwo;
        double series = 1;
        for (int n = 18; n >= 1; --n)
            series = 1 + series * rest / n;
        return std::ldexp(series, static_cast<int>(whole));
    }

  private:
    std::uint64_t state_;
};

// The experts' popularities, in an order of their own each time.
std::vector<double> popularities(const plan::ExpertRouting& routing, std::size_t experts,
                                 Generator& generator) {
    std::vector<double> weights(experts);
    for (std::size_t i = 0; i < experts; ++i)
        weights[i] =
            routing.distribution == plan::ExpertLoad::dirichlet
                ? std::max(generator.gamma(routing.alpha), 1e-300)
                : Generator::power_of_two(-routing.exponent * log2_of(static_cast<double>(i + 1)));
    for (std::size_t i = experts; i > 1; --i)
        std::swap(weights[i - 1], weights[generator.next() % i]);
    return weights;
}

// How often each expert is chosen by tokens that each go through so many different ones.
std::vector<std::int64_t> counts_by(const std::vector<double>& weights, std::int64_t chosen,
                                    Generator& generator) {
    std::vector<double> upto(weights.size());
    std::partial_sum(weights.begin(), weights.end(), upto.begin());
    std::vector<std::size_t> by_weight(weights.size());
    std::iota(by_weight.begin(), by_weight.end(), std::size_t{0});
    std::stable_sort(by_weight.begin(), by_weight.end(),
                     [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
    std::vector<std::int64_t> counts(weights.size());
    std::vector<int> last(weights.size(), -1);  // token that chose it
    for (int token = 0; token < kTokens; ++token)
        for (std::int64_t c = 0; c < chosen; ++c) {
            std::size_t expert = weights.size();
            for (int tried = 0; tried < kTries; ++tried) {
                const double at = generator.uniform() * upto.back();
                const auto found = std::upper_bound(upto.begin(), upto.end() - 1, at);
                expert = static_cast<std::size_t>(found - upto.begin());
                if (last[expert] != token) break;
            }
            // So improbable a rest: the most popular of those that are left.
            for (std::size_t i = 0; last[expert] == token; ++i)
                expert = by_weight[i];
            last[expert] = token;
            ++counts[expert];
        }
    return counts;
}

// E max(X − a, 0) of a normal X with mean 0; the tail's integral by Abramowitz and Stegun 1964,
// 26.2.17, within 8e-8.
double mean_excess(double a, double deviation) {
    if (deviation <= 0) return std::max(-a, 0.0);
    const double u = std::abs(a) / deviation;
    constexpr double kRootTwoPi = 2.5066282746310002, kLog2OfE = 1.4426950408889634;
    const double density = Generator::power_of_two(-0.5 * u * u * kLog2OfE) / kRootTwoPi;
    const double t = 1 / (1 + 0.2316419 * u);
    const double tail =
        density * t *
        (0.319381530 +
         t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    const double above = deviation * (density - u * tail);
    return a >= 0 ? above : above - a;
}

}  // namespace

// Of 2^i numbers, the integral of 1 − Φ(x)^n − Φ(−x)^n over x > 0 (Harter 1961, doi
// 10.1093/biomet/48.1-2.151); between them linear in the logarithm.
double largest_of_normals(double count) {
    constexpr std::array<double, 15> kMeans = {0,       0.56419, 1.02938, 1.42360, 1.76599,
                                               2.06967, 2.34373, 2.59460, 2.82686, 3.04390,
                                               3.24824, 3.44180, 3.62608, 3.80228, 3.97135};
    if (count <= 1) return 0;
    const double at = std::min(log2_of(count), static_cast<double>(kMeans.size() - 1));
    const auto below = std::min(static_cast<std::size_t>(at), kMeans.size() - 2);
    const double share = at - static_cast<double>(below);
    return kMeans[below] + share * (kMeans[below + 1] - kMeans[below]);
}

ExpertLoads::ExpertLoads(const plan::Scenario& scenario) : routing_(scenario.training.routing) {
    for (const plan::LayerSpec& kind : scenario.model.kinds) {
        const plan::ExpertMlp* experts = kind.experts();
        if (experts == nullptr) continue;
        experts_ = experts->routing.experts;
        chosen_ = experts->routing.chosen;
        const plan::Dims dims = plan::dims_of(scenario, kind);
        if (dims.capacity == 0) return;
        unit_tokens_ = static_cast<double>(dims.unit_tokens);
        capacity_ = static_cast<double>(dims.capacity * experts_) /
                    (unit_tokens_ * static_cast<double>(chosen_));
        return;
    }
}

// A token's choices of a part's experts are hypergeometric; a unit's of one expert binomial.
RowLoad ExpertLoads::at_random(double experts, double parts, double tokens) const {
    const double chosen = static_cast<double>(chosen_);
    RowLoad load;
    if (experts <= chosen || tokens <= 0) return load;
    if (parts > 1) {
        const double share = 1 / parts;
        const double of_token =
            chosen * share * (1 - share) * (experts - chosen) / (experts - 1);  // its variance
        const double spread = std::sqrt(tokens * of_token * parts / (parts - 1));
        load.fullest += spread * largest_of_normals(parts) / (tokens * chosen * share);
    }
    if (capacity_ == 0) return load;
    const double dropped =
        mean_excess(capacity_ - 1, std::sqrt((experts / chosen - 1) / unit_tokens_));
    return {1 - dropped, std::min(capacity_, load.fullest - dropped)};
}

RowLoad ExpertLoads::of_rows(const std::vector<std::vector<std::int64_t>>& rows,
                             std::int64_t parts) const {
    RowLoad sum{0, 0};
    for (const std::vector<std::int64_t>& counts : rows) {
        const std::size_t local = counts.size() / static_cast<std::size_t>(parts);
        const double all =
            static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
        const double room = capacity_ * all / static_cast<double>(counts.size());
        double most = 0, kept = 0;
        for (std::size_t first = 0; first < counts.size(); first += local) {
            double own = 0;
            for (std::size_t i = first; i < first + local; ++i) {
                const auto came = static_cast<double>(counts[i]);
                own += capacity_ > 0 ? std::min(came, room) : came;
            }
            most = std::max(most, own);
            kept += own;
        }
        sum.fullest += most * static_cast<double>(parts) / all;
        sum.mean += kept / all;
    }
    const auto count = static_cast<double>(rows.size());
    return {sum.mean / count, sum.fullest / count};
}

const std::vector<std::vector<std::int64_t>>& ExpertLoads::drawn(std::int64_t experts) const {
    std::vector<std::vector<std::int64_t>>& rows = draws_[experts];
    if (!rows.empty()) return rows;
    for (int draw = 0; draw < kDraws; ++draw) {
        Generator generator(static_cast<std::uint64_t>(routing_.seed) * kDraws +
                            static_cast<std::uint64_t>(draw));
        const std::vector<double> weights =
            popularities(routing_, static_cast<std::size_t>(experts), generator);
        rows.push_back(counts_by(weights, std::min(chosen_, experts), generator));
    }
    return rows;
}

// Of rows as they are chosen, of which some are dropped. tokens: that choose for all parts.
RowLoad ExpertLoads::chosen_rows(std::int64_t experts, std::int64_t parts, double tokens) const {
    switch (routing_.distribution) {
        case plan::ExpertLoad::uniform:
            break;
        case plan::ExpertLoad::random:
            return at_random(static_cast<double>(experts), static_cast<double>(parts), tokens);
        case plan::ExpertLoad::dirichlet:
        case plan::ExpertLoad::zipf:
            return of_rows(drawn(experts), parts);
        case plan::ExpertLoad::counts:
            return of_rows(routing_.counts, parts);
    }
    const double kept = capacity_ > 0 ? std::min(capacity_, 1.0) : 1;
    return {kept, kept};
}

RowLoad ExpertLoads::of(const plan::ExpertPlaces& places, double expected) const {
    const std::int64_t parts = places.split > 0 ? places.ranks / places.split : 1;
    if (routing_.pads_to_capacity || (parts <= 1 && capacity_ == 0)) return {};
    const double kept = capacity_ > 0 ? std::min(capacity_, 1.0) : 1;  // as the plan expects
    // Each row goes to all that share its expert.
    const double tokens = expected / kept * static_cast<double>(places.ranks) /
                          static_cast<double>(chosen_ * places.split);
    const RowLoad load = chosen_rows(places.experts, parts, tokens);
    return {load.mean / kept, load.fullest / kept};
}

double ExpertLoads::dropped_share() const {
    return capacity_ > 0 ? 1 - chosen_rows(experts_, 1, unit_tokens_).mean : 0;
}

// A rank gets one copy of a token at most, however many of its experts are on it.
RowLoad ExpertLoads::of_exchange(const plan::AllToAllV& op) const {
    if (op.width == 0) return {};
    if (op.tokens == 0) return of(op, static_cast<double>(op.elements / op.width));
    const auto sets = static_cast<double>(op.experts);
    const double most = sets * static_cast<double>(op.tokens) / op.copies(op.experts);
    const RowLoad rows =
        of({op.from, op.ranks, op.split}, static_cast<double>(op.tokens * op.drawn * op.split));
    return {1, std::min(most, rows.fullest / rows.mean)};
}

RowLoad ExpertLoads::of(const plan::OpSpec& spec) const {
    return std::visit(
        [&](const auto& op) -> RowLoad {
            if constexpr (requires { op.expected + op.split; })
                return of(op, static_cast<double>(op.expected));
            else if constexpr (requires { op.elements + op.split; })
                return of_exchange(op);
            else
                return {};
        },
        spec);
}

}  // namespace orrery::sim
