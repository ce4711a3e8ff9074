#include "sim/jobs/run_jobs.hpp"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "plan/check.hpp"
#include "sim/jobs/job_links.hpp"

namespace orrery::sim {
namespace {

// Where ranks lie; without colours none are told apart by links.
RankPlaces places_of(const JobTraffic& traffic, std::vector<std::int64_t> colours) {
    return {traffic.devices(), std::move(colours)};
}

struct AloneRun {
    StepRecord step;
    std::uint64_t events = 0;
    std::int64_t tracks = 0;
    std::int64_t node_kBps = 0;  // that a node can send
    bool stuck = false;
};

AloneRun alone_on(const Job& job, const RankPlaces& places) {
    const Machine machine =
        build_machine(job.plan, job.scenario, job.profile, false, nullptr, nullptr, &places);
    const trace::Trace empty = trace_to_fill(job.plan, machine, "");
    StepRecorder recorder(machine, empty);
    const EngineRun run = run_engine(machine.input, recorder);
    AloneRun alone;
    alone.events = run.processed;
    alone.tracks = static_cast<std::int64_t>(machine.input.tracks.size());
    alone.node_kBps = machine.input.node_network_kBps;
    alone.stuck = !run.stuck.empty();
    if (!alone.stuck) alone.step = recorder.finish();
    return alone;
}

// With the fabric for itself it goes on as it began.
SharedStep as_alone(const StepRecord& alone, int steps) {
    SharedStep step;
    step.mean_s = step.least_s = step.most_s = to_seconds(alone.length);
    step.exposed_s = alone.exposed_s();
    step.steps = steps;
    return step;
}

// One job while all run: its machine, the step that it is in, and those that it has done.
class RunningJob {
  public:
    RunningJob(const Job& job, std::int32_t number, const RankPlaces& places)
        : number_(number),
          machine_(
              build_machine(job.plan, job.scenario, job.profile, false, nullptr, nullptr, &places)),
          empty_(trace_to_fill(job.plan, machine_, "")),
          offset_(from_seconds(job.start_s)) {}

    // Once the links are there that paths lead over.
    void join(const JobTraffic& traffic, const JobLinks& links, SharedLinks& shared) {
        links.lay_paths(traffic, machine_, shared, uses_);
        engine_.emplace(machine_.input);
    }

    Picoseconds next() const { return begun_ ? offset_ + engine_->next_time() : offset_; }

    // All that happens at this time; the step's end and the next one's beginning among it.
    void run_moment(Picoseconds now, SharedLinks& shared) {
        if (!begun_) {
            recorder_.emplace(machine_, empty_);
            engine_->begin(*recorder_, shared, number_);
            begun_ = true;
        }
        while (!engine_->over() && offset_ + engine_->next_time() == now)
            engine_->run_moment();
    }

    // Once flows are settled: nothing more happens in it.
    bool run_is_over() const { return begun_ && engine_->over(); }

    // The next begins when it says. False: it is stuck.
    bool end_run() {
        const EngineRun run = engine_->finish();
        events_ += run.processed;
        if (!run.stuck.empty()) return false;
        records.push_back(recorder_->finish());
        begins.push_back(offset_);
        ORRERY_CHECK(records.back().run > 0, "a step that takes no time");
        offset_ += records.back().run;
        begun_ = false;
        return true;
    }

    void ask() {
        if (begun_) engine_->ask();
    }
    void limit(std::int32_t flow, std::int64_t rate) { engine_->limit(flow, rate); }
    void grant(Picoseconds now) {
        if (begun_) engine_->grant(now - offset_);
    }

    std::int32_t number() const { return number_; }
    const Machine& machine() const { return machine_; }
    std::uint64_t events() const { return events_; }

    std::vector<StepRecord> records;
    std::vector<Picoseconds> begins;  // of these, on the common clock

  private:
    std::int32_t number_;
    Machine machine_;
    trace::Trace empty_;
    std::vector<std::vector<NetworkUse>> uses_;
    std::optional<EngineInTurns> engine_;
    std::optional<StepRecorder> recorder_;
    Picoseconds offset_ = 0;  // of the run's clock
    bool begun_ = false;
    std::uint64_t events_ = 0;
};

// The event loop over all jobs, up to the end of the window.
class Together {
  public:
    // `telling`: by link, that ranks are parted by it.
    Together(std::vector<std::unique_ptr<RunningJob>>& jobs, SharedLinks& links,
             const std::vector<bool>& telling, const RunJobsOptions& options)
        : jobs_(jobs), links_(links), telling_(telling), options_(options) {}

