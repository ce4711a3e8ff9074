#include "sim/search/asked_communicators.hpp"

#include <array>

namespace orrery::sim {
namespace {

using plan::GroupKind;
using plan::GroupSet;

bool named(const GroupSet& groups, GroupKind kind) {
    return groups[static_cast<std::size_t>(kind)];
}

void set(GroupSet& groups, GroupKind kind, bool value = true) {
    groups[static_cast<std::size_t>(kind)] = value;
}

// States are shared out among a part of those that hold the same parameters.
void share_within_parts(GroupSet& groups) {
    const std::array<std::array<GroupKind, 3>, 2> parted = {
        {{GroupKind::data, GroupKind::shard, GroupKind::replica},
         {GroupKind::expert_data, GroupKind::expert_shard, GroupKind::expert_replica}}};
    for (const auto& [whole, shard, replica] : parted) {
        if (!named(groups, whole)) continue;
        set(groups, whole, false);
        set(groups, shard);
        set(groups, replica);
    }
}

// Statistics are summed over one copy of the model, where the unit's are over all ranks.
void sum_over_one_copy(const plan::Scenario& valid, GroupSet& groups) {
    const plan::Training& training = valid.training;
    const bool sums =
        training.optimizer.clip_norm > 0 || training.precision == plan::Precision::fp16;
    if (!named(groups, GroupKind::world)) return;
    if (sums && !valid.layout.optimizer_post_validation) set(groups, GroupKind::model);
    set(groups, GroupKind::world, training.loss_spike.skips());
}

}  // namespace

void settle_communicators(const plan::Scenario& valid, const plan::Mesh& mesh, bool folds_back,
                          std::vector<plan::Communicators>& by_rank) {
    const bool shares_words = valid.layout.shares_vocabulary(), parted = mesh.shard > 0;
    const bool unshared = valid.layout.zero_ranks() == 1 && !valid.model.has_experts();
    for (plan::Communicators& of : by_rank) {
        if (parted) share_within_parts(of.groups);
        if (parted || unshared) sum_over_one_copy(valid, of.groups);
        if (shares_words || folds_back) set(of.groups, GroupKind::embedding, false);
        if (!shares_words) continue;
        set(of.groups, GroupKind::pipeline);
        set(of.groups, GroupKind::model);
    }
    agree_on_groups(mesh, by_rank);
}

}  // namespace orrery::sim
