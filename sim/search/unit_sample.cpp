#include "sim/search/unit_sample.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "plan/memory/arena.hpp"
#include "sim/engine/engine.hpp"

namespace orrery::sim {
namespace {

bool of_passes(plan::Stream stream) {
    return stream == plan::Stream::tensor_comm || stream == plan::Stream::context_comm ||
           stream == plan::Stream::expert_comm;
}

std::optional<std::size_t> pass_of(const plan::Step& step) {
    if (!plan::is_compute(step.action.kind)) return std::nullopt;
    return static_cast<std::size_t>(step.action.kind);
}

// A program's times.
class TimeSampler {
  public:
    // By op number.
    struct Kind {
        plan::Stream stream;
        Picoseconds launch;
    };
    TimeSampler(const plan::Program& program, const plan::LinkedProgram& linked,
                const std::vector<trace::Event>& events, const std::vector<Kind>& kinds,
                int repetitions)
        : program_(program),
          linked_(linked),
          events_(events),
          kinds_(kinds),
          of_one_(linked.size() / static_cast<std::size_t>(repetitions)) {}

    SampledTimes take() {
        times();
        return times_;
    }

  private:
    struct Extent {
        Picoseconds compute_begin = std::numeric_limits<Picoseconds>::max();
        Picoseconds compute_end = 0;
        Picoseconds begin = std::numeric_limits<Picoseconds>::max();
        Picoseconds end = 0;
        Picoseconds kernels = 0, messages = 0;
        Picoseconds issued = 0;  // what the host takes for its ops
        // The most that an op would be issued later than it starts, if the host began at 0.
        Picoseconds late = std::numeric_limits<Picoseconds>::min();
        bool computes() const { return compute_end > 0; }
    };

    // Neither the first micro-batch nor the last: those begin and end the step, too.
    static bool usual(const plan::Step& step) {
        return step.action.micro_batch > 0 && step.action.micro_batch + 1 < kUnitMicroBatches;
    }

    void times() {
        std::vector<Extent> extents(program_.steps.size());
        for (std::size_t id = 0; id < of_one_; ++id) {
            Extent& extent = extents[linked_.step[id]];
            const trace::Event& event = events_[id];
            extent.issued += kinds_[linked_.op[id]].launch;
            const plan::Stream stream = kinds_[linked_.op[id]].stream;
            const bool kernel = stream == plan::Stream::compute || stream == plan::Stream::server;
            if (kernel) {
                extent.compute_begin = std::min(extent.compute_begin, event.start);
                extent.compute_end = std::max(extent.compute_end, event.end);
                extent.kernels += event.end - event.start;
            }
            if (of_passes(stream)) extent.messages += event.end - event.start;
            if (kernel || of_passes(stream)) {
                extent.begin = std::min(extent.begin, event.start);
                extent.end = std::max(extent.end, event.end);
                extent.late = std::max(extent.late, extent.issued - event.start);
            }
        }
        std::array<double, kPasses> count{};
        times_.lead.fill(std::numeric_limits<double>::max());
        const std::vector<std::optional<double>> leads = leads_of_received(extents);
        for (std::size_t s = 0; s < extents.size(); ++s) {
            const Extent& extent = extents[s];
            const auto pass = pass_of(program_.steps[s]);
            if (!pass) times_.step_seconds += to_seconds(extent.kernels);
            if (!pass || !extent.computes() || !usual(program_.steps[s])) continue;
            const double lead =
                leads[s] ? *leads[s] : to_seconds(extent.compute_begin - extent.begin);
            times_.lead[*pass] = std::min(times_.lead[*pass], lead);
            times_.busy[*pass] += to_seconds(extent.compute_end - extent.compute_begin);
            times_.tail[*pass] += to_seconds(extent.end - extent.compute_end);
            times_.launched[*pass] += to_seconds(extent.late + extent.begin);
            // Where no kernel runs messages are waited for; the others run beside kernels.
            const Picoseconds waited = extent.end - extent.begin - extent.kernels;
            const Picoseconds beside = std::max<Picoseconds>(0, extent.messages - waited);
            times_.undisturbed[*pass] +=
                to_seconds(std::max<Picoseconds>(0, extent.kernels - beside));
            count[*pass] += 1;
        }
        for (std::size_t pass = 0; pass < kPasses; ++pass) {
            if (count[pass] == 0) times_.lead[pass] = 0;
            if (count[pass] == 0) continue;
            times_.busy[pass] /= count[pass];
            times_.tail[pass] /= count[pass];
            times_.undisturbed[pass] /= count[pass];
            times_.launched[pass] /= count[pass];
        }
    }