    // Returns the job that is stuck, or −1.
    std::int32_t run() {
        for (const auto& job : jobs_)
            next_.push_back(job->next());
        moved_.resize(jobs_.size());
        while (!jobs_.empty() && !enough_) {
            const Picoseconds now = *std::min_element(next_.begin(), next_.end());
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
            jobs_[i]->run_moment(now, links_);
            jobs_[i]->ask();
        }
        for (const SharedLinks::Limit& limit : links_.settle()) {
            const std::size_t i = of_number(limit.job);
            jobs_[i]->limit(limit.flow, limit.rate);
            moved_[i] = true;
        }
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

    void note_step(Picoseconds now) {
        if (window_start < 0 && warmed_up()) {
            window_start = now;
            links_.begin_sums();
        }
        // Where the run is to be repeated, a step of each has shown enough.
        enough_ = enough(options_.steps) ||
                  (!options_.coarse && !options_.unfolded && enough(1) && others_crowded());
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

// All jobs that may meet, over links of which ranks are parted by those that are `telling`. Whether
// others kept flows back, which are then telling too.
bool run_together(const std::vector<Job>& jobs, const std::vector<JobTraffic>& traffic,
                  const JobLinks& links, const RunJobsOptions& options, std::vector<bool>& telling,
                  JobsOutcome& outcome) {
    std::set<std::int32_t> meet;
    for (const JobLinks::SharedLink& link : links.links())
        meet.insert(link.jobs.begin(), link.jobs.end());
    const std::vector<std::int32_t> numbers(meet.begin(), meet.end());
    std::vector<std::unique_ptr<RunningJob>> running(numbers.size());
    oneapi::tbb::parallel_for(std::size_t{0}, numbers.size(), [&](std::size_t i) {
        const auto j = static_cast<std::size_t>(numbers[i]);
        std::vector<std::int64_t> colours = links.colours(traffic[j], telling);
        if (options.unfolded) {
            colours.resize(traffic[j].devices().size());
            std::iota(colours.begin(), colours.end(), 0);
        }
        running[i] = std::make_unique<RunningJob>(jobs[j], numbers[i],
                                                  places_of(traffic[j], std::move(colours)));
    });
    SharedLinks shared(links.capacities(), static_cast<std::int32_t>(jobs.size()));
    for (const auto& job : running)
        job->join(traffic[static_cast<std::size_t>(job->number())], links, shared);
    Together together(running, shared, telling, options);
    if (const std::int32_t job = together.run(); job >= 0) {
        outcome.stuck = jobs[static_cast<std::size_t>(job)].name;
        return false;
    }
    outcome.start_s = to_seconds(std::max<Picoseconds>(0, together.window_start));
    outcome.window_s = to_seconds(together.window_end) - outcome.start_s;
    for (const auto& job : running) {
        JobOutcome& of = outcome.jobs[static_cast<std::size_t>(job->number())];
        outcome.op_events += job->events();
        of.tracks = static_cast<std::int64_t>(job->machine().input.tracks.size());
        of.shared = shared_step(job->records, together.first_counted(*job));
    }
    const std::vector<LinkSums> sums = shared.sums();
    bool found = false;
    for (std::size_t l = 0; l < links.links().size(); ++l) {
        outcome.links.push_back(link_outcome(links.links()[l], sums[l], outcome.window_s));
        if (telling[l] || !shared.was_crowded(static_cast<std::int32_t>(l))) continue;
        telling[l] = found = true;
    }
    return found;
}

}  // namespace

double JobsOutcome::fairness() const {
    double sum = 0, squares = 0;
    for (const JobOutcome& job : jobs) {
        const double speed = 1 / job.slowdown();
        sum += speed;
        squares += speed * speed;
    }
    return sum * sum / (static_cast<double>(jobs.size()) * squares);
}

AloneStep run_alone(const plan::Cluster& cluster, const Job& job, const NodeList& nodes) {
    std::vector<JobTraffic> traffic;
    traffic.emplace_back(job.plan, cluster, nodes);
    const RankPlaces places = places_of(traffic.front(), {});
    Machine machine =
        build_machine(job.plan, job.scenario, job.profile, false, nullptr, nullptr, &places);
    const JobLinks links(traffic, cluster, machine.input.node_network_kBps, JobLinks::Keep::all);
    SharedLinks passed(links.capacities(), 1);
    std::vector<std::vector<NetworkUse>> uses;
    links.lay_paths(traffic.front(), machine, passed, uses);
    const trace::Trace empty = trace_to_fill(job.plan, machine, "");
    StepRecorder recorder(machine, empty);
    EngineInTurns engine(machine.input);
    for (engine.begin(recorder, passed, 0);;) {
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

JobsOutcome run_jobs(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                     const std::vector<NodeList>& nodes, const RunJobsOptions& options) {
    const std::vector<JobTraffic> traffic = traffic_of(cluster, jobs, nodes);
    std::vector<AloneRun> alone(jobs.size());
    oneapi::tbb::parallel_for(std::size_t{0}, jobs.size(), [&](std::size_t j) {
        alone[j] = alone_on(jobs[j], places_of(traffic[j], {}));
    });
    JobsOutcome outcome;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        outcome.op_events += alone[j].events;
        if (alone[j].stuck) outcome.stuck = jobs[j].name;
        outcome.jobs.push_back({alone[j].step, as_alone(alone[j].step, options.steps),
                                leaves_of(cluster, nodes[j]), alone[j].tracks});
    }
    if (!outcome.stuck.empty()) return outcome;

    const JobLinks links(traffic, cluster, alone.front().node_kBps);  // as all nodes
    // Ranks are parted by the links that keep flows back, and no one knows which before: a run that
    // finds others is repeated with them. Where none does all goes as alone, however ranks fold.
    std::vector<bool> telling(links.links().size(), false);
    for (bool found = true; found;) {
        const JobsOutcome before = outcome;
        found = run_together(jobs, traffic, links, options, telling, outcome) && !options.coarse &&
                !options.unfolded;
        if (found) {
            const std::uint64_t events = outcome.op_events;
            outcome = before;
            outcome.op_events = events;
        }
        if (!outcome.stuck.empty()) return outcome;
    }
    return outcome;
}

}  // namespace orrery::sim
