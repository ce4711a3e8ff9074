#include "sim/search/layout_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "plan/assemble/bind_steps.hpp"
#include "plan/passes/program_builder.hpp"
#include "sim/communicators.hpp"
#include "sim/cuda_graphs.hpp"
#include "sim/machine.hpp"
#include "sim/search/asked_communicators.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::sim {
namespace {

using plan::Layout;
using plan::OpKind;

// Ranks that hold the same parameters, and where they lie: of a data group, or of those that hold
// the same experts.
struct Copies {
    const GroupShape &all, &shard, &replica;  // the parts'
    std::int64_t ranks = 1, sharing = 1;      // of all; that share out states between them
};

Copies copies_of(const Places& places, const Layout& layout) {
    return {places.data, places.shard, places.replica, layout.data_ranks(), layout.zero_ranks()};
}

Copies copies_of_experts(const Places& places, const Layout& layout) {
    return {places.expert_data, places.expert_shard, places.expert_replica,
            places.expert_data.ranks, layout.zero_stage > 0 ? places.expert_shard.ranks : 1};
}

// The communication of ranks that hold the same parameters.
class DataExchange {
  public:
    DataExchange(const NodeCosts& of, Copies copies, const plan::Scenario& scenario,
                 double slowdown)
        : network_(of.network),
          collectives_(of.collectives),
          copies_(copies),
          sharding_(copies.sharing > 1 ? plan::sharding_of(scenario) : plan::Sharding{}),
          slowdown_(slowdown) {}

    bool alone() const { return copies_.ranks == 1; }
    double sharing() const { return static_cast<double>(copies_.sharing); }
    double slowdown() const { return slowdown_; }
    bool shards_gradients() const { return sharding_.gradients; }
    bool shards_parameters() const { return sharding_.parameters; }

    double gather(double bytes) const {
        return collective(OpKind::all_gather, bytes, copies_.shard);
    }
    // Sums over all, of which each keeps what the layout says.
    double reduce(double bytes) const {
        if (copies_.sharing == 1) return collective(OpKind::all_reduce, bytes, copies_.all);
        return collective(OpKind::reduce_scatter, bytes, copies_.shard);
    }
    // What shards then are summed over.
    double reduce_replicas(double bytes) const {
        if (copies_.sharing == 1 || copies_.sharing == copies_.ranks) return 0;
        return collective(OpKind::all_reduce, bytes / sharing(), copies_.replica);
    }
    // What is left to reduce after the last micro-batch.
    double reduce_at_last(double bytes) const {
        return reduce_replicas(bytes) + (shards_gradients() ? 0 : reduce(bytes));
    }
    // A pass that runs beside communication, which slows down what of it runs undisturbed else: as
    // much as there is in the same share of its time.
    double beside(double busy, double undisturbed, double communication) const {
        if (busy <= 0) return busy;
        const double share = std::min(1.0, communication / busy);
        return std::max(busy + slowdown_ * undisturbed * share, communication);
    }

  private:
    double collective(OpKind kind, double bytes, const GroupShape& shape) const {
        if (bytes <= 0 || shape.ranks == 1) return 0;
        const auto whole = static_cast<std::int64_t>(bytes);
        return collectives_.get({&shape, kind, whole},
                                [&] { return network_.collective(kind, whole, shape).seconds; });
    }

    const Network& network_;
    Collectives& collectives_;
    Copies copies_;
    plan::Sharding sharding_;
    double slowdown_;
};

// Bytes that are reduced or gathered in buckets: seconds of all of them, and of one of layers.
struct InBuckets {
    double all = 0, one = 0;

