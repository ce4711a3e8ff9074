// The event loop: next event, advance, notify. It knows streams, groups and transfers, and no
// model. Per track (a rank that stands for its likes) ops start in the order of their streams once
// what they wait for on other streams has ended and the host has issued them; a collective starts
// when its last member is ready, a transfer when both sides are (rendezvous).
//
// Deterministic: integer picoseconds, ties in insertion order. About one event per op, and nothing
// is allocated for one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "sim/engine/network_flows.hpp"
#include "sim/engine/time.hpp"
#include "sim/engine/uneven.hpp"
#include "trace/launch_times.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

using TrackId = std::int32_t;

// What an op takes on one rank, where that is known rank by rank: it comes `late` after it was
// ready, and runs for `duration` once every member is there.
struct OpTime {
    Picoseconds late = 0;
    Picoseconds duration = 0;
};

// One simulated rank.
struct EngineTrack {
    std::int32_t program = 0;  // into Plan::programs and EngineInput::linked
    const std::vector<Picoseconds>* durations = nullptr;   // by op number; collectives included
    std::array<std::int32_t, plan::kGroupKinds> groups{};  // into EngineInput::groups, −1: alone
    std::vector<TrackId> pipeline_peers;                   // by pipeline rank
    std::vector<Picoseconds> transfer_to_peer;  // by pipeline rank: duration of one boundary
    // By number of the statistic, likewise.
    std::vector<std::vector<Picoseconds>> statistic_to_peer;
    // By op id of one step, in place of durations and transfers; null: none are known. An exchange
    // ends its duration after the last of its transfers has begun.
    const std::vector<OpTime>* times = nullptr;
    // By op id of one step: what its kernels and collectives take is multiplied by it; null: by 1.
    const std::vector<double>* factors = nullptr;
    const Uneven* uneven = nullptr;  // changes the time of its kernels; null: does not
    // Of its device, where that is of another kind than EngineInput has it for all.
    std::optional<std::int64_t> compute_slowdown_permille;
    // What its collectives take of the network, by op number; null: nothing. And its transfers, by
    // pipeline rank; may be empty.
    const std::vector<NetworkUse>* network_uses = nullptr;
    std::vector<NetworkUse> use_to_peer;

    NetworkUse use_of(std::uint32_t number) const {
        return network_uses == nullptr ? NetworkUse{} : (*network_uses)[number];
    }
    NetworkUse use_of(const plan::Transfer& transfer) const {
        const auto peer = static_cast<std::size_t>(transfer.peer);
        const bool counted =
            peer < use_to_peer.size() && !plan::carries_statistic(transfer.action.kind);
        return counted ? use_to_peer[peer] : NetworkUse{};
    }
    Picoseconds time_of(const plan::Transfer& transfer) const {
        const auto peer = static_cast<std::size_t>(transfer.peer);
        if (!plan::carries_statistic(transfer.action.kind)) return transfer_to_peer[peer];
        return statistic_to_peer[static_cast<std::size_t>(transfer.action.micro_batch)][peer];
    }
};

struct EngineInput {
    const plan::Plan* plan = nullptr;
    std::vector<plan::LinkedProgram> linked;  // by program
    std::vector<EngineTrack> tracks;
    std::vector<std::vector<TrackId>> groups;  // members that must meet
    trace::LaunchTimes launch;                 // of the host
    trace::GraphLaunches graphs;               // ops that it launches together
    std::int64_t launch_queue = 1024;          // ops that the host may be ahead of the device
    // Compute advances at 1000 ÷ (1000 + this) of its rate while the rank communicates. Times a
    // duration, 1000 + this stays below 2^63.
    std::int64_t compute_slowdown_permille = 0;
    // That ops of different kinds share in a node, one direction; 0: each has it to itself.
    std::int64_t node_network_kBps = 0;
    // A world that asks what waiting costs: an exchange begins when its own rank is ready, whatever
    // its peers do. It takes as long as its longest transfer.
    bool peers_never_wait = false;
    const std::atomic<bool>* stop = nullptr;  // becomes true: the run ends with Stopped
};

// Thrown where whoever asked for a result wants it no more.
class Stopped : public std::exception {
  public:
    const char* what() const noexcept override { return "stopped"; }
};

// Who waits for what when nothing can happen any more.
struct StuckTrack {
    TrackId track = 0;
    std::uint32_t op = 0;   // the head of a stream that does not start
    std::string waits_for;  // in words
};

// Is told of each op when it has ended, in order of time; the engine itself forgets it.
class EngineListener {
  public:
    virtual ~EngineListener() = default;
    // `number`: of the op across blocks.
    virtual void ended(TrackId track, std::uint32_t op, std::uint32_t number,
                       const trace::Event& event) = 0;
};

struct EngineRun {
    std::uint64_t processed = 0;    // op events
    std::vector<StuckTrack> stuck;  // not empty: a deadlock, some ops have not ended
};

// Throws ProfileError when the step takes longer than kLongestStep, the end of a trace's clock;
// durations are below a tenth of that. Throws Stopped within some thousand events of the wish.
inline constexpr Picoseconds kLongestStep = Picoseconds{1} << 61;
EngineRun run_engine(const EngineInput& input, EngineListener& listener);
// The same with these tracks for the input's: ops that take another time. Several may run at once.
EngineRun run_engine(const EngineInput& input, const std::vector<EngineTrack>& tracks,
                     EngineListener& listener);

// The same run in turns with those of other jobs, each on a clock of its own, over links that they
// share: whoever drives them has them all settle their flows before time moves on.
class EngineInTurns {
  public:
    // `input` must outlive it.
    explicit EngineInTurns(const EngineInput& input);
    ~EngineInTurns();
    // A copy goes on from where the other is; it is to be told of a listener of its own.
    EngineInTurns(const EngineInTurns&);
    EngineInTurns& operator=(const EngineInTurns&) = delete;
    EngineInTurns(EngineInTurns&&) noexcept;
    EngineInTurns& operator=(EngineInTurns&&) noexcept;

    // From 0 on the run's clock, again if it has run before; off the links. `calls`: see
    // NetworkFlows::record.
    void begin(EngineListener& listener, std::vector<FlowCall>* calls = nullptr);
    void tell(EngineListener& listener);  // from now on
    NetworkFlows& flows();                // to join links, and to leave them
    bool over() const;
    std::uint64_t processed() const;  // op events so far
    Picoseconds next_time() const;    // of what happens next; must not be over
    void run_moment();                // all that happens then
    // Tells the links what the nodes allow, where that may have changed; whether it may.
    bool ask();
    void limit(std::int32_t flow, std::int64_t rate);
    void grant(Picoseconds now);  // moves ends, once all are told
    EngineRun finish();           // once it is over

  private:
    struct Running;
    std::unique_ptr<Running> running_;
};

// The same as run_engine, with every event kept.
struct EngineResult : EngineRun {
    std::vector<std::vector<trace::Event>> events;  // by track, by op id
};
EngineResult run_engine(const EngineInput& input);
EngineResult run_engine(const EngineInput& input, const std::vector<EngineTrack>& tracks);

}  // namespace orrery::sim
