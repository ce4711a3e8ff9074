#include "sim/jobs/run_jobs.hpp"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>

#include "plan/check.hpp"
#include "sim/engine/drawn_cluster.hpp"
#include "sim/jobs/job_links.hpp"
#include "sim/jobs/running_job.hpp"

namespace orrery::sim {
namespace {

// With the fabric for itself it goes on as it began.
SharedStep as_alone(const StepRecord& alone, int steps) {
    SharedStep step;
    step.mean_s = step.least_s = step.most_s = to_seconds(alone.length);
    step.exposed_s = alone.exposed_s();
    step.steps = steps;
    return step;
}

// Then no link tells more of them apart.
bool are_all_ranks_simulated(const plan::Cluster& drawn, const RunJobsOptions& options) {
    return options.unfolded || drawn.jitter.any();
}

// The event loop over all jobs, up to the end of the window.
class Together {
  public:
    // `telling`: by link, that ranks are parted by it.
    Together(std::vector<std::unique_ptr<RunningJob>>& jobs, SharedLinks& links,
             const std::vector<bool>& telling, const RunJobsOptions& options, bool all_ranks)
        : jobs_(jobs), links_(links), telling_(telling), options_(options), all_ranks_(all_ranks) {}

    // Returns the job that is stuck, or −1.
    std::int32_t run() {
        for (const auto& job : jobs_)
            next_.push_back(job->next());
        moved_.resize(jobs_.size());
        while (!jobs_.empty() && !enough_) {
            const Picoseconds now = *std::min_element(next_.begin(), next_.end());
            ORRERY_CHECK(now >= window_end, "time runs backwards");
            if (const std::int32_t stuck = run_moment(now); stuck >= 0) return stuck;
            window_end = now;
            if (options_.stop != nullptr && ++looks_ % 4096 == 0 &&
                options_.stop->load(std::memory_order_relaxed))
                throw Stopped();
        }
        return -1;
    }

    // Of a job's steps those that began within the window.
    std::size_t first_counted(const RunningJob& job) const {
        const auto first = std::lower_bound(job.begins.begin(), job.begins.end(), window_start);
        return static_cast<std::size_t>(first - job.begins.begin());
    }

    Picoseconds window_start = -1;
    Picoseconds window_end = 0;

  private:
    std::int32_t run_moment(Picoseconds now) {
        links_.move_to(now);
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            moved_[i] = next_[i] == now;
            if (!moved_[i]) continue;
            jobs_[i]->run_moment(now);
        }
        do
            settle();
        while (anyone_goes_live(now));
        bool step_ended = false;
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            if (!moved_[i]) continue;
            jobs_[i]->grant(now);
            if (jobs_[i]->run_is_over()) {
                if (!jobs_[i]->end_run()) return jobs_[i]->number();
                step_ended = true;
            }
            next_[i] = jobs_[i]->next();
        }
        if (step_ended) note_step(now);
        return -1;
    }

    void settle() {
        for (const SharedLinks::Limit& limit : links_.settle()) {
            const std::size_t i = of_number(limit.job);
            jobs_[i]->limit(limit.flow, limit.rate);
            moved_[i] = true;
        }
    }

    bool anyone_goes_live(Picoseconds now) {
        bool again = false;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (jobs_[i]->go_live_if_crowded(now)) moved_[i] = again = true;
        return again;
    }

    void note_step(Picoseconds now) {
        if (window_start < 0 && warmed_up()) {
            window_start = now;
            links_.begin_sums();
        }
        // Where the run is to be repeated, a step of each has shown enough.
        enough_ = enough(options_.steps) ||
                  (!options_.coarse && !all_ranks_ && enough(1) && others_crowded());
    }

    bool others_crowded() const {
        for (std::size_t l = 0; l < telling_.size(); ++l)
            if (!telling_[l] && links_.was_crowded(static_cast<std::int32_t>(l))) return true;
        return false;
    }

