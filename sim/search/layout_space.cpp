#include "sim/search/layout_space.hpp"

#include <algorithm>

#include "plan/check.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::sim {
namespace {

using plan::Layout;
using plan::Scenario;

using Values = std::vector<std::string>;

struct SearchedKey {
    std::string_view name;
    void (*take)(Layout& to, const Layout& from);
    Values (*usual)(const Scenario& scenario);
};

// From 1 by factors of 2.
Values doubling(std::int64_t most) {
    Values values;
    for (std::int64_t value = 1; value <= most; value *= 2)
        values.push_back(std::to_string(value));
    return values;
}

Values tensor_degrees(const Scenario& scenario) {
    return doubling(scenario.cluster.devices_per_node);
}

// Shorter shares of a sequence than this are no work for a device.
constexpr std::int64_t kShortestShare = 2048;

Values context_degrees(const Scenario& scenario) {
    return doubling(std::max<std::int64_t>(
        1,
        std::min(scenario.training.sequence_length / kShortestShare, scenario.cluster.devices())));
}

// Of the experts, and of ranks that there may be in a stage.
Values expert_degrees(const Scenario& scenario) {
    const plan::ExpertMlp* experts = scenario.model.experts();
    if (experts == nullptr) return {};
    return doubling(std::min(experts->routing.experts, scenario.cluster.devices()));
}

// Cut experts pay where each is wide: not beyond what a tensor-parallel rank's share of the tokens
// is gathered from.
Values expert_splits(const Scenario& scenario) {
    return scenario.model.has_experts() ? Values{"1", "2"} : Values{};
}

Values pipeline_degrees(const Scenario& scenario) {
    const std::int64_t devices = scenario.cluster.devices();
    Values values;
    for (std::int64_t stages = 1; stages <= std::min(devices, scenario.model.layers + 2); ++stages)
        if (devices % stages == 0) values.push_back(std::to_string(stages));
    return values;
}

Values chunks(const Scenario& scenario) {
    const std::int64_t layers = scenario.model.layers;
    Values values;
    for (std::int64_t chunk = 1; 2 * chunk <= layers + 2; ++chunk)
        if (layers % chunk == 0 || (layers + 1) % chunk == 0 || (layers + 2) % chunk == 0)
            values.push_back(std::to_string(chunk));
    return values;
}

constexpr std::int64_t kLargestMicroBatch = 8;

Values micro_batches(const Scenario& scenario) {
    return doubling(std::min(kLargestMicroBatch, scenario.layout.global_batch_size));
}

Values schedules(const Scenario& /*scenario*/) {
    return plan::schedule_names();
}

Values zero_stages(const Scenario& /*scenario*/) {
    return {"0", "1", "2", "3"};
}

// "all", and whatever part of the data-parallel ranks there may be.
Values zero_groups(const Scenario& scenario) {
    Values values = doubling(std::max<std::int64_t>(1, scenario.cluster.devices() / 2));
    values.front() = "all";
    return values;
}

Values recomputation(const Scenario& /*scenario*/) {
    return {"none", "selective", "full"};
}

Values either(const Scenario& /*scenario*/) {
    return {"false", "true"};
}

Values as_it_is(const Scenario& /*scenario*/) {
    return {};
}

#define ORRERY_TAKES(member) [](Layout& to, const Layout& from) { to.member = from.member; }

const std::vector<SearchedKey>& keys() {
    static const std::vector<SearchedKey> all = {
        {"tensor_parallel", ORRERY_TAKES(tensor_parallel), tensor_degrees},
        {"context_parallel", ORRERY_TAKES(context_parallel), context_degrees},
        {"sequence_parallel", ORRERY_TAKES(sequence_parallel), either},
        {"expert_parallel", ORRERY_TAKES(expert_parallel), expert_degrees},
        {"expert_tensor_parallel", ORRERY_TAKES(expert_tensor_parallel), expert_splits},
        {"micro_batch_size", ORRERY_TAKES(micro_batch_size), micro_batches},
        {"recompute",
         [](Layout& to, const Layout& from) {
             to.recompute = from.recompute;
             to.recompute_modules = from.recompute_modules;
             to.recompute_every = from.recompute_every;
         },
         recomputation},
        {"zero_stage", ORRERY_TAKES(zero_stage), zero_stages},
        {"reshard_after_forward", ORRERY_TAKES(reshard_after_forward), as_it_is},
        {"context_algorithm", ORRERY_TAKES(context_algorithm), as_it_is},
        {"offload.optimizer", ORRERY_TAKES(offload.optimizer), as_it_is},
        {"offload.gradients", ORRERY_TAKES(offload.gradients), as_it_is},
        {"offload.parameters", ORRERY_TAKES(offload.parameters), as_it_is},
        {"offload.activations", ORRERY_TAKES(offload.activations), as_it_is},
        {"global_batch_size", ORRERY_TAKES(global_batch_size), as_it_is},
        {"zero_group_size", ORRERY_TAKES(zero_group_size), zero_groups},
        {"schedule",
         [](Layout& to, const Layout& from) {
             to.schedule = from.schedule;
             to.imported = from.imported;
         },
         schedules},
        {"virtual_pipeline", ORRERY_TAKES(virtual_pipeline), chunks},
        {"pipeline_parallel", ORRERY_TAKES(pipeline_parallel), pipeline_degrees},
    };
    return all;
}

#undef ORRERY_TAKES

std::size_t place_of(std::string_view key) {
    const auto found = std::find_if(keys().begin(), keys().end(),
                                    [&](const SearchedKey& one) { return one.name == key; });
    ORRERY_CHECK(found != keys().end(), std::string(key) + " is no key that a search varies");
    return static_cast<std::size_t>(found - keys().begin());
}

}  // namespace

