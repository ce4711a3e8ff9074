#include "sim/engine/fold.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/engine/splitmix.hpp"

namespace orrery::sim {
namespace {

using plan::GroupKind;
using plan::Rank;

// The kinds of group that collectives run over.
std::vector<GroupKind> meeting_kinds(const plan::Mesh& mesh, bool experts) {
    std::vector<GroupKind> kinds = {GroupKind::tensor,    GroupKind::context, GroupKind::data,
                                    GroupKind::embedding, GroupKind::model,   GroupKind::world};
    if (mesh.shard > 0) kinds.insert(kinds.end(), {GroupKind::shard, GroupKind::replica});
    if (experts) kinds.insert(kinds.end(), {GroupKind::expert, GroupKind::expert_data});
    if (experts && mesh.shard > 0)
        kinds.insert(kinds.end(), {GroupKind::expert_shard, GroupKind::expert_replica});
    return kinds;
}

// The groups of one kind: members, shapes, and which group a rank is in.
struct Groups {
    std::vector<std::vector<Rank>> members;
    std::vector<GroupShape> shapes;
    std::vector<std::int64_t> alike;  // by group: shapes that are equal have one number
    std::vector<std::int32_t> of_rank;
};

// Numbers keys by first appearance, so that results depend neither on how keys compare nor on how
// they are hashed.
class Numbering {
  public:
    // Neighbours are mostly alike: the last one's key is looked at first.
    std::int32_t number(const std::vector<std::int64_t>& key) {
        if (last_ == nullptr || last_->first != key)
            last_ = &*numbers_.try_emplace(key, static_cast<std::int32_t>(numbers_.size())).first;
        return last_->second;
    }
    std::size_t size() const { return numbers_.size(); }

  private:
    struct Hash {
        std::size_t operator()(const std::vector<std::int64_t>& key) const {
            std::uint64_t hash = key.size();
            for (const std::int64_t part : key)
                hash = split_mixed(hash ^ static_cast<std::uint64_t>(part));
            return hash;
        }
    };
    std::unordered_map<std::vector<std::int64_t>, std::int32_t, Hash> numbers_;
    const std::pair<const std::vector<std::int64_t>, std::int32_t>* last_ = nullptr;
};

Groups groups_of(const plan::Mesh& mesh, GroupKind kind, const plan::Cluster& cluster,
                 const RankPlaces* places) {
    Groups groups;
    groups.of_rank.assign(static_cast<std::size_t>(mesh.ranks()), -1);
    for (Rank rank = 0; rank < mesh.ranks(); ++rank) {
        if (groups.of_rank[static_cast<std::size_t>(rank)] >= 0) continue;
        groups.members.push_back(mesh.group(kind, rank));
        for (Rank member : groups.members.back())
            groups.of_rank[static_cast<std::size_t>(member)] =
                static_cast<std::int32_t>(groups.members.size() - 1);
    }
    groups.shapes =
        shapes_of(groups.members, cluster, places == nullptr ? nullptr : &places->nodes);
    Numbering numbers;
    std::vector<std::int64_t> key;
    for (const GroupShape& shape : groups.shapes) {
        key.clear();
        append_key(shape, key);
        groups.alike.push_back(numbers.number(key));
    }
    return groups;
}

class Refinement {
  public:
    Refinement(const plan::Mesh& mesh, const plan::Cluster& cluster, bool experts,
               const RankPlaces* places)
        : mesh_(mesh),
          kinds_(meeting_kinds(mesh, experts)),
          cluster_(cluster),
          places_(places),
          devices_per_node_(cluster.devices_per_node),
          stride_(mesh.ranks() / mesh.pipeline) {
        for (GroupKind kind : kinds_)
            groups_.push_back(groups_of(mesh, kind, cluster, places));
        class_of_.resize(static_cast<std::size_t>(mesh.ranks()));
    }

    void start() {
        Numbering classes;
        std::vector<std::int64_t> key;
        for (Rank rank = 0; rank < mesh_.ranks(); ++rank) {
            key.assign(1, rank / stride_);
            for (const Groups& groups : groups_)
                key.push_back(groups.alike[static_cast<std::size_t>(
                    groups.of_rank[static_cast<std::size_t>(rank)])]);
            for (Rank neighbour : neighbours(rank))
                if (neighbour != rank) append_key(way(rank, neighbour), key);
            key.push_back(std::bit_cast<std::int64_t>(cluster_.slow_factor(rank)));
            key.push_back(static_cast<std::int64_t>(cluster_.kind_of_device(rank)));
            if (places_ != nullptr && !places_->colours.empty())
                key.push_back(places_->colours[static_cast<std::size_t>(rank)]);
            class_of_[static_cast<std::size_t>(rank)] = classes.number(key);
        }
        count_ = classes.size();
    }

    void each_alone() {
        for (std::size_t i = 0; i < class_of_.size(); ++i)
            class_of_[i] = static_cast<std::int32_t>(i);
        count_ = class_of_.size();
    }

    void refine() {
        for (std::size_t before = 0; before != count_;) {
            before = count_;
            step();
        }
    }

    Classes result() const;