    bool warmed_up() const {
        return std::all_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
            return job->records.size() >= static_cast<std::size_t>(options_.warm_up);
        });
    }
    bool enough(int steps) const {
        if (window_start < 0) return false;
        return std::all_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
            return job->records.size() - first_counted(*job) >= static_cast<std::size_t>(steps);
        });
    }

    std::size_t of_number(std::int32_t number) const {
        const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                        [&](const auto& job) { return job->number() == number; });
        return static_cast<std::size_t>(found - jobs_.begin());
    }

    std::vector<std::unique_ptr<RunningJob>>& jobs_;
    SharedLinks& links_;
    const std::vector<bool>& telling_;
    const RunJobsOptions& options_;
    const bool all_ranks_;           // are parted from each other
    std::vector<Picoseconds> next_;  // by job
    std::vector<bool> moved_;        // in this moment
    bool enough_ = false;
    std::uint64_t looks_ = 0;
};

double mean_s(const std::vector<StepRecord>& records, std::size_t from, std::size_t to) {
    Picoseconds sum = 0;
    for (std::size_t i = from; i < to; ++i)
        sum += records[i].length;
    return to_seconds(sum) / static_cast<double>(to - from);
}

SharedStep shared_step(const std::vector<StepRecord>& records, std::size_t first) {
    SharedStep step;
    const std::size_t count = records.size() - first;
    step.steps = static_cast<std::int64_t>(count);
    step.mean_s = mean_s(records, first, records.size());
    step.least_s = step.most_s = to_seconds(records[first].length);
    double squares = 0;
    for (std::size_t i = first; i < records.size(); ++i) {
        const double length = to_seconds(records[i].length);
        step.least_s = std::min(step.least_s, length);
        step.most_s = std::max(step.most_s, length);
        squares += (length - step.mean_s) * (length - step.mean_s);
        step.exposed_s += records[i].exposed_s() / static_cast<double>(count);
    }
    step.deviation_s = std::sqrt(squares / static_cast<double>(count));
    if (count > 1) {
        const double before = mean_s(records, first, first + count / 2);
        step.drift = mean_s(records, first + count / 2, records.size()) / before - 1;
    }
    return step;
}

std::int64_t leaves_of(const plan::Cluster& cluster, const NodeList& nodes) {
    const auto& levels = cluster.inter_node.fabric.levels;
    if (levels.empty()) return 0;
    std::set<std::int64_t> leaves;
    for (const std::int64_t node : nodes)
        leaves.insert(node / levels.front().nodes);
    return static_cast<std::int64_t>(leaves.size());
}

LinkOutcome link_outcome(const JobLinks::SharedLink& link, const LinkSums& sums, double window_s) {
    LinkOutcome out;
    out.link = link.link;
    out.GBps = static_cast<double>(link.kBps) * 1e-6;
    out.jobs = link.jobs;
    double all = 0;
    for (const std::int32_t job : link.jobs) {
        out.bytes.push_back(sums.bytes[static_cast<std::size_t>(job)]);
        out.held_s.push_back(to_seconds(sums.held[static_cast<std::size_t>(job)]));
        all += out.bytes.back();
    }
    if (window_s <= 0) return out;
    out.carried = all / (static_cast<double>(link.kBps) * 1e3 * window_s);
    out.busy = to_seconds(sums.busy) / window_s;
    out.met = to_seconds(sums.met) / window_s;
    out.full = to_seconds(sums.full) / window_s;
    return out;
}

std::vector<JobTraffic> traffic_of(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                                   const std::vector<NodeList>& nodes) {
    ORRERY_CHECK(!jobs.empty() && jobs.size() == nodes.size(), "nodes for each job");
    std::vector<JobTraffic> traffic;
    traffic.reserve(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        ORRERY_CHECK(static_cast<std::int64_t>(nodes[j].size()) == jobs[j].nodes() &&
                         std::is_sorted(nodes[j].begin(), nodes[j].end()),
                     "as many nodes as a job has, ascending");
        traffic.emplace_back(jobs[j].plan, cluster, nodes[j]);
    }
    return traffic;
}

using RunningJobs = std::vector<std::unique_ptr<RunningJob>>;

// All jobs of a cluster that is drawn, on their nodes.
struct PlacedJobs {
    const plan::Cluster& cluster;
    const std::vector<Job>& jobs;
    const std::vector<NodeList>& nodes;
    const std::vector<JobTraffic>& traffic;
};

