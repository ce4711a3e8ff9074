#include "sim/search/stage_costs.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/blocks/dims.hpp"
#include "plan/memory/arena.hpp"
#include "plan/passes/program_builder.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "sim/engine/drawn_cluster.hpp"
#include "sim/engine/engine.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kUnitStages = 4;        // first, middle, middle with more layers, last
constexpr std::int64_t kUnitMicroBatches = 4;  // two of them neither first nor last
constexpr std::int64_t kLongestPattern = 12;   // of kinds of layers
constexpr std::size_t kMostParts = 16;         // of units, that are kept for the next

// Layers after which the kinds of a model's layers begin anew.
std::int64_t pattern_of(const plan::Model& model) {
    if (model.kind_of_layer.empty()) return 1;
    const auto& kinds = model.kind_of_layer;
    const auto layers = static_cast<std::int64_t>(kinds.size());
    for (std::int64_t period = 1; period <= std::min(kLongestPattern, layers); ++period) {
        bool repeats = true;
        for (std::size_t i = static_cast<std::size_t>(period); i < kinds.size(); ++i)
            repeats = repeats && kinds[i] == kinds[i - static_cast<std::size_t>(period)];
        if (repeats) return period;
    }
    return std::min(kLongestPattern, layers);
}

// Layers that a stage has more of from one plan to the next.
std::int64_t period_of(const plan::Scenario& unit) {
    const std::int64_t of_recompute = std::max<std::int64_t>(1, unit.layout.recompute_every);
    return std::lcm(pattern_of(unit.model), of_recompute);
}

// From so many on each layer adds the same: rings of gathered parameters and of reduced gradients
// have all their slots.
std::int64_t least_layers(const plan::Scenario& unit, std::int64_t period) {
    if (!plan::sharding_of(unit).gradients) return period;
    const std::int64_t slots = unit.training.framework.zero_prefetch + 1;
    return (slots + period - 1) / period * period;
}

// What one plan says of the stage of one of its programs.
struct Sample {
    std::array<double, kPasses> lead{}, busy{}, tail{}, undisturbed{}, while_running{};
    double elements = 0, expert_elements = 0, step_seconds = 0, stepped = 0;
    double whole_states = 0, shared_states = 0, shared_expert_states = 0, fixed = 0, at_end = 0;
    double until_backward = 0, until_weights = 0, between_halves = 0;
    double host_states = 0, host_shared_states = 0, host_in_flight = 0;
};

bool of_passes(plan::Stream stream) {
    return stream == plan::Stream::tensor_comm || stream == plan::Stream::context_comm ||
           stream == plan::Stream::expert_comm;
}

// Each program's own costs from its plan and what the engine made of it.
class Sampler {
  public:
    Sampler(const plan::Plan& plan, const plan::Program& program, const plan::LinkedProgram& linked,
            const std::vector<trace::Event>& events, int repetitions)
        : plan_(plan), program_(program), linked_(linked), events_(events) {
        of_one_ = linked.size() / static_cast<std::size_t>(repetitions);
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                stream_.push_back(op.stream);
    }

    Sample take() {
        times();
        states();
        in_flight();
        running();
        return sample_;
    }

  private:
    struct Extent {
        Picoseconds compute_begin = std::numeric_limits<Picoseconds>::max();
        Picoseconds compute_end = 0;
        Picoseconds begin = std::numeric_limits<Picoseconds>::max();
        Picoseconds end = 0;
        Picoseconds kernels = 0, messages = 0;
        bool computes() const { return compute_end > 0; }
    };

    static std::optional<std::size_t> pass_of(const plan::Step& step) {
        if (!plan::is_compute(step.action.kind)) return std::nullopt;
        return static_cast<std::size_t>(step.action.kind);
    }
    // Neither the first micro-batch nor the last: those begin and end the step, too.
    static bool usual(const plan::Step& step) {
        return step.action.micro_batch > 0 && step.action.micro_batch + 1 < kUnitMicroBatches;
    }

