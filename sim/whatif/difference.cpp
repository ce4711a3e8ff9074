#include "sim/whatif/difference.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

using BySort = std::array<std::array<double, plan::kGroupKinds>, plan::kOpKinds>;

BySort busy_seconds(const trace::Trace& trace) {
    BySort busy{};
    double ranks = 0;
    for (const trace::Track& track : trace.tracks) {
        const double weight = static_cast<double>(track.represents());
        ranks += weight;
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const trace::Event event = track.events[i];
            if (event.start < trace.step_start || event.start >= trace.step_end) continue;
            const trace::OpName& op = trace.op_of(track, i);
            busy[static_cast<std::size_t>(op.kind)][static_cast<std::size_t>(op.group)] +=
                weight * to_seconds(event.end - event.start);
        }
    }
    for (auto& groups : busy)
        for (double& seconds : groups)
            seconds /= ranks;
    return busy;
}

double size_of(double value) {
    return value < 0 ? -value : value;
}

}  // namespace

trace::Accounts whole_mean_accounts(const trace::Trace& trace, const trace::StepSums& sums) {
    std::int64_t ranks = 0;
    for (const trace::Track& track : trace.tracks)
        ranks += track.represents();
    ORRERY_CHECK(ranks > 0, "a trace of nobody");
    // Quotients and remainders by the number of ranks apart, so that no product is too large.
    trace::Accounts mean{};
    trace::Accounts remainders{};
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        const trace::Track& track = trace.tracks[t];
        const trace::Accounts& accounts = sums.accounts[t];
        for (std::size_t a = 0; a < trace::kAccounts; ++a) {
            mean[a] += track.represents() * (accounts[a] / ranks);
            remainders[a] += track.represents() * (accounts[a] % ranks);
        }
    }
    Picoseconds left = trace.step_end - trace.step_start;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        mean[a] += remainders[a] / ranks;
        remainders[a] %= ranks;
        left -= mean[a];
    }
    for (; left > 0; --left) {
        const auto most = std::max_element(remainders.begin(), remainders.end());
        ++mean[static_cast<std::size_t>(most - remainders.begin())];
        *most = -1;
    }
    return mean;
}

Difference difference_of(const Prediction& a, const Prediction& b) {
    Difference difference;
    difference.step_a = a.trace.step_end - a.trace.step_start;
    difference.step_b = b.trace.step_end - b.trace.step_start;
    difference.accounts_a = whole_mean_accounts(a.trace, a.sums);
    difference.accounts_b = whole_mean_accounts(b.trace, b.sums);
    const BySort busy_a = busy_seconds(a.trace);
    const BySort busy_b = busy_seconds(b.trace);
    for (std::size_t kind = 0; kind < plan::kOpKinds; ++kind)
        for (std::size_t group = 0; group < plan::kGroupKinds; ++group)
            if (busy_a[kind][group] > 0 || busy_b[kind][group] > 0)
                difference.busy.push_back({static_cast<plan::OpKind>(kind),
                                           static_cast<plan::GroupKind>(group), busy_a[kind][group],
                                           busy_b[kind][group]});
    std::stable_sort(difference.busy.begin(), difference.busy.end(),
                     [](const BusyDifference& one, const BusyDifference& other) {
                         return size_of(one.b_s - one.a_s) > size_of(other.b_s - other.a_s);
                     });
    return difference;
}

}  // namespace orrery::sim