// These of them; `colours_of` a job: of its ranks.
template <typename ColoursOf>
RunningJobs running_jobs(const std::vector<std::int32_t>& numbers, const PlacedJobs& placed,
                         const ColoursOf& colours_of) {
    RunningJobs running(numbers.size());
    oneapi::tbb::parallel_for(std::size_t{0}, numbers.size(), [&](std::size_t i) {
        const auto j = static_cast<std::size_t>(numbers[i]);
        running[i] = std::make_unique<RunningJob>(
            placed.jobs[j], JobOnNodes(placed.cluster, placed.jobs[j], placed.nodes[j]), numbers[i],
            RankPlaces{placed.nodes[j], colours_of(placed.traffic[j])});
    });
    return running;
}

std::vector<std::int64_t> node_kBps_of(const RunningJobs& running) {
    std::vector<std::int64_t> all;
    for (const auto& job : running)
        all.push_back(job->machine().input.node_network_kBps);
    return all;
}

using Colours = std::vector<std::int64_t>;

Colours folded(const JobTraffic& /*of*/) {
    return {};
}
Colours unfolded(const JobTraffic& of) {
    Colours colours(of.devices().size());
    std::iota(colours.begin(), colours.end(), 0);
    return colours;
}

std::vector<std::int32_t> all_of(const std::vector<Job>& jobs) {
    std::vector<std::int32_t> numbers(jobs.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

// All on new links.
std::unique_ptr<SharedLinks> joined(const RunningJobs& running,
                                    const std::vector<JobTraffic>& traffic, const JobLinks& links,
                                    bool in_full) {
    auto shared = std::make_unique<SharedLinks>(links.capacities(),
                                                static_cast<std::int32_t>(traffic.size()));
    for (const auto& job : running)
        job->join(traffic[static_cast<std::size_t>(job->number())], links, *shared, in_full);
    return shared;
}

std::vector<std::int32_t> that_meet(const JobLinks& links) {
    std::set<std::int32_t> meet;
    for (const JobLinks::SharedLink& link : links.links())
        meet.insert(link.jobs.begin(), link.jobs.end());
    return {meet.begin(), meet.end()};
}

// The same steps, with the fabric for itself.
std::vector<StepRecord> alone_steps(const RunningJob& job, std::size_t first) {
    std::vector<StepRecord> steps;
    for (std::size_t step = first; step < job.records.size(); ++step)
        steps.push_back(job.alone(step));
    return steps;
}

void compare_with(const std::vector<StepRecord>& alone, JobOutcome& of) {
    const SharedStep steps = shared_step(alone, 0);
    of.alone_mean_s = steps.mean_s;
    of.alone_exposed_s = steps.exposed_s;
}

// All jobs that may meet, over links of which ranks are parted by those that are `telling`. Whether
// others kept flows back, which are then telling too.
bool run_together(RunningJobs& running, SharedLinks& shared, const JobLinks& links,
                  const std::vector<Job>& jobs, const RunJobsOptions& options, bool all_ranks,
                  std::vector<bool>& telling, JobsOutcome& outcome) {
    Together together(running, shared, telling, options, all_ranks);
    if (const std::int32_t job = together.run(); job >= 0) {
        outcome.stuck = jobs[static_cast<std::size_t>(job)].name;
        return false;
    }
    outcome.start_s = to_seconds(std::max<Picoseconds>(0, together.window_start));
    outcome.window_s = to_seconds(together.window_end) - outcome.start_s;
    for (const auto& job : running) {
        JobOutcome& of = outcome.jobs[static_cast<std::size_t>(job->number())];
        outcome.op_events += job->take_events();
        of.tracks = static_cast<std::int64_t>(job->machine().input.tracks.size());
        const std::size_t first = together.first_counted(*job);
        of.shared = shared_step(job->records, first);
        if (job->draws_each_step()) compare_with(alone_steps(*job, first), of);
    }
    const std::vector<LinkSums> sums = shared.sums();
    outcome.links.clear();
    bool found = false;
    for (std::size_t l = 0; l < links.links().size(); ++l) {
        outcome.links.push_back(link_outcome(links.links()[l], sums[l], outcome.window_s));
        if (telling[l] || !shared.was_crowded(static_cast<std::int32_t>(l))) continue;
        telling[l] = found = true;
    }
    return found;
}

// `run`: a step of it, or some; whether it was not stuck. Returns a job that is.
template <typename Run>
std::string run_each(const std::vector<Job>& jobs, RunningJobs& running, const Run& run) {
    std::vector<std::uint8_t> done(running.size());
    oneapi::tbb::parallel_for(std::size_t{0}, running.size(),
                              [&](std::size_t i) { done[i] = run(*running[i]) ? 1 : 0; });
    const auto stuck = std::find(done.begin(), done.end(), 0);
    if (stuck == done.end()) return "";
    const auto i = static_cast<std::size_t>(stuck - done.begin());
    return jobs[static_cast<std::size_t>(running[i]->number())].name;
}

std::string run_each_alone(const std::vector<Job>& jobs, RunningJobs& running) {
    return run_each(jobs, running, [](RunningJob& job) { return job.run_alone(); });
}

// Those that meet nobody, as many steps as are asked for.
std::string finish_apart(const std::vector<Job>& jobs, RunningJobs running, int steps,
                         JobsOutcome& outcome) {
    const auto count = static_cast<std::size_t>(steps);
    std::string stuck =
        run_each(jobs, running, [&](RunningJob& job) { return job.run_alone_for(count); });
    for (std::size_t i = 0; stuck.empty() && i < running.size(); ++i) {
        if (!running[i]->draws_each_step()) continue;
        std::vector<StepRecord> alone;
        for (std::size_t step = 0; step < count; ++step)
            alone.push_back(running[i]->alone(step));
        JobOutcome& of = outcome.jobs[static_cast<std::size_t>(running[i]->number())];
        of.shared = shared_step(alone, 0);
        compare_with(alone, of);
        outcome.op_events += running[i]->take_events();
    }
    return stuck;
}

}  // namespace

double JobOutcome::slowdown_against(double step_s) const {
    const double alone_s = to_seconds(alone.length);
    return alone_mean_s == alone_s ? shared.mean_s / step_s : slowdown() * alone_s / step_s;
}

double JobsOutcome::fairness() const {
    double sum = 0, squares = 0;
    for (const JobOutcome& job : jobs) {
        const double speed = 1 / job.slowdown();
        sum += speed;
        squares += speed * speed;
    }
    return sum * sum / (static_cast<double>(jobs.size()) * squares);
}

double score_of(JobsObjective objective, const std::vector<double>& slowdowns) {
    return objective == JobsObjective::worst
               ? *std::max_element(slowdowns.begin(), slowdowns.end())
               : std::accumulate(slowdowns.begin(), slowdowns.end(), 0.0);
}

AloneStep run_alone(const plan::Cluster& shared, const Job& job, const NodeList& nodes) {
    const plan::Cluster cluster = drawn_cluster(shared);
    std::vector<JobTraffic> traffic;
    traffic.emplace_back(job.plan, cluster, nodes);
    const RankPlaces places{nodes, {}};
    const JobOnNodes on_nodes(cluster, job, nodes);
    Machine machine = build_machine(job.plan, on_nodes.scenario(), on_nodes.profile(), false,
                                    nullptr, nullptr, &places);
    const JobLinks links(traffic, cluster, {machine.input.node_network_kBps}, JobLinks::Keep::all);
    SharedLinks passed(links.capacities(), 1);
    std::vector<std::vector<NetworkUse>> uses;
    links.lay_paths(traffic.front(), machine, passed, uses);
    const trace::Trace empty = trace_to_fill(job.plan, machine, "");
    StepRecorder recorder(machine, empty);
    EngineInTurns engine(machine.input);
    engine.begin(recorder);
    engine.flows().join(passed, 0);
    for (;;) {
        engine.ask();
        passed.settle();
        engine.grant(passed.now());
        if (engine.over()) break;
        passed.move_to(engine.next_time());
        engine.run_moment();
    }
    AloneStep alone;
    alone.stuck = !engine.finish().stuck.empty();
    if (alone.stuck) return alone;
    alone.step = recorder.finish();
    const std::vector<LinkSums> sums = passed.sums();
    const auto run = static_cast<double>(alone.step.run);
    for (std::size_t l = 0; l < sums.size(); ++l) {
        const double busy_s = to_seconds(sums[l].busy);
        if (busy_s > 0)
            alone.links[links.links()[l].link] = {
                static_cast<double>(sums[l].busy) / run,
                sums[l].bytes[0] / (busy_s * static_cast<double>(links.links()[l].kBps) * 1e3)};
    }
    return alone;
}

LoadsAlone loads_alone(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                       const std::vector<NodeList>& nodes, std::int64_t slots) {
    const plan::Cluster drawn = drawn_cluster(cluster);
    const std::vector<JobTraffic> traffic = traffic_of(drawn, jobs, nodes);
    RunningJobs running = running_jobs(all_of(jobs), {drawn, jobs, nodes, traffic}, folded);
    const JobLinks links(traffic, drawn, node_kBps_of(running));
    const std::unique_ptr<SharedLinks> shared = joined(running, traffic, links, false);
    LoadsAlone alone;
    alone.stuck = run_each_alone(jobs, running);
    if (!alone.stuck.empty()) return alone;
    for (const auto& job : running) {
        alone.steps.push_back(job->alone());
        const Picoseconds slot = std::max<Picoseconds>(1, job->alone().run / slots);
        if (alone.slot == 0 || slot < alone.slot) alone.slot = slot;
    }
    for (const JobLinks::SharedLink& link : links.links())
        alone.links.push_back({static_cast<double>(link.kBps), {}});
    for (const auto& job : running) {
        // One after another, so that nobody meets.
        const auto by_link = job->loads(alone.slot);
        for (std::size_t l = 0; l < by_link.size(); ++l)
            alone.links[l].loads.push_back(by_link[l]);
    }
    return alone;
}

JobsOutcome run_jobs(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                     const std::vector<NodeList>& nodes, const RunJobsOptions& options) {
    const plan::Cluster drawn = drawn_cluster(cluster);
    const std::vector<JobTraffic> traffic = traffic_of(drawn, jobs, nodes);
    const PlacedJobs placed = {drawn, jobs, nodes, traffic};
    RunningJobs running = running_jobs(all_of(jobs), placed, folded);
    const JobLinks links(traffic, drawn, node_kBps_of(running));
    std::unique_ptr<SharedLinks> shared = joined(running, traffic, links, options.in_full);
    JobsOutcome outcome;
    outcome.stuck = run_each_alone(jobs, running);
    if (!outcome.stuck.empty()) return outcome;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        const StepRecord& alone = running[j]->alone();
        outcome.op_events += running[j]->take_events();
        outcome.jobs.push_back(
            {alone, as_alone(alone, options.steps), leaves_of(drawn, nodes[j]),
             static_cast<std::int64_t>(running[j]->machine().input.tracks.size()),
             to_seconds(alone.length), alone.exposed_s()});
    }
    const std::vector<std::int32_t> numbers = that_meet(links);
    const auto apart = std::stable_partition(running.begin(), running.end(), [&](const auto& job) {
        return std::binary_search(numbers.begin(), numbers.end(), job->number());
    });
    RunningJobs not_meeting(std::make_move_iterator(apart), std::make_move_iterator(running.end()));
    running.erase(apart, running.end());
    outcome.stuck = finish_apart(jobs, std::move(not_meeting), options.steps, outcome);
    if (numbers.empty() || !outcome.stuck.empty()) return outcome;
    const bool all_ranks = are_all_ranks_simulated(drawn, options);
    if (options.unfolded && !drawn.jitter.any()) {
        running = running_jobs(numbers, placed, unfolded);
        shared = joined(running, traffic, links, options.in_full);
    }

    // Ranks are parted by the links that keep flows back, and no one knows which before: a run that
    // finds others is repeated with them. Where none does all goes as alone, however ranks fold.
    std::vector<bool> telling(links.links().size(), false);
    while (run_together(running, *shared, links, jobs, options, all_ranks, telling, outcome) &&
           !options.coarse && !all_ranks) {
        running = running_jobs(numbers, placed,
                               [&](const JobTraffic& of) { return links.colours(of, telling); });
        shared = joined(running, traffic, links, options.in_full);
        run_each_alone(jobs, running);
    }
    return outcome;
}

}  // namespace orrery::sim