    void times() {
        std::vector<Extent> extents(program_.steps.size());
        for (std::size_t id = 0; id < of_one_; ++id) {
            Extent& extent = extents[linked_.step[id]];
            const trace::Event& event = events_[id];
            const plan::Stream stream = stream_[linked_.op[id]];
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
            }
        }
        std::array<double, kPasses> count{};
        sample_.lead.fill(std::numeric_limits<double>::max());
        const std::vector<std::optional<double>> leads = leads_of_received(extents);
        for (std::size_t s = 0; s < extents.size(); ++s) {
            const Extent& extent = extents[s];
            const auto pass = pass_of(program_.steps[s]);
            if (!pass) sample_.step_seconds += to_seconds(extent.kernels);
            if (!pass || !extent.computes() || !usual(program_.steps[s])) continue;
            const double lead =
                leads[s] ? *leads[s] : to_seconds(extent.compute_begin - extent.begin);
            sample_.lead[*pass] = std::min(sample_.lead[*pass], lead);
            sample_.busy[*pass] += to_seconds(extent.compute_end - extent.compute_begin);
            sample_.tail[*pass] += to_seconds(extent.end - extent.compute_end);
            // Where no kernel runs messages are waited for; the others run beside kernels.
            const Picoseconds waited = extent.end - extent.begin - extent.kernels;
            const Picoseconds beside = std::max<Picoseconds>(0, extent.messages - waited);
            sample_.undisturbed[*pass] +=
                to_seconds(std::max<Picoseconds>(0, extent.kernels - beside));
            count[*pass] += 1;
        }
        for (std::size_t pass = 0; pass < kPasses; ++pass) {
            if (count[pass] == 0) sample_.lead[pass] = 0;
            if (count[pass] == 0) continue;
            sample_.busy[pass] /= count[pass];
            sample_.tail[pass] /= count[pass];
            sample_.undisturbed[pass] /= count[pass];
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
            const plan::Stream stream = stream_[linked_.op[id]];
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
    const plan::LinkedProgram& linked_;
    const std::vector<trace::Event>& events_;
    std::size_t of_one_ = 0;
    std::vector<plan::Stream> stream_;  // by op number
    std::vector<bool> is_state_;
    std::array<Passes, kUnitMicroBatches> passes_;
    double persistent_ = 0;
    Sample sample_;
};

// Exchanges with data- and pipeline-parallel ranks take no time: they are added layout by layout.
void silence_other_ranks(const plan::Plan& plan, Machine& machine) {
    std::vector<bool> silent;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            silent.push_back(
                plan::is_communication(op.kind()) && op.group != plan::GroupKind::tensor &&
                op.group != plan::GroupKind::context && op.group != plan::GroupKind::expert);
    for (const auto& table : machine.tables)
        for (std::size_t op = 0; op < silent.size(); ++op) {
            if (!silent[op]) continue;
            table->durations[op] = 0;
            table->network[op] = {};
        }
    for (EngineTrack& track : machine.input.tracks) {
        std::fill(track.transfer_to_peer.begin(), track.transfer_to_peer.end(), 0);
        for (auto& hops : track.statistic_to_peer)
            std::fill(hops.begin(), hops.end(), 0);
        std::fill(track.use_to_peer.begin(), track.use_to_peer.end(), NetworkUse{});
    }
}

// The cluster, or one like it with room for a plan of more stages than it was made for. What passes
// between the stages is left out of account; groups within them lie as they do.
plan::Cluster with_room(plan::Cluster cluster, std::int64_t ranks) {
    if (cluster.devices() >= ranks) return cluster;
    if (cluster.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh ||
        cluster.intra_node.kind == plan::IntraNodeKind::torus || cluster.nodes > 1) {
        if (cluster.inter_node.kind == plan::InterNodeKind::none) {
            cluster.inter_node.kind = plan::InterNodeKind::ethernet;
            cluster.inter_node.nics_per_node = 1;
            cluster.inter_node.bandwidth_Gbps = 100;
        }
        cluster.nodes = (ranks + cluster.devices_per_node - 1) / cluster.devices_per_node;
        return cluster;
    }
    // With a link for each pair each has its share of what a device sends.
    if (cluster.intra_node.kind == plan::IntraNodeKind::xgmi)
        cluster.intra_node.bandwidth_GBps *=
            static_cast<double>(ranks - 1) /
            static_cast<double>(std::max<std::int64_t>(1, cluster.devices_per_node - 1));
    cluster.devices_per_node = ranks;
    return cluster;
}

struct Samples {
    std::vector<Sample> stages;
    std::int64_t boundary_bytes = 0;
};

// Of a plan with so many layers on each stage.
Samples samples_of(plan::Scenario unit, const std::vector<std::int64_t>& layers,
                   UnitMachines& machines) {
    plan::Layout& layout = unit.layout;
    unit.cluster = with_room(std::move(unit.cluster), layout.ranks());
    layout.layers_per_stage = layers;
    unit.model.layers = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
    if (!unit.model.kind_of_layer.empty()) {
        const auto pattern = static_cast<std::size_t>(pattern_of(unit.model));
        std::vector<std::int32_t> kinds;
        for (std::int64_t l = 0; l < unit.model.layers; ++l)
            kinds.push_back(unit.model.kind_of_layer[static_cast<std::size_t>(l) % pattern]);
        unit.model.kind_of_layer = std::move(kinds);
    }
    plan::PlanParts parts = machines.take_parts(unit);
    plan::Plan plan = plan::assemble_plan(unit, parts);
    Machine machine = machines.build(plan, unit);
    silence_other_ranks(plan, machine);
    machine.input.peers_never_wait = true;  // a pass takes what it takes, not what others keep it
    const EngineResult result = run_engine(machine.input);
    Samples samples;
    samples.boundary_bytes =
        plan::message_bytes(plan.blocks[static_cast<std::size_t>(plan.exchange_block)].ops.front());
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
            if (static_cast<std::size_t>(machine.input.tracks[t].program) != p) continue;
            samples.stages.push_back(Sampler(plan, plan.programs[p], machine.input.linked[p],
                                             result.events[t], machine.repetitions)
                                         .take());
            break;
        }
    parts.put_back(std::move(plan));
    machines.put_back(std::move(parts));
    return samples;
}