    // What is the outcome of a message: on each stream, from which of its ops on and when after it.
    struct Reached {
        std::uint32_t number = 0;  // counted from the start of the step; 0: none yet
        double after = 0;
    };
    using Reaches = std::array<Reached, plan::kStreams>;

    // From having what a pass receives to its first kernel that needs it, less what kernels there
    // are before: a layer that is made again needs no gradient. Nothing of passes that receive
    // nothing.
    std::vector<std::optional<double>> leads_of_received(const std::vector<Extent>& extents) const {
        std::vector<std::optional<double>> leads(extents.size());
        std::map<plan::Action, Reaches> messages;  // by their receiving action
        Reaches reached{};
        plan::StreamCounts issued{};
        for (std::size_t id = 0; id < of_one_; ++id) {
            const std::size_t step = linked_.step[id];
            const plan::Stream stream = kinds_[linked_.op[id]].stream;
            const auto own = static_cast<std::size_t>(stream);
            const std::uint32_t number = ++issued[own];
            for (const plan::Transfer& transfer : program_.steps[step].transfers)
                messages[transfer.action][own] = {number, 0};
            const auto pass = pass_of(program_.steps[step]);
            if (!pass || leads[step]) continue;
            if (id == 0 || linked_.step[id - 1] != step) {
                const auto message = messages.find(received_by(program_.steps[step].action));
                reached = message == messages.end() ? Reaches{} : message->second;
            }
            bool follows = reached[own].number > 0;
            double after = reached[own].after;
            for (std::uint32_t w = linked_.first_wait[id]; w < linked_.first_wait[id + 1]; ++w) {
                const Reached& of = reached[static_cast<std::size_t>(linked_.waits[w].stream)];
                if (of.number == 0 || linked_.waits[w].count < of.number) continue;
                follows = true;
                after = std::max(after, of.after);
            }
            if (!follows) continue;
            const trace::Event& event = events_[id];
            if (stream == plan::Stream::compute)
                leads[step] = after - to_seconds(event.start - extents[step].compute_begin);
            else
                reached[own] = {reached[own].number > 0 ? reached[own].number : number,
                                after + to_seconds(event.end - event.start)};
        }
        return leads;
    }
    static plan::Action received_by(plan::Action pass) {
        const bool onward = pass.kind == plan::ActionKind::forward;
        pass.kind = onward ? plan::ActionKind::recv_f : plan::ActionKind::recv_b;
        return pass;
    }

    const plan::Program& program_;
    const plan::LinkedProgram& linked_;
    const std::vector<trace::Event>& events_;
    const std::vector<Kind>& kinds_;
    std::size_t of_one_;
    SampledTimes times_;
};

// What a program has alive.
class ByteSampler {
  public:
    ByteSampler(const plan::Plan& plan, const plan::Program& program)
        : plan_(plan), program_(program) {}

    SampledBytes take() {
        states();
        in_flight();
        running();
        sample_.groups = plan::groups_named(plan_, program_);
        return sample_;
    }

  private:
    const plan::Resident& resident(std::int32_t id) const {
        return program_.residents[static_cast<std::size_t>(id)];
    }

    void states() {
        is_state_.assign(program_.residents.size(), false);
        for (const plan::Bucket& bucket : program_.buckets) {
            const double ranks = static_cast<double>(plan_.mesh.group_size(bucket.sharing()));
            (bucket.experts ? sample_.expert_elements : sample_.elements) +=
                static_cast<double>(bucket.elements + bucket.tied_elements);
            sample_.stepped += static_cast<double>(bucket.stepped(plan_.mesh));
            for (const plan::BucketState& state : bucket.states) {
                const std::int32_t id = bucket.resident(state.kind);
                if (id < 0) continue;
                const plan::Resident& keeper = resident(plan::keeper_of(program_, id));
                const double bytes =
                    static_cast<double>(bucket.room(state.kind, plan_.mesh) *
                                        plan::size_bytes(state.dtype) * keeper.turns);
                const bool shared = state.extent == plan::Extent::shard;
                const bool off = keeper.tier != plan::Tier::device;
                double& on_device =
                    bucket.experts ? sample_.shared_expert_states : sample_.shared_states;
                double& sum = off ? (shared ? sample_.host_shared_states : sample_.host_states)
                                  : (shared ? on_device : sample_.whole_states);
                sum += shared ? bytes * ranks : bytes;
                is_state_[static_cast<std::size_t>(plan::keeper_of(program_, id))] = true;
            }
        }
        const auto last = static_cast<std::int32_t>(program_.steps.size()) - 1;
        for (std::size_t i = 0; i < program_.residents.size(); ++i) {
            const plan::Resident& one = program_.residents[i];
            const auto id = static_cast<std::int32_t>(i);
            if (id == program_.scratch || id == program_.recomputed) continue;
            if (one.tier != plan::Tier::device || one.within >= 0) continue;
            if (one.first_step > 0 || one.last_step < last) continue;
            persistent_ += static_cast<double>(one.bytes);
            if (!is_state_[i]) sample_.fixed += static_cast<double>(one.bytes);
        }
    }

