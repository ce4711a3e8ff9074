#include "sim/jobs/job_links.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "sim/network/group_shape.hpp"
#include "sim/network/topology.hpp"

namespace orrery::sim {
namespace {

using plan::GroupKind;
using plan::Rank;

Pattern pattern_of(plan::OpKind kind) {
    return kind == plan::OpKind::all_to_all || kind == plan::OpKind::all_to_all_v
               ? Pattern::all_to_all
               : Pattern::ring;
}

// Whether the op is one that a group meets in.
bool is_met(const plan::Op& op) {
    return plan::is_communication(op.kind()) && op.kind() != plan::OpKind::exchange &&
           op.group != GroupKind::none;
}

// A path in numbers, to be compared.
void append_key(const std::vector<SharedLinks::Passage>& path, std::vector<std::int64_t>& key) {
    key.push_back(static_cast<std::int64_t>(path.size()));
    for (const SharedLinks::Passage& passage : path)
        key.insert(key.end(),
                   {passage.link, passage.flows, std::bit_cast<std::int64_t>(passage.load)});
}

}  // namespace

JobTraffic::JobTraffic(const plan::Plan& plan, const plan::Cluster& cluster, const NodeList& nodes)
    : plan_(plan) {
    const std::int64_t per_node = cluster.devices_per_node;
    for (Rank rank = 0; rank < plan.mesh.ranks(); ++rank)
        devices_.push_back(nodes[static_cast<std::size_t>(rank / per_node)] * per_node +
                           rank % per_node);
    if (cluster.inter_node.fabric.levels.empty()) return;
    add_meetings(plan, cluster);
    add_messages(plan, cluster);
    for (const Meeting& meeting : meetings_)
        for (const auto& loads : meeting.loads)
            pass(loads, cluster, nodes);
    for (const auto& [ends, by_rank] : messages_)
        for (const auto& loads : by_rank)
            pass(loads, cluster, nodes);
}

void JobTraffic::add_meetings(const plan::Plan& plan, const plan::Cluster& cluster) {
    std::set<std::pair<GroupKind, Pattern>> met;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            if (is_met(op)) met.emplace(op.group, pattern_of(op.kind()));
    for (const auto& [kind, pattern] : met) {
        Meeting meeting{kind, pattern, {}, {}};
        meeting.group_of.assign(devices_.size(), -1);
        for (Rank rank = 0; rank < plan.mesh.ranks(); ++rank) {
            if (meeting.group_of[static_cast<std::size_t>(rank)] >= 0) continue;
            std::vector<std::int64_t> members = plan.mesh.group(kind, rank);
            for (Rank& member : members) {
                meeting.group_of[static_cast<std::size_t>(member)] =
                    static_cast<std::int32_t>(meeting.loads.size());
                member = devices_[static_cast<std::size_t>(member)];
            }
            meeting.loads.emplace_back();
            if (members.size() > 1) add_loads(members, pattern, cluster, meeting.loads.back());
        }
        meetings_.push_back(std::move(meeting));
    }
}

void JobTraffic::add_messages(const plan::Plan& plan, const plan::Cluster& cluster) {
    const std::int64_t stage_ranks = plan.mesh.ranks() / plan.mesh.pipeline;
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        for (const plan::Step& step : plan.programs[p].steps)
            for (const plan::Transfer& transfer : step.transfers) {
                const auto own = static_cast<std::int64_t>(p);
                if (plan::carries_statistic(transfer.action.kind) || transfer.peer == own ||
                    !plan::is_send(transfer.action.kind))
                    continue;
                auto& by_rank = messages_[{own, transfer.peer}];
                if (!by_rank.empty()) continue;
                for (Rank rank = own * stage_ranks; rank < (own + 1) * stage_ranks; ++rank) {
                    const Rank peer = plan.mesh.pipeline_peer(rank, transfer.peer);
                    by_rank.emplace_back();
                    const std::int64_t from = devices_[static_cast<std::size_t>(rank)];
                    const std::int64_t to = devices_[static_cast<std::size_t>(peer)];
                    if (from / cluster.devices_per_node != to / cluster.devices_per_node)
                        add_loads(from, to, cluster, by_rank.back());
                }
            }
}

void JobTraffic::pass(const std::vector<LinkLoad>& loads, const plan::Cluster& cluster,
                      const NodeList& nodes) {
    for (const LinkLoad& load : loads) {
        const auto [place, fresh] = links_.try_emplace(load.link, 0);
        if (!fresh) continue;
        const auto level = static_cast<std::size_t>(load.link.level);
        const std::int64_t below = cluster.inter_node.fabric.levels[level].nodes;
        const auto own = std::count_if(nodes.begin(), nodes.end(), [&](std::int64_t node) {
            return node / below == load.link.unit;
        });
        place->second = static_cast<double>(own);
    }
}

JobLinks::JobLinks(const std::vector<JobTraffic>& traffic, const plan::Cluster& cluster,
                   const std::vector<std::int64_t>& node_kBps, Keep keep) {
    std::map<FabricLink, std::vector<std::int32_t>> passed;
    std::map<FabricLink, double> most;  // that may be asked for, in rates of a node
    for (std::size_t job = 0; job < traffic.size(); ++job)
        for (const auto& [link, nodes] : traffic[job].links()) {
            passed[link].push_back(static_cast<std::int32_t>(job));
            most[link] += nodes;
        }
    if (passed.empty()) return;
    const Topology topology(cluster.all_of_kind(0));
    const double node_GBps = topology.node_network_GBps();
    for (auto& [link, jobs] : passed) {
        if (keep == Keep::shared && jobs.size() < 2) continue;
        const int rails = link.level == 0 ? topology.rails() : 1;
        const double carries =
            topology.uplink_GBps(static_cast<std::size_t>(link.level)) / node_GBps;
        const bool fills = most[link] / rails > carries * (1 + 1e-9);
        if (keep == Keep::shared && !fills) continue;
        std::int64_t of_node = 0;
        for (const std::int32_t job : jobs)
            of_node = std::max(of_node, node_kBps[static_cast<std::size_t>(job)]);
        const auto kBps = static_cast<std::int64_t>(static_cast<double>(of_node) * carries);
        numbers_.emplace(link, static_cast<std::int32_t>(links_.size()));
        links_.push_back({link, std::max<std::int64_t>(1, kBps), std::move(jobs)});
    }
}

std::vector<std::int64_t> JobLinks::capacities() const {
    std::vector<std::int64_t> all;
    for (const SharedLink& link : links_)
        all.push_back(link.kBps);
    return all;
}

JobLinks::Path JobLinks::shared_part(const std::vector<LinkLoad>& loads) const {
    Path path;
    for (const LinkLoad& load : merged(loads))
        if (const auto found = numbers_.find(load.link); found != numbers_.end())
            path.push_back({found->second, load.flows, load.load});
    return path;
}

JobLinks::Path JobLinks::part_of(const std::vector<LinkLoad>& loads,
                                 const std::vector<bool>& these) const {
    Path path = shared_part(loads);
    std::erase_if(path, [&](const SharedLinks::Passage& passage) {
        return !these[static_cast<std::size_t>(passage.link)];
    });
    return path;
}

std::vector<std::int64_t> JobLinks::colours(const JobTraffic& of,
                                            const std::vector<bool>& these) const {
    if (std::find(these.begin(), these.end(), true) == these.end()) return {};
    std::vector<std::vector<std::int64_t>> keys(of.devices().size());
    for (const JobTraffic::Meeting& meeting : of.meetings_) {
        std::vector<Path> paths;
        for (const auto& loads : meeting.loads)
            paths.push_back(part_of(loads, these));
        for (std::size_t rank = 0; rank < keys.size(); ++rank)
            append_key(paths[static_cast<std::size_t>(meeting.group_of[rank])], keys[rank]);
    }
    const std::int64_t stage_ranks = of.plan_.mesh.ranks() / of.plan_.mesh.pipeline;
    for (const auto& [ends, by_rank] : of.messages_)
        for (std::int64_t i = 0; i < stage_ranks; ++i) {
            const Path path = part_of(by_rank[static_cast<std::size_t>(i)], these);
            for (const std::int64_t end : {ends.first, ends.second})
                append_key(path, keys[static_cast<std::size_t>(end * stage_ranks + i)]);
        }
    std::map<std::vector<std::int64_t>, std::int64_t> numbers;
    std::vector<std::int64_t> colours;
    for (const auto& key : keys)
        colours.push_back(
            numbers.emplace(key, static_cast<std::int64_t>(numbers.size())).first->second);
    return colours;
}

void JobLinks::lay_paths(const JobTraffic& of, Machine& machine, SharedLinks& shared,
                         std::vector<std::vector<NetworkUse>>& uses) const {
    if (links_.empty()) return;
    const plan::Mesh& mesh = of.plan_.mesh;
    const std::int64_t stage_ranks = mesh.ranks() / mesh.pipeline;
    const std::size_t tracks = machine.input.tracks.size();
    std::vector<std::vector<Rank>> ranks_of(tracks);
    for (std::size_t rank = 0; rank < machine.classes.class_of.size(); ++rank)
        ranks_of[static_cast<std::size_t>(machine.classes.class_of[rank])].push_back(
            static_cast<Rank>(rank));
    uses.resize(tracks);
    for (std::size_t t = 0; t < tracks; ++t) {
        EngineTrack& track = machine.input.tracks[t];
        const Machine::Above& above = machine.above[t];
        // A flow stands for all groups that its track's ranks are in.
        std::map<std::pair<GroupKind, Pattern>, std::int32_t> paths;
        for (const JobTraffic::Meeting& meeting : of.meetings_) {
            std::set<std::int32_t> groups;
            for (const Rank rank : ranks_of[t])
                groups.insert(meeting.group_of[static_cast<std::size_t>(rank)]);
            std::vector<LinkLoad> loads;
            for (const std::int32_t group : groups) {
                const auto& own = meeting.loads[static_cast<std::size_t>(group)];
                loads.insert(loads.end(), own.begin(), own.end());
            }
            Path path = shared_part(loads);
            for (SharedLinks::Passage& passage : path)
                passage.load *= above.groups[static_cast<std::size_t>(meeting.kind)];
            paths[{meeting.kind, meeting.pattern}] =
                path.empty() ? -1 : shared.add_path(std::move(path));
        }
        uses[t] = *track.network_uses;
        std::size_t number = 0;
        for (const plan::Block& block : of.plan_.blocks)
            for (const plan::Op& op : block.ops) {
                NetworkUse& use = uses[t][number++];
                if (is_met(op)) use.path = paths[{op.group, pattern_of(op.kind())}];
            }
        track.network_uses = &uses[t];
        for (std::size_t peer = 0; peer < track.use_to_peer.size(); ++peer) {
            std::vector<LinkLoad> out, in;
            const auto own = static_cast<std::int64_t>(track.program);
            const auto other = static_cast<std::int64_t>(peer);
            const auto sent = of.messages_.find({own, other});
            const auto received = of.messages_.find({other, own});
            for (const Rank rank : ranks_of[t]) {
                const auto at = static_cast<std::size_t>(rank - own * stage_ranks);
                if (sent != of.messages_.end())
                    out.insert(out.end(), sent->second[at].begin(), sent->second[at].end());
                if (received != of.messages_.end())
                    in.insert(in.end(), received->second[at].begin(), received->second[at].end());
            }
            Path outward = shared_part(out), inward = shared_part(in);
            if (outward.empty() && inward.empty()) continue;
            for (Path* path : {&outward, &inward})
                for (SharedLinks::Passage& passage : *path)
                    passage.load *= above.peers[peer];
            track.use_to_peer[peer].path = shared.add_path(std::move(outward));
            shared.add_path(std::move(inward));
        }
    }
}

}  // namespace orrery::sim