// What `two` has more than `one`, by the layers that it has more; and of a stage like `at`, with
// `few` layers, what it has beside these.
StageCosts costs_of(const Sample& at, std::int64_t few, const Sample& one, const Sample& two,
                    std::int64_t more) {
    const auto layers = static_cast<double>(few), added = static_cast<double>(more);
    const auto even = [&](auto value) {
        const double layer = (value(two) - value(one)) / added;
        return ByLayers{value(at) - layer * layers, layer};
    };
    const auto of = [&](double Sample::*member) {
        return even([member](const Sample& sample) { return sample.*member; });
    };
    const auto of_pass = [&](std::array<double, kPasses> Sample::*member, std::size_t pass) {
        return even([&](const Sample& sample) { return (sample.*member)[pass]; });
    };
    StageCosts costs;
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
        costs.lead[pass] = of_pass(&Sample::lead, pass);
        costs.busy[pass] = of_pass(&Sample::busy, pass);
        costs.tail[pass] = of_pass(&Sample::tail, pass);
        costs.undisturbed[pass] = of_pass(&Sample::undisturbed, pass);
        costs.while_running[pass] = of_pass(&Sample::while_running, pass);
    }
    // A schedule that splits some backward passes runs the others whole.
    const auto both = [](std::array<ByLayers, kPasses>& passes) {
        if (passes[1].base == 0 && passes[1].layer == 0)
            passes[1] = {passes[2].base + passes[3].base, passes[2].layer + passes[3].layer};
    };
    both(costs.busy);
    both(costs.undisturbed);
    costs.elements = of(&Sample::elements);
    costs.expert_elements = of(&Sample::expert_elements);
    const double stepped = two.stepped - one.stepped;
    if (stepped > 0) costs.step_per_element = (two.step_seconds - one.step_seconds) / stepped;
    costs.step_seconds = std::max(0.0, at.step_seconds - costs.step_per_element * at.stepped);
    costs.whole_states = of(&Sample::whole_states);
    costs.shared_states = of(&Sample::shared_states);
    costs.shared_expert_states = of(&Sample::shared_expert_states);
    costs.fixed = of(&Sample::fixed);
    costs.until_backward = of(&Sample::until_backward);
    costs.until_weights = of(&Sample::until_weights);
    costs.between_halves = of(&Sample::between_halves);
    costs.at_end = of(&Sample::at_end);
    costs.host_states = of(&Sample::host_states);
    costs.host_shared_states = of(&Sample::host_shared_states);
    costs.host_in_flight = of(&Sample::host_in_flight);
    return costs;
}

