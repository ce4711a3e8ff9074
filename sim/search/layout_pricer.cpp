#include "sim/search/layout_pricer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/assemble/bind_steps.hpp"
#include "plan/check.hpp"
#include "plan/passes/program_builder.hpp"
#include "plan/schedule/schedule.hpp"
#include "sim/machine.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/search/schedule_skeleton.hpp"
#include "sim/search/stage_costs.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::sim {
namespace {

using plan::Layout;
using plan::OpKind;

// Values that are made when first asked for; of two threads that ask at once one waits.
template <typename Key, typename Value, typename Hash>
class Made {
  public:
    template <typename Make>
    const Value& get(const Key& key, Make make) {
        Entry* entry = nullptr;
        {
            const std::lock_guard lock(mutex_);
            std::unique_ptr<Entry>& there = entries_[key];
            if (!there) there = std::make_unique<Entry>();
            entry = there.get();
        }
        std::call_once(entry->once, [&] { entry->value.emplace(make()); });
        return *entry->value;
    }

  private:
    struct Entry {
        std::once_flag once;
        std::optional<Value> value;
    };
    std::mutex mutex_;
    std::unordered_map<Key, std::unique_ptr<Entry>, Hash> entries_;
};

std::size_t mixed(std::size_t seed, std::int64_t value) {
    return (seed ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15ULL + (seed >> 29);
}

struct UnitHash {
    std::size_t operator()(const plan::Layout& layout) const {
        std::size_t seed = 1;
        for (const std::int64_t value :
             {layout.tensor_parallel, layout.pipeline_parallel, layout.context_parallel,
              layout.data_parallel, layout.micro_batch_size, layout.recompute_every,
              static_cast<std::int64_t>(layout.zero_stage),
              static_cast<std::int64_t>(layout.recompute),
              static_cast<std::int64_t>(layout.sequence_parallel),
              static_cast<std::int64_t>(layout.offload.optimizer),
              static_cast<std::int64_t>(layout.schedule.size())})
            seed = mixed(seed, value);
        return seed;
    }
};

template <std::size_t n>
struct NumbersHash {
    std::size_t operator()(const std::array<std::int64_t, n>& numbers) const {
        std::size_t seed = 1;
        for (const std::int64_t number : numbers)
            seed = mixed(seed, number);
        return seed;
    }
};

// Where the groups of data-parallel ranks of a layout lie, and the way to the next stage.
struct Places {
    GroupShape data, shard, replica;
    Hop next;
};

// The communication of a layout's data-parallel ranks.
class DataExchange {
  public:
    DataExchange(const Network& network, const Places& places, const plan::Scenario& scenario,
                 double slowdown)
        : network_(network),
          places_(places),
          layout_(scenario.layout),
          sharding_(plan::sharding_of(scenario)),
          slowdown_(slowdown) {}

    bool alone() const { return layout_.data_ranks() == 1; }
    bool shards_gradients() const { return sharding_.gradients; }
    bool shards_parameters() const { return sharding_.parameters; }

    double gather(double bytes) const {
        return collective(OpKind::all_gather, bytes, places_.shard);
    }
    // Sums over all, of which each keeps what the layout says.
    double reduce(double bytes) const {
        if (layout_.zero_ranks() == 1) return collective(OpKind::all_reduce, bytes, places_.data);
        return collective(OpKind::reduce_scatter, bytes, places_.shard);
    }
    // What shards then are summed over.
    double reduce_replicas(double bytes) const {
        if (layout_.zero_ranks() == 1 || layout_.zero_ranks() == layout_.data_ranks()) return 0;
        return collective(OpKind::all_reduce, bytes / static_cast<double>(layout_.zero_ranks()),
                          places_.replica);
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
        return network_.collective(kind, static_cast<std::int64_t>(bytes), shape).seconds;
    }

    const Network& network_;
    const Places& places_;
    const Layout& layout_;
    plan::Sharding sharding_;
    double slowdown_;
};

// One layout's price.
class Estimate {
  public:
    Estimate(const plan::Scenario& scenario, const Profile& profile, const UnitCosts& unit,
             const ScheduleSkeleton& skeleton, const Network& network, const Places& places)
        : scenario_(scenario),
          layout_(scenario.layout),
          framework_(scenario.training.framework),
          profile_(profile),
          unit_(unit),
          skeleton_(skeleton),
          network_(network),
          places_(places),
          exchange_(network, places, scenario,
                    (profile.overlap.compute_slowdown.value - 1) * framework_.overlap_factor) {}

    LayoutEstimate make() {
        LayoutEstimate estimate;
        estimate.step_s = step();
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank)
            estimate.peak_bytes = std::max(estimate.peak_bytes, peak_of(rank));
        const StackPrior prior = stack_prior(framework_, profile_);
        estimate.fit_probability =
            fit_probability(estimate.peak_bytes, profile_.hardware.capacity_bytes.value, prior);
        if (host() > scenario_.cluster.host_memory.capacity_GB * 1e9) estimate.fit_probability = 0;
        return estimate;
    }

  private:
    std::int64_t layers_of(std::int32_t stage) const {
        return layout_.layers_per_stage[static_cast<std::size_t>(stage)];
    }
    const StageCosts& costs_of(std::int32_t stage) const {
        const auto last = static_cast<std::int32_t>(layout_.stages()) - 1;
        StagePlace place = StagePlace::middle;
        if (layout_.pipeline_parallel == 1)
            place = StagePlace::only;
        else if (stage == 0)
            place = StagePlace::first;
        else if (stage == last)
            place = StagePlace::last;
        return unit_.stages[static_cast<std::size_t>(place)];
    }

    // Passes of a stage; parameters that are gathered for each, and gradients that are reduced
    // after each, go beside.
    std::array<PassTimes, kPasses> passes_of(std::int32_t stage) const {
        const StageCosts& costs = costs_of(stage);
        const auto layers = static_cast<double>(layers_of(stage));
        std::array<PassTimes, kPasses> passes;
        for (std::size_t pass = 0; pass < kPasses; ++pass) {
            passes[pass].lead = std::max(0.0, costs.lead[pass].of(layers));
            passes[pass].busy = std::max(0.0, costs.busy[pass].of(layers));
            passes[pass].tail = std::max(0.0, costs.tail[pass].of(layers));
        }
        if (exchange_.alone() || !exchange_.shards_gradients()) return passes;
        // Of a layer, and of what a stage has beside layers.
        const auto each = [&](double bytes_per_element, auto&& price) {
            return std::array{price(costs.elements.layer * bytes_per_element),
                              price(costs.elements.base * bytes_per_element)};
        };
        const auto reduced =
            each(unit_.gradient_bytes, [&](double bytes) { return exchange_.reduce(bytes); });
        std::array<double, 2> gathered{};
        if (exchange_.shards_parameters())
            gathered =
                each(unit_.parameter_bytes, [&](double bytes) { return exchange_.gather(bytes); });
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
                beside(costs.busy[pass], costs.undisturbed[pass], layers, messages(0), messages(1));
        }
        return passes;
    }