    struct Passes {
        std::int32_t forward = -1, backward = -1, weights = -1;  // steps; backward: the input's
    };

    // The bytes of a micro-batch by how long they live.
    void in_flight() {
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            const plan::Action& action = program_.steps[s].action;
            if (!plan::is_compute(action.kind)) continue;
            Passes& of = passes_[static_cast<std::size_t>(action.micro_batch)];
            const auto step = static_cast<std::int32_t>(s);
            if (action.kind == plan::ActionKind::forward)
                of.forward = step;
            else if (action.kind == plan::ActionKind::backward_weight)
                of.weights = step;
            else
                of.backward = step;
        }
        std::vector<bool> seen(program_.residents.size());
        for (const plan::Step& step : program_.steps) {
            if (step.action.micro_batch != 1) continue;
            std::vector<std::int32_t> ids = {step.stash,    step.input,    step.output, step.kept,
                                             step.deferred, step.received, step.stored};
            for (const plan::Transfer& transfer : step.transfers)
                if (transfer.action.micro_batch == 1) ids.push_back(transfer.resident);
            for (const std::int32_t id : ids) {
                if (id < 0 || seen[static_cast<std::size_t>(id)]) continue;
                seen[static_cast<std::size_t>(id)] = true;
                add_in_flight(resident(id), passes_[1]);
            }
        }
    }

    void add_in_flight(const plan::Resident& one, const Passes& of) {
        const double bytes = static_cast<double>(one.bytes);
        if (one.tier != plan::Tier::device) {
            sample_.host_in_flight += bytes;
            return;
        }
        if (one.within >= 0) return;
        const bool from_forward = one.first_step <= of.forward;
        const bool to_weights = of.weights >= 0 && one.last_step >= of.weights;
        if (from_forward && to_weights)
            sample_.until_weights += bytes;
        else if (from_forward && one.last_step >= of.backward)
            sample_.until_backward += bytes;
        else if (to_weights && one.first_step <= of.backward)
            sample_.between_halves += bytes;
    }

    // What lives beside states and micro-batches in flight.
    void running() {
        const std::vector<std::int64_t> live = plan::live_bytes_by_step(plan_, program_);
        for (std::size_t s = 0; s < live.size(); ++s) {
            const auto step = static_cast<std::int32_t>(s);
            double known = persistent_;
            for (const Passes& of : passes_) {
                const std::int32_t end = of.weights >= 0 ? of.weights : of.backward;
                if (of.forward <= step && step <= of.backward) known += sample_.until_backward;
                if (of.forward <= step && step <= end) known += sample_.until_weights;
                if (of.backward <= step && step <= end) known += sample_.between_halves;
            }
            const double beside = std::max(0.0, static_cast<double>(live[s]) - known);
            const auto pass = pass_of(program_.steps[s]);
            double& most = pass ? sample_.while_running[*pass] : sample_.at_end;
            // Between passes transfers hold what a pass beside them is counted with.
            if (pass || program_.steps[s].transfers.empty()) most = std::max(most, beside);
        }
    }

    const plan::Plan& plan_;
    const plan::Program& program_;
    std::vector<bool> is_state_;
    std::array<Passes, kUnitMicroBatches> passes_;
    double persistent_ = 0;
    SampledBytes sample_;
};

}  // namespace

std::vector<SampledTimes> sampled_times(const plan::Plan& plan, const Machine& machine) {
    const EngineResult result = run_engine(machine.input);
    const trace::GraphLaunches& graphs = machine.input.graphs;
    std::vector<TimeSampler::Kind> kinds;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            kinds.push_back(
                {op.stream, graphs.of(kinds.size(), machine.input.launch.of(op.kind(), op.phase))});
    std::vector<SampledTimes> times;
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
            if (static_cast<std::size_t>(machine.input.tracks[t].program) != p) continue;
            times.push_back(TimeSampler(plan.programs[p], machine.input.linked[p], result.events[t],
                                        kinds, machine.repetitions)
                                .take());
            break;
        }
    return times;
}

SampledBytes sampled_bytes(const plan::Plan& plan, const plan::Program& program) {
    return ByteSampler(plan, program).take();
}

}  // namespace orrery::sim
