#include "calib/compare/rank_order.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace orrery::compare {
namespace {

struct Times {
    double predicted = 0, measured = 0;  // of a sequence
};

bool are_equal(double a, double b) {
    return std::max(a, b) <= (1 + kEqualTimes) * std::min(a, b);
}

void judge(Contest& contest, const std::vector<Times>& runs) {
    double agreement = 0;
    std::size_t predicted_apart = 0;
    for (std::size_t i = 0; i < runs.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const bool apart = !are_equal(runs[i].measured, runs[j].measured);
            if (runs[i].predicted != runs[j].predicted) ++predicted_apart;
            if (!apart) continue;
            ++contest.pairs;
            if (runs[i].predicted == runs[j].predicted) continue;
            const bool alike =
                (runs[i].predicted < runs[j].predicted) == (runs[i].measured < runs[j].measured);
            agreement += alike ? 1 : -1;
        }
    const double both = static_cast<double>(contest.pairs) * static_cast<double>(predicted_apart);
    contest.tau_b = both > 0 ? agreement / std::sqrt(both) : 0;
    const auto first =
        std::min_element(runs.begin(), runs.end(), [](const Times& a, const Times& b) {
            return std::pair(a.predicted, a.measured) < std::pair(b.predicted, b.measured);
        });
    const auto best =
        std::min_element(runs.begin(), runs.end(),
                         [](const Times& a, const Times& b) { return a.measured < b.measured; });
    contest.regret = first->measured / best->measured - 1;
}

}  // namespace

std::vector<Contest> contests_of(const Validation& validation) {
    std::map<std::pair<std::string, std::string>, std::vector<Times>> all;
    for (const ValidatedRow& row : validation.rows) {
        if (!row.measured_s || !row.mistrusted.empty() || !row.assumed.empty()) continue;
        if (row.contest.empty()) continue;
        const auto sequences = static_cast<double>(row.global_batch);
        all[{row.group, row.contest}].push_back(
            {row.predicted_s / sequences, *row.measured_s / sequences});
    }
    std::vector<Contest> contests;
    for (const auto& [of, runs] : all) {
        if (runs.size() < kLeastContest) continue;
        Contest contest{of.first, of.second, runs.size()};
        judge(contest, runs);
        if (contest.pairs > 0) contests.push_back(std::move(contest));
    }
    return contests;
}

RankOrder mean_of(const std::vector<Contest>& contests) {
    RankOrder mean;
    for (const Contest& contest : contests) {
        mean.mean_tau_b += contest.tau_b / static_cast<double>(contests.size());
        mean.mean_regret += contest.regret / static_cast<double>(contests.size());
    }
    return mean;
}

std::string rank_order_markdown(const Validation& validation) {
    const std::vector<Contest> contests = contests_of(validation);
    if (contests.empty()) return "";
    std::string text = fmt::format(
        "## Which layout is fastest?\n\n"
        "Runs of one source, model, software and cluster, where there are at least {}, in the "
        "order "
        "of their predicted and of their measured time for a sequence: Kendall's τ-b (1: the same "
        "order, 0: none; times closer than {:.0f} % count as equal), and how much longer than the "
        "fastest the run took that is predicted to be fastest.\n\n"
        "| source | model and cluster | runs | τ-b | our first choice "
        "|\n|---|---|---:|---:|---:|\n",
        kLeastContest, 100 * kEqualTimes);
    for (const Contest& contest : contests)
        text += fmt::format("| {} | {} | {} | {:.2f} | {:+.1f} % |\n", contest.group, contest.what,
                            contest.runs, contest.tau_b, 100 * contest.regret);
    const RankOrder mean = mean_of(contests);
    return text + fmt::format("\nMean of {}: τ-b {:.2f}, first choice {:+.1f} %.\n",
                              contests.size(), mean.mean_tau_b, 100 * mean.mean_regret);
}

}  // namespace orrery::compare
