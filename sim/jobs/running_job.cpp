#include "sim/jobs/running_job.hpp"

#include <algorithm>
#include <utility>

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

constexpr std::size_t kStates = 16;              // at most; of all every second is then dropped
constexpr std::uint64_t kEventsOfATrack = 1024;  // between two of them, at first

}  // namespace

RunningJob::RunningJob(const Job& job, const JobOnNodes& on_nodes, std::int32_t number,
                       const RankPlaces& places)
    : number_(number),
      machine_(build_machine(job.plan, on_nodes.scenario(), on_nodes.profile(), false, nullptr,
                             nullptr, &places)),
      empty_(trace_to_fill(job.plan, machine_, "")),
      offset_(from_seconds(job.start_s)),
      between_(machine_.input.tracks.size() * kEventsOfATrack) {}

void RunningJob::join(const JobTraffic& traffic, const JobLinks& links, SharedLinks& shared,
                      bool in_full) {
    in_full_ = in_full;
    links.lay_paths(traffic, machine_, shared, uses_);
    engine_.emplace(machine_.input);
    shared_ = &shared;
}

// Where nothing is known of its way yet that is recorded.
void RunningJob::begin_engine() {
    recorder_.emplace(machine_, empty_);
    engine_->begin(*recorder_, known_.until < 0 ? &known_.calls : nullptr);
    processed_before_ = 0;
}

bool RunningJob::draws_each_step() const {
    return !machine_.uneven.empty() && machine_.uneven.front()->draws_each();
}

bool RunningJob::run_alone_for(std::size_t steps) {
    for (std::size_t step = alone_.size(); draws_each_step() && step < steps; ++step)
        if (!run_alone(step)) return false;
    return true;
}

// Of steps in their order.
bool RunningJob::run_alone(std::size_t step) {
    if (draws_each_step()) {
        for (const auto& uneven : machine_.uneven)
            uneven->draw_step(static_cast<std::int64_t>(step));
        known_ = {};
        states_.clear();
    }
    mode_ = Mode::recording;
    for (begin_engine(); !engine_->over();) {
        const Picoseconds time = engine_->next_time();
        engine_->run_moment();
        engine_->ask();
        note_calls(time);
        engine_->grant(time);
        save(time);
    }
    const std::optional<StepRecord> done = finish_engine();
    mode_ = Mode::waiting;
    if (done) alone_.push_back(*done);
    return done.has_value();
}

std::vector<std::vector<double>> RunningJob::loads(Picoseconds slot) {
    const Picoseconds run = alone().run;
    const std::size_t slots = static_cast<std::size_t>((run + slot / 2) / slot);
    std::vector<std::vector<double>> loads;
    begin_run();
    shared_->move_to(0);
    shared_->begin_sums();
    std::vector<double> before;
    for (std::size_t s = 0; s < slots; ++s) {
        const Picoseconds end = s + 1 == slots ? run : static_cast<Picoseconds>(s + 1) * slot;
        while (next() < offset_ + end && followed_ < known_.moments.size()) {
            shared_->move_to(next() - offset_);
            follow(next() - offset_);
        }
        shared_->move_to(end);
        const std::vector<LinkSums> sums = shared_->sums();
        loads.resize(sums.size());
        before.resize(sums.size());
        for (std::size_t l = 0; l < sums.size(); ++l) {
            const double bytes = sums[l].bytes[static_cast<std::size_t>(number_)];
            loads[l].push_back((bytes - before[l]) * 1e-3 /
                               to_seconds(end - static_cast<Picoseconds>(s) * slot));
            before[l] = bytes;
        }
    }
    if (followed_ < known_.moments.size()) follow(known_.until);
    mode_ = Mode::waiting;
    return loads;
}

Picoseconds RunningJob::next() const {
    if (mode_ == Mode::waiting) return offset_;
    if (mode_ != Mode::by_record) return offset_ + engine_->next_time();
    return offset_ +
           (followed_ < known_.moments.size() ? known_.moments[followed_].time : known_.until);
}

void RunningJob::run_moment(Picoseconds now) {
    const Picoseconds time = now - offset_;
    if (mode_ == Mode::waiting) begin_run();
    if (mode_ == Mode::by_record) {
        if (time < known_.until || known_.step) return follow(time);
        go_live(time, Mode::recording);
        forget_last();
    }
    simulate(time);
}

void RunningJob::simulate(Picoseconds time) {
    engine_->flows().record(mode_ == Mode::recording ? &known_.calls : nullptr);
    while (!engine_->over() && engine_->next_time() == time)
        engine_->run_moment();
    engine_->ask();
    if (mode_ == Mode::recording) note_calls(time);
}

void RunningJob::begin_run() {
    followed_ = 0;
    followed_to_ = -1;
    on_links_.clear();
    if (draws_each_step() && alone_.size() <= records.size()) {
        const bool done = run_alone(records.size());
        ORRERY_CHECK(done, "a step that is stuck where the one before was not");
    }
    mode_ = Mode::by_record;
    if (known_.until >= 0 && !in_full_) return;
    mode_ = in_full_ ? Mode::live : Mode::recording;
    begin_engine();
    engine_->flows().join(*shared_, number_);
}