// Of a plan without a pipeline, and one with more layers.
UnitCosts costs_of_one_stage(const plan::Scenario& unit, std::int64_t few, std::int64_t more,
                             UnitMachines& machines) {
    const Samples one = samples_of(unit, {few}, machines);
    const Samples two = samples_of(unit, {few + more}, machines);
    UnitCosts costs;
    costs.boundary_bytes = one.boundary_bytes;
    costs.stages[static_cast<std::size_t>(StagePlace::only)] =
        costs_of(one.stages[0], few, one.stages[0], two.stages[0], more);
    return costs;
}

// A layer more is the same wherever it is: the two middle stages say what it costs.
UnitCosts costs_of_pipeline(const plan::Scenario& unit, std::int64_t few, std::int64_t more,
                            UnitMachines& machines) {
    const Samples samples = samples_of(unit, {few, few, few + more, few}, machines);
    const auto& stages = samples.stages;
    UnitCosts costs;
    costs.boundary_bytes = samples.boundary_bytes;
    const auto set = [&](StagePlace place, const Sample& at) {
        costs.stages[static_cast<std::size_t>(place)] =
            costs_of(at, few, stages[1], stages[2], more);
    };
    set(StagePlace::first, stages[0]);
    set(StagePlace::middle, stages[1]);
    set(StagePlace::last, stages[3]);
    return costs;
}

}  // namespace

plan::Layout unit_layout(const plan::Scenario& scenario, bool splits_backward) {
    plan::Layout unit = scenario.layout;
    const std::int64_t most =
        *std::max_element(unit.layers_per_stage.begin(), unit.layers_per_stage.end());
    if (unit.recompute == plan::Recompute::every_k)
        unit.recompute_every = plan::layers_per_group(scenario.layout, most);
    unit.schedule = splits_backward ? "zb-h1" : "1f1b";
    if (unit.pipeline_parallel > 1) unit.pipeline_parallel = kUnitStages;
    unit.virtual_pipeline = 1;
    // So many that groups of experts are whole, twice if the layout has them twice.
    const std::int64_t group = unit.expert_parallel * unit.expert_tensor_parallel;
    const std::int64_t least =
        group / std::gcd(group, unit.tensor_parallel * unit.context_parallel);
    unit.data_parallel = least * std::min<std::int64_t>(2, unit.data_parallel / least);
    unit.zero_group_size = 0;
    unit.global_batch_size = kUnitMicroBatches * unit.data_parallel * unit.micro_batch_size;
    unit.layers_per_stage.clear();
    // Embedding and head whole, wherever they go: with_shared_ends divides them.
    unit.vocabulary_parallel = plan::VocabularyParallel::none;
    return unit;
}