    // A pass whose parts each run beside the messages of the next one.
    double beside(const ByLayers& busy, const ByLayers& undisturbed, double layers, double of_layer,
                  double of_rest) const {
        const double rest = std::max(0.0, busy.base);
        const double rest_undisturbed = std::clamp(undisturbed.base, 0.0, rest);
        if (layers < 1) return exchange_.beside(rest, rest_undisturbed, of_rest);
        const auto layer = [&](double messages) {
            return exchange_.beside(busy.layer, undisturbed.layer, messages);
        };
        if (of_rest <= 0) return layers * layer(of_layer) + rest;
        return (layers - 1) * layer(of_layer) + layer(of_rest) +
               exchange_.beside(rest, rest_undisturbed, of_layer);
    }

    // Bytes of a stage's layers and of the rest of it, in buckets of elements of so many bytes:
    // what `price` says of all of them, and of one of layers.
    struct InBuckets {
        double all = 0, one = 0;
    };
    template <typename Price>
    InBuckets in_buckets(std::int32_t stage, double element_bytes, Price price) const {
        const double target = 1e6 * std::max(framework_.gradient_bucket_mb,
                                             framework_.gradient_bucket_mb_per_rank *
                                                 static_cast<double>(layout_.data_ranks()));
        const StageCosts& costs = costs_of(stage);
        const auto layers = static_cast<double>(layers_of(stage));
        const double layer = costs.elements.layer;
        InBuckets sum;
        if (layers > 0 && layer > 0) {
            const double at_once =
                std::clamp(std::ceil(target / (layer * unit_.gradient_bytes)), 1.0, layers);
            const double buckets = std::ceil(layers / at_once);
            sum.one = price(layer * layers / buckets * element_bytes);
            sum.all = buckets * sum.one;
        }
        if (costs.elements.base > 0) sum.all += price(costs.elements.base * element_bytes);
        return sum;
    }
    // Gradients that are reduced once per step; from ZeRO-2 on shards alone, over their replicas.
    InBuckets reduction_of(std::size_t rank) const {
        InBuckets reduction;
        for (const std::int32_t stage : skeleton_.stages(rank)) {
            const InBuckets of_stage = in_buckets(stage, unit_.gradient_bytes, [&](double bytes) {
                return exchange_.reduce_replicas(bytes) +
                       (exchange_.shards_gradients() ? 0 : exchange_.reduce(bytes));
            });
            reduction.all += of_stage.all;
            reduction.one = of_stage.one;
        }
        return reduction;
    }