const std::vector<std::string_view>& searched_keys() {
    static const std::vector<std::string_view> names = [] {
        std::vector<std::string_view> all;
        for (const SearchedKey& key : keys())
            all.push_back(key.name);
        return all;
    }();
    return names;
}

std::vector<std::string> usual_values(std::string_view key, const plan::Scenario& scenario) {
    return keys()[place_of(key)].usual(scenario);
}

LayoutSpace::LayoutSpace(const plan::Layout& base, std::vector<LayoutAxis> axes)
    : base_(base), axes_(std::move(axes)) {
    std::sort(axes_.begin(), axes_.end(), [](const LayoutAxis& a, const LayoutAxis& b) {
        return place_of(a.key) < place_of(b.key);
    });
    for (const LayoutAxis& axis : axes_) {
        ORRERY_CHECK(!axis.values.empty() && axis.values.size() == axis.texts.size(),
                     "an axis has values");
        size_ *= axis.values.size();
        places_.push_back(place_of(axis.key));
        if (places_.back() >= place_of("schedule")) stages_ *= axis.values.size();
        if (axis.key == "zero_group_size" && axis.values.front().zero_group_size == 0 &&
            std::none_of(axis.values.begin(), axis.values.end(),
                         [](const Layout& value) { return value.zero_group_size == 1; }))
            zero_groups_ = axis.values.size();
    }
}

plan::Layout LayoutSpace::layout(std::uint64_t number) const {
    plan::Layout layout = base_;
    for (std::size_t a = axes_.size(); a-- > 0;) {
        const LayoutAxis& axis = axes_[a];
        keys()[places_[a]].take(layout, axis.values[number % axis.values.size()]);
        number /= axis.values.size();
    }
    return layout;
}

template <typename Is>
bool LayoutSpace::tries(std::string_view key, Is is) const {
    return std::any_of(axes_.begin(), axes_.end(), [&](const LayoutAxis& axis) {
        return axis.key == key && std::any_of(axis.values.begin(), axis.values.end(), is);
    });
}

std::int64_t LayoutSpace::zero_group(std::uint64_t place) const {
    const auto axis = std::find_if(axes_.begin(), axes_.end(), [](const LayoutAxis& one) {
        return one.key == "zero_group_size";
    });
    ORRERY_CHECK(axis != axes_.end(), "groups of ZeRO are varied");
    return axis->values[place].zero_group_size;
}

std::uint64_t LayoutSpace::with_first_zero_group(std::uint64_t number) const {
    const std::uint64_t others = number / stages_;
    return number - others % zero_groups_ * stages_;
}

bool LayoutSpace::repeats(const plan::Scenario& scenario, std::int64_t data_parallel) const {
    const plan::Layout& layout = scenario.layout;
    if (data_parallel * layout.context_parallel == 1 && layout.zero_stage > 0 &&
        tries("zero_stage", [](const Layout& other) { return other.zero_stage == 0; }))
        return true;
    if (layout.zero_group_size > 0 &&
        (layout.zero_stage == 0 ||
         layout.zero_group_size >= data_parallel * layout.context_parallel) &&
        tries("zero_group_size", [](const Layout& other) { return other.zero_group_size == 0; }))
        return true;
    // Fused attention keeps neither scores nor probabilities that could be made again.
    if (layout.recompute == plan::Recompute::selective &&
        layout.recompute_modules == plan::RecomputedModules{} &&
        scenario.training.framework.attention_kernel == plan::AttentionKernel::flash &&
        tries("recompute",
              [](const Layout& other) { return other.recompute == plan::Recompute::none; }))
        return true;
    const std::string_view first = plan::schedule_kinds().front().name;
    return layout.pipeline_parallel == 1 && layout.schedule != first &&
           tries("schedule", [&](const Layout& other) { return other.schedule == first; });
}

std::vector<std::string> LayoutSpace::sets(std::uint64_t number) const {
    std::vector<std::string> sets(axes_.size());
    for (std::size_t a = axes_.size(); a-- > 0;) {
        const LayoutAxis& axis = axes_[a];
        sets[a] = "layout." + axis.key + '=' + axis.texts[number % axis.values.size()];
        number /= axis.values.size();
    }
    return sets;
}

std::vector<std::int64_t> with_ends_lighter(std::int64_t layers, std::int64_t stages) {
    for (const std::int64_t missing : {2, 1}) {
        if (stages <= missing || (layers + missing) % stages != 0) continue;
        std::vector<std::int64_t> counts(static_cast<std::size_t>(stages),
                                         (layers + missing) / stages);
        --counts.back();
        if (missing == 2) --counts.front();
        return counts;
    }
    // 61 layers of DeepSeek-V3 part into no number of stages but these few.
    constexpr std::int64_t kPlacesForAMissing = 20;
    const std::int64_t most = (layers + stages - 1) / stages, missing = most * stages - layers;
    if (most < 2 || missing >= stages || missing * kPlacesForAMissing > most * stages) return {};
    std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), most);
    for (std::int64_t i = 0; i < missing; ++i)
        --*(i == 1 ? counts.begin() : counts.end() - 1 - std::max<std::int64_t>(0, i - 1));
    return counts;
}

}  // namespace orrery::sim
