#include "sim/jobs/shift_search.hpp"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

namespace orrery::sim {
namespace {

constexpr std::int64_t kSlots = 256;  // of the shortest run
constexpr std::int64_t kRuns = 4;     // of the longest that unlike ones are laid beside
constexpr int kSweeps = 8;            // moving each job once, at most
constexpr double kLikeAnother = 1e-9;

using Shifts = std::vector<std::int64_t>;  // by job, slots

std::int64_t turned(std::int64_t slot, std::int64_t slots) {
    return ((slot % slots) + slots) % slots;
}

// Jobs' loads on the links that they could fill together, turned against each other.
class Circles {
  public:
    Circles(LoadsAlone alone, const std::vector<Job>& jobs) : alone_(std::move(alone)) {
        if (alone_.links.empty()) return;
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            slots_.push_back(static_cast<std::int64_t>(alone_.links.front().loads[j].size()));
            given_.push_back(from_seconds(jobs[j].start_s) / alone_.slot);
        }
        horizon_ = *std::max_element(slots_.begin(), slots_.end());
        if (std::adjacent_find(slots_.begin(), slots_.end(), std::not_equal_to<>()) != slots_.end())
            horizon_ *= kRuns;
        keep_links_that_fill();
    }

    std::size_t jobs() const { return slots_.size(); }
    std::int64_t slots(std::size_t job) const { return slots_[job]; }  // of its run
    Picoseconds slot() const { return alone_.slot; }
    const LoadsAlone& alone() const { return alone_; }
    bool any_filled() const { return !alone_.links.empty(); }

    // Of each job, with these shifts on top of the starts given.
    std::vector<double> slowdowns(const Shifts& shifts) const {
        std::vector<double> worst(jobs(), 0);
        for (const LoadsAlone::Link& link : alone_.links) {
            const std::vector<double> lost = lost_on(link, shifts);
            for (std::size_t j = 0; j < jobs(); ++j)
                worst[j] = std::max(worst[j], lost[j]);
        }
        for (double& lost : worst)
            lost = 1 + lost / static_cast<double>(horizon_);
        return worst;
    }

    // Whether both are on a link that may be filled.
    bool meet(std::size_t a, std::size_t b) const {
        const auto passes = [](const std::vector<double>& loads) {
            return *std::max_element(loads.begin(), loads.end()) > 0;
        };
        return std::any_of(alone_.links.begin(), alone_.links.end(), [&](const auto& link) {
            return passes(link.loads[a]) && passes(link.loads[b]);
        });
    }

  private:
    // Slots, by job. A link carries as much as any one job asks of it
    // (sim/engine/shared_links.hpp). What is asked beyond keeps it busy longer, for all who share
    // it alike; a job that asks for less than its part waits less.
    std::vector<double> lost_on(const LoadsAlone::Link& link, const Shifts& shifts) const {
        std::vector<double> lost(jobs(), 0), own(jobs());
        std::vector<std::size_t> slot;
        for (std::size_t j = 0; j < jobs(); ++j)
            slot.push_back(static_cast<std::size_t>(turned(-given_[j] - shifts[j], slots_[j])));
        for (std::int64_t at = 0; at < horizon_; ++at) {
            double all = 0, most = link.kBps;
            int here = 0;
            for (std::size_t j = 0; j < jobs(); ++j) {
                own[j] = link.loads[j][slot[j]];
                if (++slot[j] == link.loads[j].size()) slot[j] = 0;
                all += own[j];
                most = std::max(most, own[j]);
                if (own[j] > 0) ++here;
            }
            if (all <= most) continue;
            for (std::size_t j = 0; j < jobs(); ++j)
                lost[j] += (all - most) / most * std::min(1.0, here * own[j] / all);
        }
        return lost;
    }

    // Links on which jobs fare alike are one.
    void keep_links_that_fill() {
        std::vector<LoadsAlone::Link> kept;
        for (LoadsAlone::Link& link : alone_.links) {
            double all = 0, most = link.kBps;
            for (const auto& loads : link.loads) {
                const double own = *std::max_element(loads.begin(), loads.end());
                all += own;
                most = std::max(most, own);
            }
            const bool again = std::any_of(kept.begin(), kept.end(), [&](const auto& other) {
                return other.kBps == link.kBps && other.loads == link.loads;
            });
            if (all > most && !again) kept.push_back(std::move(link));
        }
        alone_.links = std::move(kept);
    }

