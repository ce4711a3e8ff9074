// One job while several run: its machine, the run of its step that it is in, and those it has done.
//
// As long as no link that a job passes is asked for more than it has, its runs all go the same way.
// So that way is recorded once: what its flows do, and now and then the whole state of its engine.
// A run first follows the record, which costs next to nothing; once a link is crowded the engine
// goes on from the last state before that time, in silence up to it, and live from there on. Steps
// whose ranks only meet others at their end, where gradients are reduced, are simulated only there.
//
// Where each kernel draws its time anew (cluster.jitter), no run is as another: step k draws as
// simulate does with a seed higher by k, and has a record of its own, made when it begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/jobs/job_links.hpp"
#include "sim/jobs/job_on_nodes.hpp"
#include "sim/jobs/step_recorder.hpp"

namespace orrery::sim {

class RunningJob {
  public:
    // `number`: among all jobs. The job's plan must outlive it.
    RunningJob(const Job& job, const JobOnNodes& on_nodes, std::int32_t number,
               const RankPlaces& places);
    RunningJob(const RunningJob&) = delete;
    RunningJob& operator=(const RunningJob&) = delete;

    // Once the links are there that paths lead over. `in_full`: every run is simulated from its
    // beginning.
    void join(const JobTraffic& traffic, const JobLinks& links, SharedLinks& shared,
              bool in_full = false);

    // Records a whole run, the first, with nobody else on the links. False: it is stuck.
    bool run_alone() { return run_alone(0); }
    // The same for so many steps, as far as they differ; of a job that is not to run with others.
    bool run_alone_for(std::size_t steps);
    bool draws_each_step() const;
    // Of a step that has begun, or was asked for.
    const StepRecord& alone(std::size_t step = 0) const {
        return alone_[draws_each_step() ? step : 0];
    }

    // What it asks of each link then, by slots of this length: mean kB/s.
    std::vector<std::vector<double>> loads(Picoseconds slot);

    // The next run, or the next thing in it, on the common clock.
    Picoseconds next() const;
    // All that happens then, up to what flows ask for.
    void run_moment(Picoseconds now);
    // Once links have settled. True: its flows are others now, and links are to settle again.
    bool go_live_if_crowded(Picoseconds now);
    void limit(std::int32_t flow, std::int64_t rate);
    void grant(Picoseconds now);
    // Once flows are settled: nothing more happens in it.
    bool run_is_over() const;
    // The next begins when it says. False: it is stuck.
    bool end_run();

    std::int32_t number() const { return number_; }
    const Machine& machine() const { return machine_; }
    // That were simulated since this was last asked.
    std::uint64_t take_events() { return std::exchange(events_, 0); }

    std::vector<StepRecord> records;
    std::vector<Picoseconds> begins;  // of these, on the common clock

  private:
    // What flows do in a run that nothing keeps back, on the run's clock.
    struct Record {
        struct Moment {
            Picoseconds time = 0;
            std::size_t calls = 0;  // up to the end of it
        };
        std::vector<FlowCall> calls;
        std::vector<Moment> moments;
        Picoseconds until = -1;          // after this nothing is known
        std::optional<StepRecord> step;  // where all is
    };
    // Of such a run, all that has happened up to this time.
    struct State {
        Picoseconds time = 0;
        EngineInTurns engine;
        StepRecorder recorder;
    };
    enum class Mode : std::uint8_t { waiting, by_record, recording, live };

    bool run_alone(std::size_t step);
    void begin_engine();
    void begin_run();
    void follow(Picoseconds time);
    void note_calls(Picoseconds time);
    void save(Picoseconds time);
    void catch_up(Picoseconds time);
    void go_live(Picoseconds time, Mode mode);
    void forget_last();
    void simulate(Picoseconds time);
    std::optional<StepRecord> finish_engine();

    std::int32_t number_;
    Machine machine_;
    trace::Trace empty_;
    SharedLinks* shared_ = nullptr;
    bool in_full_ = false;
    std::vector<std::vector<NetworkUse>> uses_;
    std::optional<EngineInTurns> engine_;
    std::optional<StepRecorder> recorder_;
    Picoseconds offset_ = 0;  // of the run's clock
    Mode mode_ = Mode::waiting;
    std::uint64_t events_ = 0;
    std::uint64_t processed_before_ = 0;  // of the engine's, in an earlier run

    Record known_;
    std::vector<StepRecord> alone_;  // by step, as far as they differ
    std::size_t followed_ = 0;       // moments of it
    Picoseconds followed_to_ = -1;
    std::vector<std::int32_t> on_links_;  // by flow, while it is followed: its number there, or −1
    std::vector<std::unique_ptr<State>> states_;  // ascending
    std::uint64_t between_;                       // events, of two of these
};

}  // namespace orrery::sim