    void operator+=(const InBuckets& other) {
        all += other.all;
        one += other.one;
    }
};

// Stages of one place and as many layers, and what follows from that.
struct StageKind {
    StagePlace place = StagePlace::middle;
    std::int64_t layers = 0;
    std::size_t node_kind = 0;
    const StageCosts* costs = nullptr;
    std::array<PassTimes, kPasses> passes{};
    InBuckets reduction;
    double gathered = 0;  // seconds, of parameters that the optimizer has changed
    // Bytes.
    double states = 0, fixed = 0, beside = 0, at_end = 0, slot = 0;
    InFlight in_flight;  // of a micro-batch
};

class Estimate {
  public:
    Estimate(const plan::Scenario& scenario, const EstimateParts& parts)
        : scenario_(scenario),
          layout_(scenario.layout),
          framework_(scenario.training.framework),
          nodes_(parts.nodes),
          unit_(parts.nodes.front().unit),
          skeleton_(parts.skeleton),
          places_(parts.places) {
        for (const NodeCosts& of : nodes_) {
            exchanges_.emplace_back(
                of, copies_of(parts.places, scenario.layout), scenario,
                (of.profile.overlap.compute_slowdown.value - 1) * framework_.overlap_factor);
            of_experts_.emplace_back(of, copies_of_experts(parts.places, scenario.layout), scenario,
                                     0);
        }
        if (layout_.shares_vocabulary())
            for (const NodeCosts& of : nodes_)
                shared_.push_back(with_shared_ends(of.unit,
                                                   static_cast<double>(layout_.pipeline_parallel),
                                                   static_cast<double>(layout_.virtual_pipeline)));
        find_nodes();
        kind_of_.resize(static_cast<std::size_t>(layout_.stages()));
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank)
            for (const std::int32_t stage : skeleton_.stages(rank))
                kind_of_[static_cast<std::size_t>(stage)] = kind_number(stage, node_of_[rank]);
        for (StageKind& kind : kinds_)
            complete(kind);
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank)
            repeats_.push_back(rank > 1 && has_kinds_of_last(rank));
    }

    UnwalkedEstimate make() { return {memory(), step()}; }

  private:
    LayoutEstimate memory() {
        LayoutEstimate estimate;
        const NodeCosts* fullest = nullptr;
        const std::vector<plan::Communicators> asked = communicators_asked_for();
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            const NodeCosts& of = nodes_[node_of_[rank]];
            const double peak = live_of(rank) + process_bytes(of.profile, asked[rank]);
            const double capacity = of.profile.hardware.capacity_bytes.value;
            if (fullest != nullptr &&
                peak * estimate.capacity_bytes <= estimate.peak_bytes * capacity)
                continue;
            fullest = &of;
            estimate.peak_bytes = peak;
            estimate.capacity_bytes = capacity;
        }
        estimate.fit_probability = fit_probability(estimate.peak_bytes, estimate.capacity_bytes,
                                                   stack_prior(framework_, fullest->profile));
        if (host_exceeded()) estimate.fit_probability = 0;
        return estimate;
    }

  public:
    StepOutline outline() {
        StepOutline outline;
        outline.pace = pace();
        outline.asks_all_ranks = asks_all_ranks(scenario_.training);
        outline.gathered_late = gathered_late();
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            look_at_stages_of(rank);
            const AfterReduction after = after_reduction(rank);
            outline.ranks.push_back({skeleton_.stages(rank), late_by(reduction_of(rank), rank),
                                     after.optimizer, after.gathering, of_rank_.kept,
                                     of_rank_.beside, of_rank_.at_end, of_chunk_});
        }
        return outline;
    }

  private:
    // By pipeline rank, the kind of its nodes on which a layer takes longest.
    void find_nodes() {
        if (nodes_.size() == 1) return node_of_.assign(skeleton_.ranks(), 0);
        const auto of_layer = [&](std::size_t kind) {
            const UnitCosts& unit = nodes_[kind].unit;
            double busy = 0;
            for (const StageCosts& stage : unit.stages)
                for (const ByLayers& pass : stage.busy)
                    busy = std::max(busy, pass.layer);
            return busy;
        };
        const std::int64_t of_rank = layout_.ranks() / layout_.pipeline_parallel;
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            const std::int64_t first = static_cast<std::int64_t>(rank) * of_rank;
            std::size_t slowest = scenario_.cluster.kind_of_device(first);
            for (std::size_t kind = slowest + 1;
                 kind < nodes_.size() &&
                 kind <= scenario_.cluster.kind_of_device(first + of_rank - 1);
                 ++kind)
                if (of_layer(kind) > of_layer(slowest)) slowest = kind;
            node_of_.push_back(slowest);
        }
    }

    std::size_t kind_number(std::int32_t stage, std::size_t node_kind) {
        const auto last = static_cast<std::int32_t>(layout_.stages()) - 1;
        StagePlace place = StagePlace::middle;
        if (layout_.pipeline_parallel == 1)
            place = StagePlace::only;
        else if (layout_.shares_vocabulary())
            place = StagePlace::middle;
        else if (stage == 0)
            place = StagePlace::first;
        else if (stage == last)
            place = StagePlace::last;
        const std::int64_t layers = layout_.layers_per_stage[static_cast<std::size_t>(stage)];
        for (std::size_t i = kinds_.size(); i-- > 0;)
            if (kinds_[i].place == place && kinds_[i].layers == layers &&
                kinds_[i].node_kind == node_kind)
                return i;
        StageKind kind;
        kind.place = place;
        kind.layers = layers;
        kind.node_kind = node_kind;
        kind.costs = layout_.shares_vocabulary()
                         ? &shared_[node_kind]
                         : &nodes_[node_kind].unit.stages[static_cast<std::size_t>(place)];
        kinds_.push_back(kind);
        return kinds_.size() - 1;
    }
    const StageKind& kind_of(std::int32_t stage) const {
        return kinds_[kind_of_[static_cast<std::size_t>(stage)]];
    }

    // Whether its stages are, one by one, of the kinds of the rank's before. Not asked of the first
    // two: where the last stage is on the first rank too, slots there are another matter.
    bool has_kinds_of_last(std::size_t rank) const {
        const auto &own = skeleton_.stages(rank), &last = skeleton_.stages(rank - 1);
        return std::equal(own.begin(), own.end(), last.begin(), last.end(),
                          [&](std::int32_t a, std::int32_t b) {
                              return kind_of_[static_cast<std::size_t>(a)] ==
                                     kind_of_[static_cast<std::size_t>(b)];
                          });
    }

    void complete(StageKind& kind) const {
        const StageCosts& costs = *kind.costs;
        const auto layers = static_cast<double>(kind.layers);
        kind.passes = passes_of(costs, layers, kind.node_kind);
        for (const auto& [of, elements] : parameters_of(costs, kind.node_kind)) {
            const auto* const exchange = of;
            if (!exchange->alone())
                kind.reduction +=
                    in_buckets(*elements, layers, unit_.gradient_bytes,
                               [&](double bytes) { return exchange->reduce_at_last(bytes); });
            if (gathers_changed())
                kind.gathered +=
                    in_buckets(*elements, layers, unit_.parameter_bytes, [&](double bytes) {
                        return exchange->gather(bytes);
                    }).all;
        }
        kind.states = costs.whole_states.of(layers) +
                      costs.shared_states.of(layers) / exchange().sharing() +
                      costs.shared_expert_states.of(layers) / of_experts_.front().sharing();
        kind.fixed = costs.fixed.layer * layers;
        for (const ByLayers& one : costs.while_running)
            kind.beside = std::max(kind.beside, one.of(layers));
        kind.at_end = costs.at_end.of(layers);
        kind.in_flight = {costs.until_backward.of(layers), costs.until_weights.of(layers),
                          costs.between_halves.of(layers)};
        kind.slot = kind.in_flight.until_backward + kind.in_flight.until_weights;
    }

    // A rank's parameters, by who else holds them.
    std::array<std::pair<const DataExchange*, const ByLayers*>, 2> parameters_of(
        const StageCosts& costs, std::size_t node_kind) const {
        return {{{&exchanges_[node_kind], &costs.elements},
                 {&of_experts_[node_kind], &costs.expert_elements}}};
    }
    // What is the layout's alone is the same on all nodes.
    const DataExchange& exchange() const { return exchanges_.front(); }

    // Passes of a stage; parameters that are gathered for each, and gradients that are reduced
    // after each, go beside.
    std::array<PassTimes, kPasses> passes_of(const StageCosts& costs, double layers,
                                             std::size_t node_kind) const {
        std::array<PassTimes, kPasses> passes;
        for (std::size_t pass = 0; pass < kPasses; ++pass) {
            passes[pass].busy = std::max(0.0, costs.busy[pass].of(layers));
            passes[pass].lead =
                std::max(plan::blocks_on_transfers(scenario_) ? 0 : -passes[pass].busy,
                         costs.lead[pass].of(layers));
            if (passes[pass].busy > 0)
                passes[pass].slowed =
                    exchanges_[node_kind].slowdown() *
                    std::clamp(costs.undisturbed[pass].of(layers) / passes[pass].busy, 0.0, 1.0);
            passes[pass].tail = std::max(0.0, costs.tail[pass].of(layers));
            if (host_waits_for_exchanges(scenario_, nodes_[node_kind].profile.hardware))
                passes[pass].launched = std::max(0.0, costs.launched[pass].of(layers));
        }
        if ((exchange().alone() && of_experts_.front().alone()) || !exchange().shards_gradients())
            return passes;
        // Of a layer, and of what a stage has beside layers.
        std::array<double, 2> reduced{}, gathered{};
        for (const auto& [exchange, elements] : parameters_of(costs, node_kind)) {
            const std::array counts = {elements->layer, elements->base};
            for (std::size_t part = 0; part < 2; ++part) {
                if (exchange->shards_gradients())
                    reduced[part] += exchange->reduce(counts[part] * unit_.gradient_bytes);
                if (exchange->shards_parameters())
                    gathered[part] += exchange->gather(counts[part] * unit_.parameter_bytes);
            }
        }
        const double again = layout_.reshard_after_forward ? 1 : 0;
        const std::array<std::array<double, 2>, kPasses> shares = {{
            {1, 0},      // forward gathers,
            {again, 1},  // backward does so again, and reduces,
            {again, 0},
            {0, 1},
        }};
        for (std::size_t pass = 0; pass < kPasses; ++pass) {
            const auto messages = [&](std::size_t part) {
                return shares[pass][0] * gathered[part] + shares[pass][1] * reduced[part];
            };
            passes[pass].busy =
                beside(exchanges_[node_kind], costs.busy[pass], costs.undisturbed[pass], layers,
                       messages(0), messages(1), exchange().shards_parameters());
            // The first layer's parameters come before it; behind it, on the same stream, its last
            // layer's gradients go. Without those the next pass's come beside its last layer.
            passes[pass].gathers = shares[pass][0] * gathered[layers < 1 ? 1 : 0];
            passes[pass].gathers_on =
                shares[pass][1] > 0 ? reduced[layers < 1 ? 1 : 0] : -costs.busy[pass].layer;
        }
        return passes;
    }

    // A pass whose parts each run beside the messages of the next one; of `apart` those of one part
    // go before it and behind it.
    static double beside(const DataExchange& exchange, const ByLayers& busy,
                         const ByLayers& undisturbed, double layers, double of_layer,
                         double of_rest, bool apart) {
        const double rest = std::max(0.0, busy.base);
        const double rest_undisturbed = std::clamp(undisturbed.base, 0.0, rest);
        if (layers < 1) return exchange.beside(rest, rest_undisturbed, of_rest);
        const auto layer = [&](double messages) {
            return exchange.beside(busy.layer, undisturbed.layer, messages);
        };
        if (of_rest <= 0)
            return (layers - 1) * layer(of_layer) + layer(apart ? 0 : of_layer) + rest;
        return (layers - 1) * layer(of_layer) + layer(of_rest) +
               exchange.beside(rest, rest_undisturbed, of_layer);
    }

    // A stage's layers and the rest of it in buckets of elements of so many bytes: what `price`
    // says of all of them, and of one of layers.
    template <typename Price>
    InBuckets in_buckets(const ByLayers& elements, double layers, double element_bytes,
                         Price price) const {
        const double target = 1e6 * std::max(framework_.gradient_bucket_mb,
                                             framework_.gradient_bucket_mb_per_rank *
                                                 static_cast<double>(layout_.data_ranks()));
        const double layer = elements.layer;
        InBuckets sum;
        if (layers > 0 && layer > 0) {
            const double at_once =
                std::clamp(std::ceil(target / (layer * unit_.gradient_bytes)), 1.0, layers);
            const double buckets = std::ceil(layers / at_once);
            sum.one = price(layer * layers / buckets * element_bytes);
            sum.all = buckets * sum.one;
        }
        if (elements.base > 0) sum.all += price(elements.base * element_bytes);
        return sum;
    }
    // Gradients that are reduced once per step; from ZeRO-2 on shards alone, over their replicas.
    InBuckets reduction_of(std::size_t rank) const {
        InBuckets reduction;
        for (const std::int32_t stage : skeleton_.stages(rank)) {
            reduction.all += kind_of(stage).reduction.all;
            reduction.one = kind_of(stage).reduction.one;
        }
        return reduction;
    }

    // How much later the rank is ready: by what is left of it after its last backward pass, and by
    // what passes take longer beside the rest.
    double late_by(const InBuckets& reduction, std::size_t rank) const {
        const double left = exposed(reduction, rank);
        const auto& passes = kind_of(skeleton_.stages(rank).front()).passes;
        return left + passes[passes[3].busy > 0 ? 3 : 1].slowed * (reduction.all - left);
    }

    // What of it is left after the rank's last backward pass. A chunk's gradients are complete
    // when its last micro-batch is; with several chunks those come a round of the pipeline apart.
    double exposed(const InBuckets& reduction, std::size_t rank) const {
        if (reduction.all == 0) return 0;
        if (!framework_.overlap_gradient_reduce) return reduction.all;
        const auto& stages = skeleton_.stages(rank);
        const auto chunks = static_cast<double>(stages.size());
        double backward = 0;  // of one chunk, what makes gradients of weights
        for (const std::int32_t stage : stages) {
            const auto& passes = kind_of(stage).passes;
            backward += passes[passes[3].busy > 0 ? 3 : 1].busy / chunks;
        }
        const double round = std::min(static_cast<double>(layout_.micro_batches()),
                                      static_cast<double>(layout_.pipeline_parallel));
        const double window = backward * (1 + (chunks - 1) * round);
        const double buckets = std::max(1.0, reduction.all / std::max(reduction.one, 1e-12));
        const double of_last = reduction.all / chunks - backward * (1 - chunks / buckets);
        return std::max({reduction.one, of_last, reduction.all - window});
    }

    double hop() const {
        double slowest = 0;
        if (layout_.pipeline_parallel > 1)
            for (const NodeCosts& of : nodes_)
                slowest = std::max(
                    slowest, of.network.point_to_point(unit_.boundary_bytes, places_.next).seconds);
        return slowest;
    }

    PipelinePace pace() const {
        PipelinePace pace{layout_.micro_batches(), hop(), plan::blocks_on_transfers(scenario_), {}};
        for (std::size_t stage = 0; stage < kind_of_.size(); ++stage)
            if (stage > 0 && kind_of_[stage] == kind_of_[stage - 1])
                ++pace.runs.back().stages;
            else
                pace.add(kinds_[kind_of_[stage]].passes);
        return pace;
    }

    UnwalkedStep step() const {
        UnwalkedStep step{
            &skeleton_, pace(), {}, asks_all_ranks(scenario_.training), gathered_late()};
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            if (!repeats_[rank])
                step.endings.push_back(
                    {0, late_by(reduction_of(rank), rank), after_reduction(rank).all()});
            ++step.endings.back().ranks;
        }
        return step;
    }

    // Parameters that the optimizer has changed: at once, or beside the next step's first pass.
    bool gathers_changed() const {
        return layout_.zero_ranks() > 1 && !exchange().shards_parameters();
    }
    bool gathers_after() const {
        return gathers_changed() && !plan::gathers_parameters_ahead(scenario_);
    }

    // What of gathering beside the next step's first passes these do not hide, and what they take
    // longer beside the rest; those of later stages begin when the ones before have passed.
    double gathered_late() const {
        if (!gathers_changed() || gathers_after()) return 0;
        double late = 0, passed = 0, slowed = 0;
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            const StageKind& kind = kind_of(skeleton_.stages(rank).front());
            const PassTimes& pass = kind.passes[0];
            passed += pass.busy;
            late = std::max(late, kind.gathered - passed);
            slowed = std::max(slowed, pass.slowed * std::min(kind.gathered, pass.busy));
        }
        return late + slowed;
    }

    // The optimizer, and the gathering of what it has changed.
    struct AfterReduction {
        double optimizer = 0, gathering = 0;
        double all() const { return optimizer + gathering; }
    };
    AfterReduction after_reduction(std::size_t rank) const {
        AfterReduction after;
        for (const std::int32_t stage : skeleton_.stages(rank)) {
            const StageKind& kind = kind_of(stage);
            const auto layers = static_cast<double>(kind.layers);
            const double stepped =
                kind.costs->elements.of(layers) / exchange().sharing() +
                kind.costs->expert_elements.of(layers) / of_experts_.front().sharing();
            after.optimizer = std::max(after.optimizer, kind.costs->step_seconds);
            after.optimizer += kind.costs->step_per_element * stepped;
            if (gathers_after()) after.gathering += kind.gathered;
        }
        return after;
    }

    // Bytes of the plan's memory at the peak, and what of the device's is lost with it.
    double live_of(std::size_t rank) {
        if (!repeats_[rank]) look_at_stages_of(rank);
        const double in_flight = skeleton_.most(rank, layout_.micro_batches(), of_chunk_);
        const double live = of_rank_.kept + std::max(in_flight + of_rank_.beside, of_rank_.at_end);
        return live * (1 + framework_.fragmentation) + of_rank_.lost;
    }

    void look_at_stages_of(std::size_t rank) {
        const auto& stages = skeleton_.stages(rank);
        double states = 0, fixed = 0, fixed_base = 0, beside = 0, at_end = 0;
        // Slots of different sizes in one arena: as the plan's first fit has it, one of them is
        // lost; not where the chunks end in the reverse of the order in which they began (V).
        double lost = 0, smallest = 0, largest = 0;
        of_chunk_.clear();
        for (const std::int32_t stage : stages) {
            const StageKind& kind = kind_of(stage);
            states += kind.states;
            fixed_base = std::max(fixed_base, kind.costs->fixed.base);
            fixed += kind.fixed;
            beside = std::max(beside, kind.beside);
            at_end = std::max(at_end, kind.at_end);
            largest = std::max(largest, kind.slot);
            smallest = smallest == 0 ? kind.slot : std::min(smallest, kind.slot);
            of_chunk_.push_back(kind.in_flight);
        }
        if (performs_the_plan(framework_) && largest > smallest && !folds_back(rank))
            lost = smallest;
        of_rank_ = {states + fixed + fixed_base, beside, at_end, lost};
    }

    // By rank; of stacks that make others none are named.
    std::vector<plan::Communicators> communicators_asked_for() const {
        std::vector<plan::Communicators> asked = skeleton_.transfers();
        if (!performs_the_plan(framework_)) return asked;
        for (std::size_t rank = 0; rank < asked.size(); ++rank)
            for (const std::int32_t stage : skeleton_.stages(rank))
                asked[rank].groups |= kind_of(stage).costs->groups;
        settle_communicators(scenario_, mesh_of(layout_), folds_back(0), asked);
        return asked;
    }

    bool folds_back(std::size_t rank) const {
        const auto& stages = skeleton_.stages(rank);
        return stages.front() == 0 && stages.back() + 1 == layout_.stages();
    }

    // Of a rank's process, besides.
    double process_bytes(const Profile& profile, const plan::Communicators& asked) const {
        plan::Mesh mesh = mesh_of(layout_);
        if (!scenario_.model.has_experts()) mesh.expert = 0;
        if (!profile.process)
            return 1e6 * (framework_.context_mb +
                          static_cast<double>(communicators(framework_, mesh, asked)) *
                              framework_.communicator_mb);
        return profile.process->shared_bytes.value /
                   static_cast<double>(std::min(scenario_.cluster.devices_per_node, mesh.ranks())) +
               profile.process->rank_bytes.value;
    }

    // Whether some node's ranks keep more in its memory than there is.
    bool host_exceeded() {
        const bool any = std::any_of(kinds_.begin(), kinds_.end(), [](const StageKind& kind) {
            const auto keeps = [&](const ByLayers& bytes) {
                return bytes.of(static_cast<double>(kind.layers)) > 0;
            };
            return keeps(kind.costs->host_states) || keeps(kind.costs->host_shared_states) ||
                   keeps(kind.costs->host_in_flight);
        });
        if (!any) return false;
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            const auto& stages = skeleton_.stages(rank);
            double bytes = 0;
            const auto moments = skeleton_.fullest(rank, layout_.micro_batches());
            for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
                const StageKind& kind = kind_of(stages[chunk]);
                const StageCosts& costs = *kind.costs;
                const auto layers = static_cast<double>(kind.layers);
                bytes += costs.host_states.of(layers) +
                         costs.host_shared_states.of(layers) /
                             static_cast<double>(layout_.zero_ranks()) +
                         moments[1][chunk].until_weights * costs.host_in_flight.of(layers);
            }
            const double of_node =
                bytes *
                static_cast<double>(std::min(scenario_.cluster.devices_per_node, layout_.ranks()));
            if (of_node > nodes_[node_of_[rank]].nodes.host_memory.capacity_GB * 1e9) return true;
        }
        return false;
    }

    const plan::Scenario& scenario_;
    const Layout& layout_;
    const plan::Framework& framework_;
    const std::vector<NodeCosts>& nodes_;
    const UnitCosts& unit_;  // for what is the same on all nodes
    const ScheduleSkeleton& skeleton_;
    const Places& places_;
    std::vector<DataExchange> exchanges_, of_experts_;  // by kind of node
    std::vector<std::size_t> node_of_;                  // kind, by pipeline rank
    std::vector<StageCosts> shared_;  // by kind of node, where the vocabulary is shared out
    std::vector<StageKind> kinds_;
    std::vector<std::size_t> kind_of_;  // by stage
    std::vector<bool> repeats_;         // by pipeline rank: all but what is in flight is the last's
    // Of the rank that is looked at: bytes of a micro-batch by chunk, and what there is besides.
    std::vector<InFlight> of_chunk_;
    struct {
        double kept = 0, beside = 0, at_end = 0, lost = 0;
    } of_rank_;
};

}  // namespace