// Makes the calls of this time.
void RunningJob::follow(Picoseconds time) {
    while (followed_ < known_.moments.size() && known_.moments[followed_].time == time) {
        const std::size_t first = followed_ == 0 ? 0 : known_.moments[followed_ - 1].calls;
        for (std::size_t c = first; c < known_.moments[followed_].calls; ++c) {
            const FlowCall& call = known_.calls[c];
            const auto flow = static_cast<std::size_t>(call.flow);
            on_links_.resize(std::max(on_links_.size(), flow + 1), -1);
            switch (call.kind) {
                case FlowCall::Kind::begin:
                    on_links_[flow] = shared_->begin(number_, call.flow, call.path, call.value);
                    break;
                case FlowCall::Kind::allow:
                    shared_->allow(on_links_[flow], call.value);
                    break;
                case FlowCall::Kind::end:
                    shared_->end(std::exchange(on_links_[flow], -1));
                    break;
            }
        }
        ++followed_;
    }
    followed_to_ = time;
}

void RunningJob::note_calls(Picoseconds time) {
    known_.until = time;
    const std::size_t before = known_.moments.empty() ? 0 : known_.moments.back().calls;
    if (known_.calls.size() > before) known_.moments.push_back({time, known_.calls.size()});
}

// What is known of its last moment may not be all.
void RunningJob::forget_last() {
    while (!known_.moments.empty() && known_.moments.back().time == known_.until)
        known_.moments.pop_back();
    known_.calls.resize(known_.moments.empty() ? 0 : known_.moments.back().calls);
    --known_.until;
}

// Of runs with steps that follow one another within them states are too large.
void RunningJob::save(Picoseconds time) {
    const std::uint64_t last = states_.empty() ? 0 : states_.back()->engine.processed();
    if (engine_->processed() < last + between_ || machine_.following > 0) return;
    states_.push_back(std::make_unique<State>(State{time, *engine_, *recorder_}));
    if (states_.size() < kStates) return;
    between_ *= 2;
    for (std::size_t i = 0; i < kStates / 2; ++i)
        states_[i] = std::move(states_[2 * i + 1]);
    states_.resize(kStates / 2);
}

// From the last state before this time, or from the run's beginning, up to it.
void RunningJob::catch_up(Picoseconds time) {
    const auto after = std::find_if(states_.begin(), states_.end(),
                                    [&](const auto& state) { return state->time >= time; });
    if (after == states_.begin()) {
        begin_engine();
    } else {
        const State& from = **(after - 1);
        engine_.emplace(from.engine);
        recorder_.emplace(from.recorder);
        engine_->tell(*recorder_);
        engine_->flows().leave();
        engine_->flows().record(nullptr);
        processed_before_ = engine_->processed();
    }
    while (!engine_->over() && engine_->next_time() < time) {
        const Picoseconds moment = engine_->next_time();
        engine_->run_moment();
        engine_->ask();
        engine_->grant(moment);
    }
}

// What has followed the record so far is now the engine's.
void RunningJob::go_live(Picoseconds time, Mode mode) {
    for (const std::int32_t number : on_links_)
        if (number >= 0) shared_->end(number);
    catch_up(time);
    engine_->flows().join(*shared_, number_);
    mode_ = mode;
}

bool RunningJob::go_live_if_crowded(Picoseconds now) {
    if (mode_ == Mode::waiting || mode_ == Mode::live || !shared_->crowds(number_)) return false;
    if (mode_ == Mode::by_record) {
        go_live(now - offset_, Mode::live);
        simulate(now - offset_);
        return true;
    }
    mode_ = Mode::live;
    return false;
}

void RunningJob::limit(std::int32_t flow, std::int64_t rate) {
    if (mode_ != Mode::by_record) engine_->limit(flow, rate);
}

void RunningJob::grant(Picoseconds now) {
    if (mode_ == Mode::waiting || mode_ == Mode::by_record) return;
    engine_->grant(now - offset_);
    if (mode_ == Mode::recording) save(now - offset_);
}

bool RunningJob::run_is_over() const {
    if (mode_ == Mode::by_record) return known_.step && followed_to_ == known_.until;
    return mode_ != Mode::waiting && engine_->over();
}

bool RunningJob::end_run() {
    const std::optional<StepRecord> step = mode_ == Mode::by_record ? known_.step : finish_engine();
    if (!step) return false;
    records.push_back(*step);
    begins.push_back(offset_);
    ORRERY_CHECK(step->run > 0, "a step that takes no time");
    offset_ += step->run;
    mode_ = Mode::waiting;
    return true;
}

// Nothing where it is stuck.
std::optional<StepRecord> RunningJob::finish_engine() {
    const EngineRun run = engine_->finish();
    events_ += run.processed - processed_before_;
    if (!run.stuck.empty()) return std::nullopt;
    const StepRecord step = recorder_->finish();
    if (mode_ == Mode::recording) known_.step = step;
    return step;
}

}  // namespace orrery::sim
