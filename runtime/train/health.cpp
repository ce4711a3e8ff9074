#include "runtime/train/health.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

constexpr double kPercent = 100;

// Of two in the middle the upper one.
double upper_median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double deviation(const std::vector<double>& values) {
    const double count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const double value : values)
        squares += (value - mean) * (value - mean);
    return std::sqrt(squares / count);
}

double mean_of(const std::deque<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::string_view name(Ailment ailment) {
    switch (ailment) {
        case Ailment::not_finite:
            return "not finite";
        case Ailment::diverging:
            return "diverging";
        case Ailment::straggler:
            return "straggler";
        case Ailment::stall:
            return "stall";
    }
    return "";
}

std::optional<HealthNotice> LossWatch::step(std::int64_t number, double loss) {
    const auto window = static_cast<std::size_t>(limits_.diverging_window);
    if (!std::isfinite(loss)) return std::nullopt;
    losses_.push_back(loss);
    if (losses_.size() < window) return std::nullopt;
    if (losses_.size() > window) losses_.pop_front();
    means_.push_back(mean_of(losses_));
    if (means_.size() > window) {
        least_ = has_least_ ? std::min(least_, means_.front()) : means_.front();
        has_least_ = true;
        means_.pop_front();
    }
    const double mean = means_.back();
    const bool diverges = has_least_ && mean > limits_.diverging_above * least_;
    if (diverges == diverging_) return std::nullopt;
    diverging_ = diverges;
    HealthNotice notice;
    notice.ailment = Ailment::diverging;
    notice.begins = diverges;
    notice.step = number;
    notice.figures = {{"mean_loss", mean}, {"least_mean_loss", least_}};
    const std::string figures =
        fmt::format("its mean over {} steps is {:.4g}, {:.3g} × the least before, {:.4g}", window,
                    mean, mean / least_, least_);
    notice.message = diverges ? fmt::format(
                                    "the loss diverges: {} (run.health.diverging_above is "
                                    "{:g})",
                                    figures, limits_.diverging_above)
                              : fmt::format("the loss has come back: {}", figures);
    return notice;
}

StragglerWatch::StragglerWatch(std::vector<std::int64_t> peers, std::vector<double> expected_s,
                               std::vector<std::string> hosts)
    : peers_(std::move(peers)),
      expected_s_(std::move(expected_s)),
      hosts_(std::move(hosts)),
      slow_(peers_.size()) {
    ORRERY_CHECK(expected_s_.size() == peers_.size() && hosts_.size() == peers_.size(),
                 "a number, a time and a host for every rank");
    const bool all_expected = std::all_of(expected_s_.begin(), expected_s_.end(),
                                          [](double expected) { return expected > 0; });
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
        groups_[all_expected ? 0 : peers_[rank]].push_back(rank);
    for (auto& [number, ranks] : groups_)
        for (const std::size_t rank : ranks)
            peers_[rank] = number;
    if (!all_expected) std::fill(expected_s_.begin(), expected_s_.end(), 0.0);
}

std::vector<double> StragglerWatch::medians() const {
    std::vector<double> all;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
        std::vector<double> times;
        for (const std::vector<double>& step : recent_)
            times.push_back(step[rank]);
        all.push_back(upper_median(std::move(times)));
    }
    return all;
}

StragglerWatch::Standing StragglerWatch::standing_of(std::size_t rank,
                                                     const std::vector<double>& medians) const {
    Standing standing;
    standing.own_s = medians[rank];
    std::vector<double> others;
    for (const std::size_t other : groups_.at(peers_[rank]))
        if (other != rank)
            others.push_back(expected_s_[rank] > 0
                                 ? medians[other] / expected_s_[other] * expected_s_[rank]
                                 : medians[other]);
    standing.others = others.size();
    if (others.empty()) return standing;
    standing.others_s = upper_median(others);
    standing.deviation_s = deviation(others);
    return standing;
}

HealthNotice StragglerWatch::notice(std::size_t rank, const Standing& standing, bool begins,
                                    std::int64_t step) const {
    HealthNotice notice;
    notice.ailment = Ailment::straggler;
    notice.begins = begins;
    notice.step = step;
    notice.rank = static_cast<plan::Rank>(rank);
    notice.host = hosts_[rank];
    notice.figures = {{"computed_s", standing.own_s}, {"peers_computed_s", standing.others_s}};
    std::string expected;
    if (expected_s_[rank] > 0) {
        notice.figures.emplace_back("expected_s", expected_s_[rank]);
        expected = fmt::format(", {:.4g} s were predicted", expected_s_[rank]);
    }
    const std::string figures = fmt::format(
        "{:.4g} s of a step, the median of {} for the same {:.4g} s{}", standing.own_s,
        standing.others == 1 ? "its peer" : fmt::format("its {} peers", standing.others),
        standing.others_s, expected);
    notice.message = begins
                         ? fmt::format("rank {} on {} computes {:.0f} % longer than its peers: {}",
                                       rank, hosts_[rank], kPercent * standing.excess(), figures)
                         : fmt::format("rank {} on {} has caught up with its peers: {}", rank,
                                       hosts_[rank], figures);
    return notice;
}

std::vector<HealthNotice> StragglerWatch::step(std::int64_t number,
                                               const std::vector<double>& computed_s) {
    if (computed_s.size() != peers_.size()) return {};
    recent_.push_back(computed_s);
    if (recent_.size() > kSteps) recent_.pop_front();
    if (recent_.size() < kSteps) return {};
    const std::vector<double> all = medians();
    std::vector<HealthNotice> notices;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const Standing standing = standing_of(rank, all);
        if (standing.others_s <= 0) continue;
        const double above = standing.own_s - standing.others_s;
        const bool begins =
            !slow_[rank] && standing.excess() > kSlowerBy && above > standing.deviation_s;
        const bool ends = slow_[rank] && standing.excess() < kSlowerBy / 2;
        if (!begins && !ends) continue;
        slow_[rank] = begins;
        notices.push_back(notice(rank, standing, begins, number));
    }
    return notices;
}

void StallLimit::stepped(double time_s) {
    times_.push_back(time_s);
    if (times_.size() > kTimes) times_.pop_front();
}

void StallLimit::saved(double seconds) {
    slowest_save_s_ = std::max(slowest_save_s_, seconds);
}

double StallLimit::seconds() const {
    if (times_.empty()) return limits_.starts_within_s;
    const double steps = kSteps * upper_median({times_.begin(), times_.end()});
    return std::max(limits_.stalled_after_s, steps) + kSaves * slowest_save_s_;
}

}  // namespace orrery::runtime