StageCosts with_shared_ends(const UnitCosts& unit, double ranks, double chunks) {
    const auto stage = [&](StagePlace place) -> const StageCosts& {
        return unit.stages[static_cast<std::size_t>(place)];
    };
    const StageCosts &first = stage(StagePlace::first), &last = stage(StagePlace::last);
    StageCosts shared = stage(StagePlace::middle);
    const auto divide = [&](ByLayers& all, const ByLayers& one, const ByLayers& other) {
        all.base += (one.base + other.base - 2 * all.base) / (ranks * chunks);
    };
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
        divide(shared.busy[pass], first.busy[pass], last.busy[pass]);
        divide(shared.undisturbed[pass], first.undisturbed[pass], last.undisturbed[pass]);
        divide(shared.while_running[pass], first.while_running[pass], last.while_running[pass]);
    }
    for (ByLayers StageCosts::*bytes :
         {&StageCosts::elements, &StageCosts::whole_states, &StageCosts::shared_states})
        divide(shared.*bytes, first.*bytes, last.*bytes);
    // However many micro-batches are in flight, the pieces keep something of two: one whose sums
    // are on their way and the next. Of what they hand over and are handed there are three inputs
    // of the head, and of its gradients, of the embedding's rows and of theirs two each.
    constexpr double kOfPieces = 2, kHanded = 9;
    for (ByLayers StageCosts::*bytes :
         {&StageCosts::until_backward, &StageCosts::until_weights, &StageCosts::between_halves}) {
        const double of_ends = (first.*bytes).base + (last.*bytes).base - 2 * (shared.*bytes).base;
        shared.fixed.base += kOfPieces * of_ends / ranks;
    }
    shared.fixed.base += kHanded * static_cast<double>(unit.boundary_bytes);
    return shared;
}

UnitMachines::UnitMachines(const plan::Cluster& cluster, const Profile& profile,
                           CollectiveTable collectives)
    : profile_(profile),
      collectives_(std::move(collectives)),
      cluster_(drawn_cluster(cluster)),
      network_(cluster_, {collectives_}) {}

Machine UnitMachines::build(const plan::Plan& plan, const plan::Scenario& unit) {
    const plan::Mesh& mesh = plan.mesh;
    const auto folded = [&](const plan::Cluster& cluster) {
        return fold_ranks(mesh, cluster, false, unit.model.has_experts());
    };
    if (cluster_.devices() < mesh.ranks()) {
        const plan::Cluster larger = drawn_cluster(unit.cluster);
        const MixedNetwork network(larger, {collectives_});
        const Classes classes = folded(larger);
        const MachineParts parts{larger, network, classes};
        return build_machine(plan, unit, profile_, false, nullptr, &parts);
    }
    const Classes& classes = classes_.get({mesh.tensor, mesh.context, mesh.data, mesh.pipeline,
                                           mesh.shard, mesh.expert, mesh.expert_split},
                                          [&] { return folded(cluster_); });
    const MachineParts parts{cluster_, network_, classes};
    return build_machine(plan, unit, profile_, false, nullptr, &parts);
}

plan::PlanParts UnitMachines::take_parts(const plan::Scenario& unit) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(parts_.begin(), parts_.end(),
                                    [&](const plan::PlanParts& kept) { return kept.like(unit); });
    if (found == parts_.end()) return {};
    plan::PlanParts parts = std::move(*found);
    parts_.erase(found);
    return parts;
}

void UnitMachines::put_back(plan::PlanParts parts) {
    const std::lock_guard lock(mutex_);
    parts_.push_back(std::move(parts));
    if (parts_.size() > kMostParts) parts_.pop_front();
}

UnitCosts unit_costs(const plan::Scenario& unit, UnitMachines& machines) {
    UnitCosts costs;
    try {
        const std::int64_t period = period_of(unit);
        const std::int64_t few = least_layers(unit, period);
        costs = unit.layout.pipeline_parallel > 1 ? costs_of_pipeline(unit, few, period, machines)
                                                  : costs_of_one_stage(unit, few, period, machines);
        const plan::Dims dims = plan::dims_of(unit);
        costs.gradient_bytes = static_cast<double>(plan::size_bytes(dims.gradient_dtype));
        costs.parameter_bytes = static_cast<double>(plan::size_bytes(dims.dtype));
    } catch (const plan::ScenarioError& error) {
        costs.error = error.diagnostic().code;
    }
    return costs;
}

}  // namespace orrery::sim