    // What of it is left after the rank's last backward pass. A chunk's gradients are complete
    // when its last micro-batch is; with several chunks those come a round of the pipeline apart.
    double exposed(const InBuckets& reduction, std::size_t rank,
                   const std::vector<std::array<PassTimes, kPasses>>& times) const {
        if (reduction.all == 0) return 0;
        if (!framework_.overlap_gradient_reduce) return reduction.all;
        const auto& stages = skeleton_.stages(rank);
        const auto chunks = static_cast<double>(stages.size());
        double backward = 0;  // of one chunk, what makes gradients of weights
        for (const std::int32_t stage : stages) {
            const auto& passes = times[static_cast<std::size_t>(stage)];
            backward += passes[passes[3].busy > 0 ? 3 : 1].busy / chunks;
        }
        const double round = std::min(static_cast<double>(layout_.micro_batches()),
                                      static_cast<double>(layout_.pipeline_parallel));
        const double window = backward * (1 + (chunks - 1) * round);
        const double buckets = std::max(1.0, reduction.all / std::max(reduction.one, 1e-12));
        const double of_last = reduction.all / chunks - backward * (1 - chunks / buckets);
        return std::max({reduction.one, of_last, reduction.all - window});
    }

    double step() const {
        std::vector<std::array<PassTimes, kPasses>> times;
        for (std::int32_t stage = 0; stage < layout_.stages(); ++stage)
            times.push_back(passes_of(stage));
        const bool blocks = plan::blocks_on_transfers(scenario_);
        double hop = 0;
        if (layout_.pipeline_parallel > 1)
            hop = network_.point_to_point(unit_.boundary_bytes, places_.next).seconds;
        const PipelineTimes pipeline = skeleton_.run(layout_.micro_batches(), times, hop, blocks);
        const bool waits = asks_all_ranks(scenario_.training);
        double reduced = 0, after = 0, end = 0;
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            const double ready = pipeline.rank_ends[rank] +
                                 (exchange_.alone() ? 0 : exposed(reduction_of(rank), rank, times));
            const double left = after_reduction(rank);
            reduced = std::max(reduced, ready);
            after = std::max(after, left);
            end = std::max(end, ready + left);
        }
        return std::max(pipeline.end, waits ? reduced + after : end);
    }

    // The optimizer, and the gathering of what it has changed.
    double after_reduction(std::size_t rank) const {
        const bool gathers = layout_.zero_ranks() > 1 && !exchange_.shards_parameters() &&
                             !plan::gathers_parameters_ahead(scenario_);
        double seconds = 0, gathered = 0;
        for (const std::int32_t stage : skeleton_.stages(rank)) {
            const StageCosts& costs = costs_of(stage);
            const double stepped = costs.elements.of(static_cast<double>(layers_of(stage)));
            seconds = std::max(seconds, costs.step_seconds);
            seconds += costs.step_per_element * stepped / static_cast<double>(layout_.zero_ranks());
            if (gathers)
                gathered += in_buckets(stage, unit_.parameter_bytes, [&](double bytes) {
                                return exchange_.gather(bytes);
                            }).all;
        }
        return seconds + gathered;
    }

    double peak_of(std::size_t rank) const {
        const auto& stages = skeleton_.stages(rank);
        const double shared_by = static_cast<double>(layout_.zero_ranks());
        double states = 0, fixed = 0, fixed_base = 0, beside = 0, at_end = 0;
        for (const std::int32_t stage : stages) {
            const StageCosts& costs = costs_of(stage);
            const auto layers = static_cast<double>(layers_of(stage));
            states += costs.whole_states.of(layers) + costs.shared_states.of(layers) / shared_by;
            fixed_base = std::max(fixed_base, costs.fixed.base);
            fixed += costs.fixed.layer * layers;
            for (const ByLayers& one : costs.while_running)
                beside = std::max(beside, one.of(layers));
            at_end = std::max(at_end, costs.at_end.of(layers));
        }
        // Slots of different sizes in one arena: as the plan's first fit has it, one of them is
        // lost; not where the chunks end in the reverse of the order in which they began (V).
        double lost = 0, smallest = 0, largest = 0;
        for (const std::int32_t stage : stages) {
            const StageCosts& costs = costs_of(stage);
            const auto layers = static_cast<double>(layers_of(stage));
            const double slot = costs.until_backward.of(layers) + costs.until_weights.of(layers);
            largest = std::max(largest, slot);
            smallest = smallest == 0 ? slot : std::min(smallest, slot);
        }
        const bool folds_back = stages.front() == 0 && stages.back() + 1 == layout_.stages();
        if (framework_.fragmentation == 0 && largest > smallest && !folds_back) lost = smallest;
        double in_flight = 0;
        for (const Moment& moment : skeleton_.fullest(rank, layout_.micro_batches())) {
            double bytes = 0;
            for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
                const StageCosts& costs = costs_of(stages[chunk]);
                const auto layers = static_cast<double>(layers_of(stages[chunk]));
                bytes += moment[chunk].until_backward * costs.until_backward.of(layers) +
                         moment[chunk].until_weights * costs.until_weights.of(layers) +
                         moment[chunk].between_halves * costs.between_halves.of(layers);
            }
            in_flight = std::max(in_flight, bytes);
        }
        const double live = states + fixed + fixed_base + std::max(in_flight + beside, at_end);
        const plan::Mesh mesh = mesh_of(layout_);
        const double process =
            profile_.process
                ? profile_.process->shared_bytes.value /
                          static_cast<double>(
                              std::min(scenario_.cluster.devices_per_node, mesh.ranks())) +
                      profile_.process->rank_bytes.value
                : 1e6 * (framework_.context_mb +
                         static_cast<double>(communicators(mesh)) * framework_.communicator_mb);
        return live * (1 + framework_.fragmentation) + lost + process;
    }

    double host() const {
        double most = 0;
        for (std::size_t rank = 0; rank < skeleton_.ranks(); ++rank) {
            const auto& stages = skeleton_.stages(rank);
            double bytes = 0;
            const auto moments = skeleton_.fullest(rank, layout_.micro_batches());
            for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
                const StageCosts& costs = costs_of(stages[chunk]);
                const auto layers = static_cast<double>(layers_of(stages[chunk]));
                bytes += costs.host_states.of(layers) +
                         costs.host_shared_states.of(layers) /
                             static_cast<double>(layout_.zero_ranks()) +
                         moments[1][chunk].until_weights * costs.host_in_flight.of(layers);
            }
            most = std::max(most, bytes);
        }
        return most *
               static_cast<double>(std::min(scenario_.cluster.devices_per_node, layout_.ranks()));
    }

  public:
    static plan::Mesh mesh_of(const Layout& layout) {
        plan::Mesh mesh{layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                        layout.pipeline_parallel};
        if (layout.zero_ranks() > 1 && layout.zero_ranks() < layout.data_ranks())
            mesh.shard = layout.zero_ranks();
        return mesh;
    }

  private:
    const plan::Scenario& scenario_;
    const Layout& layout_;
    const plan::Framework& framework_;
    const Profile& profile_;
    const UnitCosts& unit_;
    const ScheduleSkeleton& skeleton_;
    const Network& network_;
    const Places& places_;
    DataExchange exchange_;
};