  private:
    // Pipeline ranks trade with the ones before and after them, the last with the first where
    // stages wrap around.
    std::array<Rank, 2> neighbours(Rank rank) const {
        const Rank all = mesh_.ranks();
        return {(rank + all - stride_) % all, (rank + stride_) % all};
    }
    // With the flows that share its way. Of the ranks of its own pipeline rank those of the node
    // that send over the hosts too are counted; between nodes all of a node send.
    Hop way(Rank from, Rank to) const {
        Hop hop = hop_between(from, to, cluster_, places_ == nullptr ? nullptr : &places_->nodes);
        if (!hop.same_node) {
            hop.flows = static_cast<int>(std::min(devices_per_node_, mesh_.ranks()));
            return hop;
        }
        if (cluster_.intra_node.kind != plan::IntraNodeKind::hybrid_cube_mesh || hop.links > 0)
            return hop;
        const Rank node = from / devices_per_node_ * devices_per_node_;
        hop.flows = 0;
        for (Rank rank = std::max(node, from / stride_ * stride_);
             rank < std::min(node + devices_per_node_, (from / stride_ + 1) * stride_); ++rank) {
            const Rank peer = rank + to - from;
            if (peer / devices_per_node_ != node / devices_per_node_) continue;
            if (hop_between(rank, peer, cluster_).links == 0) ++hop.flows;
        }
        return hop;
    }
    std::int32_t class_of(Rank rank) const { return class_of_[static_cast<std::size_t>(rank)]; }

    // The classes that meet in a group, ascending, each once.
    void meeting(const std::vector<Rank>& members, std::vector<std::int64_t>& classes) const {
        classes.clear();
        ++look_;
        seen_.resize(class_of_.size());
        for (Rank member : members) {
            std::uint32_t& seen = seen_[static_cast<std::size_t>(class_of(member))];
            if (seen == look_) continue;
            seen = look_;
            classes.push_back(class_of(member));
        }
        std::sort(classes.begin(), classes.end());
    }

    void step() {
        std::vector<std::vector<std::int32_t>> group_numbers;
        std::vector<std::int64_t> key;
        for (const Groups& groups : groups_) {
            Numbering numbers;
            group_numbers.emplace_back();
            for (const auto& members : groups.members) {
                meeting(members, key);
                group_numbers.back().push_back(numbers.number(key));
            }
        }
        Numbering classes;
        std::vector<std::int32_t> next(class_of_.size());
        for (Rank rank = 0; rank < mesh_.ranks(); ++rank) {
            key.assign(1, class_of(rank));
            for (std::size_t k = 0; k < groups_.size(); ++k)
                key.push_back(group_numbers[k][static_cast<std::size_t>(
                    groups_[k].of_rank[static_cast<std::size_t>(rank)])]);
            for (Rank neighbour : neighbours(rank))
                key.push_back(class_of(neighbour));
            next[static_cast<std::size_t>(rank)] = classes.number(key);
        }
        class_of_ = std::move(next);
        count_ = classes.size();
    }

    plan::Mesh mesh_;
    std::vector<GroupKind> kinds_;
    const plan::Cluster& cluster_;
    const RankPlaces* places_;
    std::int64_t devices_per_node_;
    Rank stride_;                 // between a rank and its neighbour in the pipeline
    std::vector<Groups> groups_;  // in the order of kinds_
    std::vector<std::int32_t> class_of_;
    std::size_t count_ = 0;
    mutable std::vector<std::uint32_t> seen_;  // by class: the last look that it was seen in
    mutable std::uint32_t look_ = 0;
};

Classes Refinement::result() const {
    Classes classes;
    classes.class_of = class_of_;
    classes.members.resize(count_);
    for (auto& member : classes.members)
        member.represents = 0;
    for (Rank rank = mesh_.ranks(); rank-- > 0;) {
        auto& member = classes.members[static_cast<std::size_t>(class_of(rank))];
        member.rank = rank;
        ++member.represents;
    }
    Numbering shapes;
    std::vector<std::int64_t> alike;  // by kind
    std::map<std::vector<std::int64_t>, std::int32_t> numbers;
    // By kind and group, where a representative is in it: most are in the group of another, too.
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int64_t>> met;
    for (auto& member : classes.members) {
        member.groups.fill(-1);
        alike.clear();
        for (std::size_t k = 0; k < groups_.size(); ++k) {
            const auto kind = static_cast<std::size_t>(kinds_[k]);
            const auto group =
                static_cast<std::size_t>(groups_[k].of_rank[static_cast<std::size_t>(member.rank)]);
            member.shapes[kind] = groups_[k].shapes[group];
            alike.push_back(groups_[k].alike[group]);
            std::vector<std::int64_t>& meet = met[{k, group}];
            if (meet.empty()) meeting(groups_[k].members[group], meet);
            if (meet.size() < 2) continue;
            std::vector<std::int64_t> key = meet;
            key.push_back(static_cast<std::int64_t>(kind));
            const auto [it, fresh] =
                numbers.emplace(std::move(key), static_cast<std::int32_t>(classes.groups.size()));
            if (fresh) classes.groups.emplace_back(meet.begin(), meet.end());
            member.groups[kind] = it->second;
        }
        member.alike = shapes.number(alike);
        for (std::int64_t p = 0; p < mesh_.pipeline; ++p) {
            const Rank peer = mesh_.pipeline_peer(member.rank, p);
            member.pipeline_peers.push_back(class_of(peer));
            member.hops.push_back(peer == member.rank ? Hop{} : way(member.rank, peer));
        }
    }
    return classes;
}

}  // namespace

Classes fold_ranks(const plan::Mesh& mesh, const plan::Cluster& cluster, bool unfolded,
                   bool experts, const RankPlaces* places) {
    Refinement refinement(mesh, cluster, experts, places);
    if (unfolded || cluster.jitter.any())
        refinement.each_alone();
    else {
        refinement.start();
        refinement.refine();
    }
    return refinement.result();
}

}  // namespace orrery::sim
