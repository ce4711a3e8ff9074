#include "sim/fleet/run_outcome.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

#include <tbb/parallel_for.h>

#include "plan/check.hpp"
#include "sim/cost/log2.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/splitmix.hpp"
#include "sim/engine/uneven.hpp"
#include "sim/fleet/run_timeline.hpp"

namespace orrery::sim {
namespace {

constexpr double kLnTwo = 0.6931471805599453;
constexpr double kNever = 1e300;
constexpr double kHopeless = 100;
constexpr std::int64_t kMostFailures = 200'000;  // one in ten minutes for four years

// A sequence of draws of one run.
class Draws {
  public:
    Draws(std::uint64_t seed, std::uint64_t index)
        : seed_(seed), index_(index), state_(split_mixed(split_mixed(seed) ^ index)) {}

    double exponential(double mean) { return -mean * kLnTwo * log2_of(uniform()); }
    double uniform() {  // in (0, 1], of 53 bits
        state_ = split_mixed(state_);
        return static_cast<double>((state_ >> 11) + 1) * 0x1p-53;
    }
    double normal() { return normal_draw(seed_, index_, normals_++); }

  private:
    std::uint64_t seed_, index_, state_;
    std::uint64_t normals_ = 0;
};

// Writes down a run as it goes on.
class Record {
  public:
    explicit Record(RunTimeline& timeline) : timeline_(timeline) {}

    void spend(RunAccount account, double begin_s, double seconds) {
        if (begin_s + seconds <= begin_s) return;  // nothing, or what rounding leaves of it
        if (!goes_on(account)) {
            timeline_.stretches.push_back({is_of_work(account) ? RunAccount::steps : account,
                                           begin_s,
                                           begin_s,
                                           {},
                                           failure_});
            open_ = true;
        }
        RunStretch& stretch = timeline_.stretches.back();
        stretch.seconds[static_cast<std::size_t>(account)] += seconds;
        stretch.end_s = begin_s + seconds;
    }
    // Once what it undoes is spent, the failure has its time.
    void begin_failure(std::size_t cause) {
        failure_ = static_cast<std::int64_t>(timeline_.failures.size());
        timeline_.failures.push_back({0, cause, timeline_.stretches.size()});
        open_ = false;
    }
    void strike(double at_s) { timeline_.failures.back().at_s = at_s; }
    // What comes next is another stretch, and of no failure.
    void end_stop() {
        failure_ = -1;
        open_ = false;
    }

  private:
    static bool is_of_work(RunAccount account) {
        return account == RunAccount::saving || account == RunAccount::degraded;
    }
    bool goes_on(RunAccount account) const {
        if (!open_) return false;
        const RunAccount now = timeline_.stretches.back().does;
        const bool works = now == RunAccount::steps || now == RunAccount::lost_work;
        return account == now || (works && (is_of_work(account) || account == RunAccount::data));
    }

    RunTimeline& timeline_;
    std::int64_t failure_ = -1;
    bool open_ = false;  // the last stretch may go on
};

class Run {
  public:
    // `record`: where the run is written down; null: nowhere.
    Run(const RunModel& model, std::uint64_t seed, std::uint64_t index, Record* record)
        : model_(model), draws_(seed, index), record_(record), spares_(model.spare_nodes) {
        ORRERY_CHECK(model.work_s > 0 && model.interval_s > 0, "a run without work or interval");
        const double z = draws_.normal();
        const double longer = std::max(0.05, 1 + (z < 0 ? model.early : model.late) * z);
        work_ = model.work_s * longer;
        interval_ = model.interval_s * longer;  // as many steps
        memory_interval_ = model.memory_interval_s * longer;
        const double sd = model.rate_log_sd;
        const double rates = exp_of(std::clamp(sd * draws_.normal() - sd * sd / 2, -50.0, 50.0));
        rate_ = model.failures_per_s() * rates;
        stretched_ = memory_interval_ > 0 ? 1 + model.memory_stall_s / memory_interval_ : 1;
    }

    RunOutcome go() {
        spend(RunAccount::data, model_.warming_s);
        while (true) {
            const double failure = rate_ > 0 ? draws_.exponential(1 / rate_) : kNever;
            const double regrown = degraded_ ? returns_.top() - now_ : kNever;
            const double until = std::min(failure, std::max(0.0, regrown));
            if (compute(until)) return outcome_;
            if (until < failure)
                grow_back();
            else
                fail();
            outcome_.ended = now_ < kHopeless * work_ && outcome_.failures < kMostFailures;
            if (!outcome_.ended) return outcome_;
        }
    }

  private:
    void spend(RunAccount account, double seconds) {
        if (record_ != nullptr) record_->spend(account, now_, seconds);
        outcome_.seconds[static_cast<std::size_t>(account)] += seconds;
        now_ += seconds;
    }
    double pace() const { return degraded_ ? model_.degraded_pace : 1; }
    // Of so much work, done on the layout that there is.
    void spend_work(RunAccount account, double work) {
        const double for_data = account == RunAccount::steps ? work * model_.data_share : 0;
        spend(account, work - for_data);
        spend(RunAccount::data, for_data);
        spend(RunAccount::saving, work * (stretched_ - 1));
        if (degraded_) spend(RunAccount::degraded, work * (1 / pace() - 1) * stretched_);
    }