// All stages lie alike: those of one stage stand for all.
Places places_of(const Layout& layout, const plan::Cluster& cluster) {
    plan::Mesh mesh = Estimate::mesh_of(layout);
    const std::int64_t stride = mesh.tensor * mesh.context * mesh.data;
    const std::int64_t ranks = mesh.ranks();
    Places places;
    if (mesh.pipeline > 1) {
        places.next = hop_between(0, stride, cluster);
        if (!places.next.same_node)
            places.next.flows = static_cast<int>(std::min(cluster.devices_per_node, ranks));
    }
    mesh.pipeline = 1;
    const auto shape = [&](plan::GroupKind kind) {
        std::vector<std::vector<std::int64_t>> groups;
        std::vector<bool> seen(static_cast<std::size_t>(stride));
        for (plan::Rank rank = 0; rank < stride; ++rank) {
            if (seen[static_cast<std::size_t>(rank)]) continue;
            groups.push_back(mesh.group(kind, rank));
            for (const plan::Rank member : groups.back())
                seen[static_cast<std::size_t>(member)] = true;
        }
        return shapes_of(groups, cluster).front();
    };
    places.data = shape(plan::GroupKind::data);
    places.shard = mesh.shard > 0 ? shape(plan::GroupKind::shard) : places.data;
    if (mesh.shard > 0) places.replica = shape(plan::GroupKind::replica);
    return places;
}