    LoadsAlone alone_;
    std::vector<std::int64_t> slots_;  // of a run, by job
    std::vector<std::int64_t> given_;  // its start
    std::int64_t horizon_ = 0;
};

class ShiftSearch {
  public:
    ShiftSearch(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                const std::vector<NodeList>& nodes, const ShiftSearchOptions& options)
        : cluster_(cluster),
          jobs_(jobs),
          nodes_(nodes),
          options_(options),
          circles_(loads_alone(cluster, jobs, nodes, kSlots), jobs) {}

    ShiftSearchResult run() {
        const Shifts none(jobs_.size(), 0);
        consider("as given", none);
        if (circles_.any_filled()) {
            const Shifts spread = spread_evenly(), packed = packed_together();
            consider("spread evenly", spread);
            consider("packed", packed);
            consider("moved one by one", moved(none));
            consider("spread evenly, then moved", moved(spread));
            consider("packed, then moved", moved(packed));
        }
        return simulate_best();
    }

  private:
    double score(const Shifts& shifts) {
        if (!circles_.any_filled()) return static_cast<double>(jobs_.size());
        ++estimated_;
        return score_of(options_.objective, circles_.slowdowns(shifts));
    }

    void consider(const std::string& how, Shifts shifts) {
        if (!seen_.insert(shifts).second) return;
        ShiftCandidate candidate{how, {}, score(shifts)};
        for (const std::int64_t shift : shifts)
            candidate.later_s.push_back(to_seconds(shift * circles_.slot()));
        candidates_.push_back(std::move(candidate));
    }

    Shifts spread_evenly() const {
        Shifts shifts;
        for (std::size_t j = 0; j < jobs_.size(); ++j)
            shifts.push_back(circles_.slots(j) * static_cast<std::int64_t>(j) /
                             static_cast<std::int64_t>(jobs_.size()));
        return shifts;
    }

    // Each as early as it costs least beside those before it.
    Shifts packed_together() {
        Shifts shifts(jobs_.size(), 0);
        for (std::size_t j = 1; j < jobs_.size(); ++j) {
            const std::vector<double> scores = scores_of(shifts, j);
            const double least = *std::min_element(scores.begin(), scores.end());
            shifts[j] = std::find_if(scores.begin(), scores.end(),
                                     [&](double score) { return score <= least + kLikeAnother; }) -
                        scores.begin();
        }
        return shifts;
    }

    std::vector<double> scores_of(Shifts shifts, std::size_t job) {
        std::vector<double> scores;
        for (shifts[job] = 0; shifts[job] < circles_.slots(job); ++shifts[job])
            scores.push_back(score(shifts));
        return scores;
    }

    // One job after another but the first, as only differences count, to the middle of the widest
    // stretch where all lose least, while that helps: there a little drift does no harm.
    Shifts moved(Shifts shifts) {
        double best = score(shifts);
        for (int sweep = 0; sweep < kSweeps; ++sweep) {
            const double before = best;
            for (std::size_t j = 1; j < jobs_.size(); ++j) {
                const std::vector<double> scores = scores_of(shifts, j);
                const double least = *std::min_element(scores.begin(), scores.end());
                if (least >= best - kLikeAnother) continue;
                shifts[j] = middle_of_least(scores, least);
                best = scores[static_cast<std::size_t>(shifts[j])];
            }
            if (best >= before - kLikeAnother) break;
        }
        return shifts;
    }

    static std::int64_t middle_of_least(const std::vector<double>& scores, double least) {
        const auto count = static_cast<std::int64_t>(scores.size());
        const auto is_least = [&](std::int64_t at) {
            return scores[static_cast<std::size_t>(turned(at, count))] <= least + kLikeAnother;
        };
        std::int64_t widest = 0, middle = 0;
        for (std::int64_t at = 0; at < count; ++at) {
            if (!is_least(at) || is_least(at - 1)) continue;
            std::int64_t width = 1;
            while (is_least(at + width))
                ++width;
            if (width <= widest) continue;
            widest = width;
            middle = turned(at + width / 2, count);
        }
        return middle;
    }