    // For so long, or to the end of the run, which is told. Work since the last checkpoint that is
    // complete is left in unsaved_ and spent by who knows what becomes of it.
    bool compute(double seconds) {
        const double of_work = stretched_ / pace();
        const double cycle = interval_ * of_work + model_.stall_s;
        const double left = work_ - done_;
        const double saves = std::max(0.0, std::ceil(left / interval_) - 1);
        if (left * of_work + saves * model_.stall_s <= seconds) {
            spend_work(RunAccount::steps, left);
            spend(RunAccount::saving, saves * model_.stall_s);
            return true;
        }
        const double cycles = std::min(saves, std::floor(seconds / cycle));
        const double within = seconds - cycles * cycle;
        const double partial = std::min(within / of_work, interval_);
        spend(RunAccount::saving,
              cycles * model_.stall_s + std::max(0.0, within - interval_ * of_work));
        // The last checkpoint may not have been written whole.
        const double complete = within < model_.write_s ? std::max(0.0, cycles - 1) : cycles;
        spend_work(RunAccount::steps, complete * interval_);
        done_ += complete * interval_;
        unsaved_ = (cycles - complete) * interval_ + partial;
        return false;
    }

    void keep_unsaved(double kept) {
        spend_work(RunAccount::steps, kept);
        done_ += kept;
        unsaved_ -= kept;
    }

    void fail() {
        ++outcome_.failures;
        const RunCause& cause = which();
        const bool from_memory = memory_interval_ > 0 && cause.kills_nodes && !cause.silent;
        if (from_memory) keep_unsaved(std::floor(unsaved_ / memory_interval_) * memory_interval_);
        if (record_ != nullptr)
            record_->begin_failure(static_cast<std::size_t>(&cause - model_.causes.data()));
        spend_work(RunAccount::lost_work, unsaved_);
        unsaved_ = 0;
        if (record_ != nullptr) record_->strike(now_);
        spend(cause.silent ? RunAccount::lost_work : RunAccount::detection, cause.detection_s);
        spend(RunAccount::diagnosis, model_.diagnosis_s);
        if (cause.replaces_node) replace_node();
        spend(RunAccount::restart,
              model_.restart_s + (from_memory ? model_.memory_load_s : model_.load_s));
        if (record_ != nullptr) record_->end_stop();
    }

    const RunCause& which() {
        double at = draws_.uniform() * model_.failures_per_s();
        for (const RunCause& cause : model_.causes) {
            at -= cause.per_s;
            if (at <= 0) return cause;
        }
        return model_.causes.back();
    }

    void replace_node() {
        while (!returns_.empty() && returns_.top() <= now_) {
            returns_.pop();
            ++spares_;
        }
        returns_.push(now_ + draws_.exponential(model_.repair_s));
        if (spares_ > 0) {
            --spares_;
            spend(RunAccount::restart, model_.replacement_s);
        } else if (model_.degraded_pace > 0 && !degraded_) {
            degraded_ = true;
        } else {
            spend(RunAccount::waiting, std::max(0.0, returns_.top() - now_));
            returns_.pop();
            spend(RunAccount::restart, model_.replacement_s);
        }
    }

    // A node is back: the whole layout starts again, from a checkpoint made for it.
    void grow_back() {
        keep_unsaved(unsaved_);
        returns_.pop();
        degraded_ = false;
        spend(RunAccount::saving, model_.stall_s);
        spend(RunAccount::restart, model_.restart_s + model_.load_s);
        if (record_ != nullptr) record_->end_stop();
    }

    const RunModel& model_;
    Draws draws_;
    Record* record_;
    double work_ = 0, interval_ = 0, memory_interval_ = 0, rate_ = 0, stretched_ = 1;
    std::int64_t spares_;
    std::priority_queue<double, std::vector<double>, std::greater<>> returns_;  // of repaired nodes
    bool degraded_ = false;
    double now_ = 0;
    double done_ = 0;     // work that a complete checkpoint holds
    double unsaved_ = 0;  // work since, not yet spent
    RunOutcome outcome_;
};

}  // namespace

std::string_view name(RunAccount account) {
    static constexpr std::array<std::string_view, kRunAccounts> names = {
        "steps",     "data",    "lost_work", "saving",  "detection",
        "diagnosis", "restart", "waiting",   "degraded"};
    return names[static_cast<std::size_t>(account)];
}

double RunOutcome::wall_s() const {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

RunOutcome draw_run(const RunModel& model, std::uint64_t seed, std::uint64_t index) {
    return Run(model, seed, index, nullptr).go();
}

RunTimeline record_run(const RunModel& model, std::uint64_t seed, std::uint64_t index) {
    RunTimeline timeline;
    timeline.run = index;
    Record record(timeline);
    timeline.outcome = Run(model, seed, index, &record).go();
    return timeline;
}

std::vector<RunOutcome> draw_runs(const RunModel& model, std::uint64_t seed, std::size_t count,
                                  const std::atomic<bool>* stop) {
    std::vector<RunOutcome> outcomes(count);
    tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
        if (stop != nullptr && stop->load()) throw Stopped();
        outcomes[i] = draw_run(model, seed, i);
    });
    return outcomes;
}

}  // namespace orrery::sim