CollectiveTable table_of(const Profile& profile) {
    return profile.collectives_json.empty()
               ? CollectiveTable{}
               : parse_collectives(profile.collectives_json, profile.path);
}

// Whether a schedule has backward passes in two halves; a property of the kind.
bool splits(const plan::ScheduleKind& kind) {
    const std::int32_t chunks = kind.chunks == plan::Chunks::one ? 1 : 2;
    for (const auto& row : kind.schedule({2, chunks, 4}).grid)
        for (const plan::Action& action : row)
            if (action.kind == plan::ActionKind::backward_input) return true;
    return false;
}

}  // namespace

struct LayoutPricer::Memo {
    explicit Memo(const plan::Scenario& scenario, const Profile& profile)
        : network(scenario.cluster, table_of(profile)) {
        for (const plan::ScheduleKind& kind : plan::schedule_kinds())
            splits_backward.push_back(splits(kind));
    }

    Network network;
    std::vector<bool> splits_backward;  // by kind of schedule
    Made<std::array<std::int64_t, 4>, ScheduleSkeleton, NumbersHash<4>> skeletons;
    Made<std::array<std::int64_t, 5>, Places, NumbersHash<5>> places;
};

struct SharedStageCosts::Memo {
    std::int64_t nodes = 1;
    Made<Layout, UnitCosts, UnitHash> units;
};

SharedStageCosts::SharedStageCosts(std::int64_t nodes) : memo_(std::make_unique<Memo>()) {
    memo_->nodes = nodes;
}
SharedStageCosts::~SharedStageCosts() = default;

LayoutPricer::LayoutPricer(const plan::Scenario& scenario, const Profile& profile,
                           SharedStageCosts& costs)
    : scenario_(scenario),
      profile_(profile),
      costs_(costs),
      memo_(std::make_unique<Memo>(scenario, profile)) {}

LayoutPricer::~LayoutPricer() = default;

LayoutEstimate LayoutPricer::price(const plan::Scenario& valid) const {
    const Layout& layout = valid.layout;
    const plan::ScheduleKind* kind = plan::find_schedule(layout.schedule);
    ORRERY_CHECK(kind != nullptr, "a search has schedules of a known kind");
    const std::int64_t number = kind - plan::schedule_kinds().data();
    const Layout unit =
        unit_layout(valid, memo_->splits_backward[static_cast<std::size_t>(number)]);
    const UnitCosts& costs = costs_.memo_->units.get(unit, [&] {
        plan::Scenario of_unit = valid;
        of_unit.layout = unit;
        of_unit.cluster.nodes = costs_.memo_->nodes;
        return unit_costs(of_unit, profile_);
    });
    if (!costs.error.empty()) {
        LayoutEstimate none;
        none.error = costs.error;
        return none;
    }
    const std::int64_t pipeline = layout.pipeline_parallel;
    const std::int64_t walked = ScheduleSkeleton::walked(layout.micro_batches(), pipeline);
    const ScheduleSkeleton& skeleton =
        memo_->skeletons.get({number, pipeline, layout.virtual_pipeline, walked}, [&] {
            return ScheduleSkeleton(*kind, {static_cast<std::int32_t>(pipeline),
                                            static_cast<std::int32_t>(layout.virtual_pipeline),
                                            static_cast<std::int32_t>(walked)});
        });
    const Places& places =
        memo_->places.get({layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                           layout.zero_ranks(), pipeline > 1 ? layout.ranks() : 0},
                          [&] { return places_of(layout, valid.cluster); });
    return Estimate(valid, profile_, costs, skeleton, memo_->network, places).make();
}

}  // namespace orrery::sim
