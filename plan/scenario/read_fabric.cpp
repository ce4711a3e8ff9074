// How the nodes of a cluster hang on their switches.
#include <fmt/format.h>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kFabric = "/cluster/inter_node/fabric";
constexpr std::int64_t kMostNodesOfASwitch = 1'000'000;

bool has_direct_links(IntraNodeKind kind) {
    return kind != IntraNodeKind::pcie && kind != IntraNodeKind::host;
}

// Switches of a level join whole ones of the level below.
void check_nesting(Reading& reading, const std::string& pointer, std::int64_t nodes,
                   std::int64_t below) {
    if (nodes > below && nodes % below == 0) return;
    Diagnostic& fault = reading.report("S057", pointer + "/nodes",
                                       "a level must join two or more whole switches of the "
                                       "level below");
    fault.arithmetic = fmt::format("{} nodes, {} of a switch below", nodes, below);
    const std::int64_t lower = nodes / below * below;
    fault.help.push_back(lower > below ? fmt::format("nearest: {} and {}", lower, lower + below)
                                       : fmt::format("nearest: {}", 2 * below));
}

void read_levels(Reading& reading, Section& keys, Fabric& fabric) {
    const Json* list = keys.find("levels");
    if (list == nullptr) return;  // missed where it is required
    if (!list->is_array() || list->empty() || list->size() > kMostFabricLevels) {
        keys.wrong_type("levels", "an array of one to three levels, from the leaves up");
        return;
    }
    std::int64_t below = 0;  // 0: not known
    for (std::size_t i = 0; i < list->size(); ++i) {
        const std::string pointer = fmt::format("{}/levels/{}", kFabric, i);
        Section section(reading, pointer, fmt::format("cluster.inter_node.fabric.levels[{}]", i));
        FabricLevel level;
        const bool counted =
            section.integer("nodes", level.nodes, {1, kMostNodesOfASwitch}, Presence::required);
        section.number("oversubscription", level.oversubscription, {1, kMostOversubscription});
        section.known("source");
        section.finish();
        if (counted && below > 0) check_nesting(reading, pointer, level.nodes, below);
        below = counted ? level.nodes : 0;
        fabric.levels.push_back(level);
    }
}

}  // namespace

void read_fabric(Reading& reading, const Cluster& cluster, InterNode& link) {
    Section section(reading, kFabric, "cluster.inter_node.fabric");
    if (!section.exists()) return;
    Fabric& fabric = link.fabric;
    section.choice<FabricKind>("kind", fabric.kind,
                               {{"uniform", FabricKind::uniform},
                                {"fat_tree", FabricKind::fat_tree},
                                {"rail", FabricKind::rail}},
                               Presence::required);
    if (!reading.good({"cluster.inter_node.fabric.kind"}))
        for (const char* key : {"levels", "switch_latency_us", "cross_rail"})
            section.known(key);
    if (fabric.kind != FabricKind::uniform) {
        section.require("levels");
        read_levels(reading, section, fabric);
        section.number("switch_latency_us", fabric.switch_latency_us);
    }
    const bool direct = cluster.devices_per_node > 1 && has_direct_links(cluster.intra_node.kind);
    if (fabric.kind == FabricKind::rail) {
        if (!direct) fabric.cross_rail = CrossRail::spine;
        section.choice<CrossRail>("cross_rail", fabric.cross_rail,
                                  {{"nvlink", CrossRail::nvlink}, {"spine", CrossRail::spine}});
    }
    section.known("source");
    section.finish();
    if (fabric.kind != FabricKind::uniform && link.oversubscription != 1)
        reading
            .report("S058", "/cluster/inter_node/oversubscription",
                    "the levels of a fabric say where it is oversubscribed")
            .help.push_back("state it with a level of \"fabric\", and leave this key out");
    if (fabric.kind == FabricKind::rail && !direct && fabric.cross_rail == CrossRail::nvlink &&
        reading.good({"cluster.intra_node", "cluster.devices_per_node"}))
        reading
            .report("S058", std::string(kFabric) + "/cross_rail",
                    "a node whose devices no direct link joins has no other way between rails")
            .help.push_back("\"cross_rail\": \"spine\"");
}

}  // namespace orrery::plan