    ShiftSearchResult simulate_best() {
        ShiftSearchResult result;
        result.estimated = estimated_;
        result.drifts = drifts();
        std::stable_sort(candidates_.begin() + 1, candidates_.end(),
                         [](const auto& a, const auto& b) { return a.estimate < b.estimate; });
        // The first is what was given, what others are held against.
        candidates_.resize(
            std::min(candidates_.size(), static_cast<std::size_t>(options_.simulated) + 1));
        const std::size_t first = std::min<std::size_t>(2, candidates_.size());
        simulate(0, first, result.simulated);
        if (!is_as_alone(result.simulated.back()))
            simulate(first, candidates_.size(), result.simulated);
        std::stable_sort(result.simulated.begin(), result.simulated.end(),
                         [](const auto& a, const auto& b) { return a.score < b.score; });
        return result;
    }

    void simulate(std::size_t from, std::size_t to, std::vector<SimulatedShifts>& simulated) const {
        simulated.resize(to);
        oneapi::tbb::parallel_for(from, to, [&](std::size_t i) {
            SimulatedShifts& one = simulated[i];
            one.candidate = candidates_[i];
            std::vector<Job> shifted = jobs_;
            for (std::size_t j = 0; j < jobs_.size(); ++j)
                shifted[j].start_s += one.candidate.later_s[j];
            one.outcome = run_jobs(cluster_, shifted, nodes_, options_.run);
            if (!one.outcome.stuck.empty()) return;
            for (std::size_t j = 0; j < jobs_.size(); ++j) {
                const JobOutcome& job = one.outcome.jobs[j];
                one.slowdowns.push_back(options_.against_s.empty()
                                            ? job.slowdown()
                                            : job.slowdown_against(options_.against_s[j]));
            }
            one.score = score_of(options_.objective, one.slowdowns);
        });
    }

    // Then no other can be better.
    static bool is_as_alone(const SimulatedShifts& one) {
        return std::all_of(one.outcome.jobs.begin(), one.outcome.jobs.end(),
                           [](const JobOutcome& job) { return job.slowdown() <= 1; });
    }

    std::vector<PhaseDrift> drifts() const {
        std::vector<PhaseDrift> all;
        if (!circles_.any_filled()) return all;
        const auto run = [&](std::size_t j) { return circles_.alone().steps[j].run; };
        for (std::size_t a = 0; a < jobs_.size(); ++a)
            for (std::size_t b = a + 1; b < jobs_.size(); ++b) {
                const std::size_t slow = run(a) >= run(b) ? a : b, fast = slow == a ? b : a;
                // So many whole runs of the fast one are nearest to one of the slow one.
                const Picoseconds times = (run(slow) + run(fast) / 2) / run(fast);
                const Picoseconds drift = std::abs(run(slow) - times * run(fast));
                if (drift == 0 || !circles_.meet(a, b)) continue;
                all.push_back({static_cast<std::int32_t>(slow), static_cast<std::int32_t>(fast),
                               to_seconds(drift),
                               static_cast<double>(run(fast)) / static_cast<double>(drift)});
            }
        return all;
    }

    const plan::Cluster& cluster_;
    const std::vector<Job>& jobs_;
    const std::vector<NodeList>& nodes_;
    const ShiftSearchOptions& options_;
    Circles circles_;
    std::vector<ShiftCandidate> candidates_;
    std::set<Shifts> seen_;
    std::int64_t estimated_ = 0;
};

}  // namespace

const SimulatedShifts& ShiftSearchResult::given() const {
    return *std::find_if(simulated.begin(), simulated.end(), [](const SimulatedShifts& one) {
        return std::all_of(one.candidate.later_s.begin(), one.candidate.later_s.end(),
                           [](double later_s) { return later_s == 0; });
    });
}

ShiftSearchResult search_shifts(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                                const std::vector<NodeList>& nodes,
                                const ShiftSearchOptions& options) {
    return ShiftSearch(cluster, jobs, nodes, options).run();
}

}  // namespace orrery::sim
