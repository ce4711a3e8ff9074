#include "calib/compare/trace_join.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "calib/compare/trace_differences.hpp"
#include "plan/check.hpp"
#include "trace/busy.hpp"
#include "trace/joining.hpp"

namespace orrery::compare {
namespace {

using trace::Trace;
using trace::Track;

constexpr double kPsPerSecond = 1e12;

double seconds_of(const trace::Event& event) {
    return static_cast<double>(event.end - event.start) / kPsPerSecond;
}

double window_of(const Trace& trace) {
    return static_cast<double>(trace.step_end - trace.step_start) / kPsPerSecond;
}

const trace::ProgramOps& program_of(const Trace& trace, const Track& track) {
    return trace.programs[static_cast<std::size_t>(track.program)];
}

// The predicted track of each rank: its own, or in a folded trace that of its class. `ranks` are as
// many as the tracks stand for.
std::vector<const Track*> tracks_of_ranks(const Trace& trace, std::int64_t ranks) {
    std::vector<const Track*> of_rank(static_cast<std::size_t>(ranks), nullptr);
    const auto add = [&](const Track& track, const trace::RankRange& range) {
        for (std::int64_t rank = range.first; rank < range.first + range.count; ++rank) {
            if (rank >= ranks || of_rank[static_cast<std::size_t>(rank)] != nullptr)
                throw PlansDiffer({fmt::format(
                    "predicted rank {}: {}", rank,
                    rank >= ranks ? fmt::format("there are {}", ranks) : "two tracks are of it")});
            of_rank[static_cast<std::size_t>(rank)] = &track;
        }
    };
    for (const Track& track : trace.tracks) {
        add(track, {track.rank, 1});
        for (const trace::RankRange& range : track.alike)
            add(track, range);
    }
    return of_rank;
}

// Sums by kind of one rank.
struct RankSums {
    std::array<TimePair, plan::kOpKinds> time;
    std::array<std::int64_t, plan::kOpKinds> count{};
};

// Every run of one op of a block.
struct Runs {
    std::vector<double> predicted;
    std::vector<double> measured;
    std::set<std::int16_t> layers;
};

class Join {
  public:
    Join(const Trace& predicted, const Trace& measured,
         const std::vector<const Track*>& predicted_of)
        : predicted_(predicted), measured_(measured), runs_(predicted.ops.size()) {
        for (const Track& track : measured.tracks)
            join_rank(*predicted_of[static_cast<std::size_t>(track.rank)], track);
    }

    std::vector<KindComparison> kinds() const {
        std::vector<KindComparison> kinds;
        for (std::size_t kind = 0; kind < plan::kOpKinds; ++kind) {
            KindComparison of;
            of.kind = static_cast<plan::OpKind>(kind);
            std::vector<double> errors;
            for (const RankSums& rank : ranks_) {
                of.count += rank.count[kind];
                of.time.predicted_s += rank.time[kind].predicted_s / ranks();
                of.time.measured_s += rank.time[kind].measured_s / ranks();
                if (const auto error = rank.time[kind].error_pct()) errors.push_back(*error);
            }
            if (of.count == 0) continue;
            if (!errors.empty()) of.rank_error_pct = spread_of(std::move(errors));
            kinds.push_back(of);
        }
        std::stable_sort(kinds.begin(), kinds.end(),
                         [](const KindComparison& a, const KindComparison& b) {
                             return a.time.measured_s > b.time.measured_s;
                         });
        return kinds;
    }

    std::vector<OpComparison> ops() const {
        std::vector<OpComparison> ops;
        double error = 0;
        for (std::size_t op = 0; op < runs_.size(); ++op) {
            const Runs& runs = runs_[op];
            if (runs.measured.empty()) continue;
            OpComparison of;
            of.name = &predicted_.ops[op];
            of.layers.assign(runs.layers.begin(), runs.layers.end());
            of.count = static_cast<std::int64_t>(runs.measured.size());
            for (std::size_t i = 0; i < runs.measured.size(); ++i) {
                of.time.predicted_s += runs.predicted[i] / ranks();
                of.time.measured_s += runs.measured[i] / ranks();
            }
            of.predicted_each_s = spread_of(runs.predicted);
            of.measured_each_s = spread_of(runs.measured);
            of.share_of_error = std::abs(of.time.predicted_s - of.time.measured_s);
            error += of.share_of_error;
            ops.push_back(std::move(of));
        }
        for (OpComparison& of : ops)
            of.share_of_error = error > 0 ? of.share_of_error / error : 0;
        std::stable_sort(ops.begin(), ops.end(), [](const OpComparison& a, const OpComparison& b) {
            return a.share_of_error > b.share_of_error;
        });
        return ops;
    }

  private:
    double ranks() const { return static_cast<double>(ranks_.size()); }