double UnwalkedStep::seconds(const PipelineTimes& times) const {
    double reduced = 0, after = 0, end = 0;
    std::size_t rank = 0;
    for (const Ending& ending : endings) {
        after = std::max(after, ending.left);
        for (std::int64_t i = 0; i < ending.ranks; ++i) {
            const double ready = times.rank_ends[rank++] + ending.late;
            reduced = std::max(reduced, ready);
            end = std::max(end, ready + ending.left);
        }
    }
    return std::max(times.end, asks_all_ranks ? reduced + after : end) + gathered_late;
}

double UnwalkedStep::least_seconds() const {
    // Sums of so many passes, each rounded, differ by less where they are made in another order.
    constexpr double kRounded = 1e-9;
    return (1 - kRounded) * seconds({0, skeleton->least_rank_ends(pace)});
}

void walk(std::span<UnwalkedEstimate> estimates) {
    std::vector<UnwalkedEstimate*> order;
    for (UnwalkedEstimate& estimate : estimates)
        if (estimate.step.skeleton != nullptr) order.push_back(&estimate);
    std::stable_sort(order.begin(), order.end(),
                     [](const UnwalkedEstimate* a, const UnwalkedEstimate* b) {
                         return std::less<>()(a->step.skeleton, b->step.skeleton);
                     });
    for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
        const ScheduleSkeleton* const skeleton = order[first]->step.skeleton;
        std::vector<const PipelinePace*> paces;  // those that differ
        std::vector<std::size_t> number;
        for (end = first; end < order.size() && order[end]->step.skeleton == skeleton; ++end) {
            const PipelinePace& pace = order[end]->step.pace;
            const auto same = std::find_if(paces.begin(), paces.end(),
                                           [&](const PipelinePace* one) { return *one == pace; });
            number.push_back(static_cast<std::size_t>(same - paces.begin()));
            if (same == paces.end()) paces.push_back(&pace);
        }
        const std::vector<PipelineTimes> times = skeleton->run(paces);
        for (std::size_t i = first; i < end; ++i)
            order[i]->layout.step_s = order[i]->step.seconds(times[number[i - first]]);
    }
}

plan::Mesh mesh_of(const Layout& layout) {
    plan::Mesh mesh{layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                    layout.pipeline_parallel};
    if (layout.zero_ranks() > 1 && layout.zero_ranks() < layout.data_ranks())
        mesh.shard = layout.zero_ranks();
    mesh.expert = layout.expert_parallel * layout.expert_tensor_parallel;
    mesh.expert_split = layout.expert_tensor_parallel;
    return mesh;
}

UnwalkedEstimate estimate_of(const plan::Scenario& valid, const EstimateParts& parts) {
    return Estimate(valid, parts).make();
}

StepOutline outline_of(const plan::Scenario& valid, const EstimateParts& parts) {
    return Estimate(valid, parts).outline();
}

}  // namespace orrery::sim
