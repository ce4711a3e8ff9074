#include "sim/cost/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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
    if (const plan::ExpertMlp* experts = scenario.model.experts())
        chosen_ = experts->routing.chosen;
}

double ExpertLoads::at_random(double experts, double parts, double tokens) const {
    const double chosen = static_cast<double>(chosen_);
    if (experts <= chosen || tokens <= 0) return 1;
    const double share = 1 / parts;
    const double of_token =
        chosen * share * (1 - share) * (experts - chosen) / (experts - 1);  // its variance
    const double spread = std::sqrt(tokens * of_token * parts / (parts - 1));
    return 1 + spread * largest_of_normals(parts) / (tokens * chosen * share);
}

double ExpertLoads::of_rows(const std::vector<std::vector<std::int64_t>>& rows,
                            std::int64_t parts) const {
    double sum = 0;
    for (const std::vector<std::int64_t>& counts : rows) {
        const std::size_t local = counts.size() / static_cast<std::size_t>(parts);
        std::int64_t most = 0, all = 0;
        for (std::size_t first = 0; first < counts.size(); first += local) {
            std::int64_t own = 0;
            for (std::size_t i = first; i < first + local; ++i)
                own += counts[i];
            most = std::max(most, own);
            all += own;
        }
        sum += static_cast<double>(most) * static_cast<double>(parts) / static_cast<double>(all);
    }
    return sum / static_cast<double>(rows.size());
}

std::vector<std::vector<std::int64_t>> ExpertLoads::drawn(std::int64_t experts) const {
    std::vector<std::vector<std::int64_t>> rows;
    for (int draw = 0; draw < kDraws; ++draw) {
        Generator generator(static_cast<std::uint64_t>(routing_.seed) * kDraws +
                            static_cast<std::uint64_t>(draw));
        const std::vector<double> weights =
            popularities(routing_, static_cast<std::size_t>(experts), generator);
        rows.push_back(counts_by(weights, std::min(chosen_, experts), generator));
    }
    return rows;
}

double ExpertLoads::fullest(const plan::ExpertPlaces& places, double expected) const {
    const std::int64_t parts = places.split > 0 ? places.ranks / places.split : 1;
    if (parts <= 1) return 1;
    switch (routing_.distribution) {
        case plan::ExpertLoad::uniform:
            return 1;
        case plan::ExpertLoad::random: {
            // Each row goes to all that share its expert.
            const double tokens = expected * static_cast<double>(places.ranks) /
                                  static_cast<double>(chosen_ * places.split);
            return at_random(static_cast<double>(places.experts), static_cast<double>(parts),
                             tokens);
        }
        case plan::ExpertLoad::dirichlet:
        case plan::ExpertLoad::zipf: {
            auto at = draws_.find(places.experts);
            if (at == draws_.end())
                at = draws_.emplace(places.experts, drawn(places.experts)).first;
            return of_rows(at->second, parts);
        }
        case plan::ExpertLoad::counts:
            return of_rows(routing_.counts, parts);
    }
    return 1;
}

// A rank gets one copy of a token at most, however many of its experts are on it.
double ExpertLoads::of_exchange(const plan::AllToAllV& op) const {
    if (op.width == 0) return 1;
    if (op.tokens == 0) return fullest(op, static_cast<double>(op.elements / op.width));
    const auto sets = static_cast<double>(op.experts);
    const double most = sets * static_cast<double>(op.tokens) / op.copies(op.experts);
    return std::min(most, fullest({op.from, op.ranks, op.split},
                                  static_cast<double>(op.tokens * op.drawn * op.split)));
}

double ExpertLoads::fullest(const plan::OpSpec& spec) const {
    return std::visit(
        [&](const auto& op) -> double {
            if constexpr (requires { op.expected + op.split; })
                return fullest(op, static_cast<double>(op.expected));
            else if constexpr (requires { op.elements + op.split; })
                return of_exchange(op);
            else
                return 1;
        },
        spec);
}

}  // namespace orrery::sim