    void join_rank(const Track& predicted, const Track& measured) {
        const trace::ProgramOps& of_predicted = program_of(predicted_, predicted);
        const std::size_t first = trace::first_of_last_step(of_predicted);
        const std::size_t first_measured =
            trace::first_of_last_step(program_of(measured_, measured));
        RankSums& sums = ranks_.emplace_back();
        for (std::size_t i = first; i < predicted.events.size(); ++i) {
            const std::uint32_t op = of_predicted.op[i];
            const double p = seconds_of(predicted.events[i]);
            const double m = seconds_of(measured.events[first_measured + i - first]);
            const auto kind = static_cast<std::size_t>(predicted_.ops[op].kind);
            sums.time[kind].predicted_s += p;
            sums.time[kind].measured_s += m;
            ++sums.count[kind];
            runs_[op].predicted.push_back(p);
            runs_[op].measured.push_back(m);
            if (of_predicted.layer[i] >= 0) runs_[op].layers.insert(of_predicted.layer[i]);
        }
    }

    const Trace& predicted_;
    const Trace& measured_;
    std::vector<RankSums> ranks_;
    std::vector<Runs> runs_;  // by op number
};

std::optional<std::int64_t> largest(const std::vector<std::int64_t>& values) {
    if (values.empty()) return std::nullopt;
    return *std::max_element(values.begin(), values.end());
}

MemoryComparison compare_memory(const trace::RunFacts& predicted, const trace::RunFacts& measured) {
    return {largest(predicted.arena_bytes), largest(measured.high_water_bytes),
            largest(predicted.other_bytes), largest(measured.other_bytes)};
}

template <std::size_t size>
std::array<TimePair, size> pairs_of(const std::array<double, size>& predicted,
                                    const std::array<double, size>& measured) {
    std::array<TimePair, size> pairs;
    for (std::size_t i = 0; i < size; ++i)
        pairs[i] = {predicted[i], measured[i]};
    return pairs;
}

std::array<double, trace::kAccounts> communication_of(const Trace& trace) {
    std::array<double, trace::kAccounts> busy{};
    const auto sums = trace::communication_sums(trace);
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        busy[a] = sums[a].busy_s;
    return busy;
}

void refuse_what_does_not_join(const Trace& predicted, const Trace& measured) {
    std::vector<std::string> differences;
    if (predicted.origin != trace::Origin::predicted)
        differences.emplace_back("the first trace was measured, not predicted");
    if (measured.origin != trace::Origin::measured)
        differences.emplace_back("the second trace was predicted, not measured");
    const auto plans = differences_of(predicted, measured);
    differences.insert(differences.end(), plans.begin(), plans.end());
    if (!differences.empty()) throw PlansDiffer(differences);
}

std::string listed(const std::vector<std::string>& differences) {
    std::string text = "the two do not join:";
    for (const std::string& difference : differences)
        text += "\n  " + difference;
    return text;
}

}  // namespace

PlansDiffer::PlansDiffer(const std::vector<std::string>& differences)
    : std::runtime_error(listed(differences)), differences_(differences) {}

std::optional<double> TimePair::error_pct() const {
    if (measured_s == 0) return std::nullopt;
    return (predicted_s - measured_s) / measured_s * 100;
}

Spread spread_of(std::vector<double> values) {
    ORRERY_CHECK(!values.empty(), "a spread of nothing");
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    const double median =
        values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    return {values.front(), median, values.back()};
}

Comparison compare_traces(const Trace& predicted, const Trace& measured) {
    const trace::RunFacts& facts = measured.facts;
    refuse_what_does_not_join(predicted, measured);
    Comparison comparison;
    comparison.ranks = static_cast<std::int64_t>(measured.tracks.size());
    comparison.backend = facts.backend;
    comparison.correctness_only = facts.ranks_per_device > 1;
    comparison.step = {window_of(predicted), window_of(measured)};
    comparison.steps_measured = facts.step_times_s.size();
    if (!facts.step_times_s.empty()) comparison.step_times_s = spread_of(facts.step_times_s);
    comparison.accounts = pairs_of(trace::mean_accounts(predicted), trace::mean_accounts(measured));
    comparison.busy = pairs_of(trace::mean_busy(predicted), trace::mean_busy(measured));
    comparison.communication = pairs_of(communication_of(predicted), communication_of(measured));
    const Join join(predicted, measured, tracks_of_ranks(predicted, comparison.ranks));
    comparison.kinds = join.kinds();
    comparison.ops = join.ops();
    comparison.memory = compare_memory(predicted.facts, facts);
    comparison.predicted_storage = predicted.facts.storage;
    comparison.measured_storage = facts.storage;
    return comparison;
}

}  // namespace orrery::compare
