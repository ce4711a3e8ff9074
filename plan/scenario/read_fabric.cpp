// How the nodes of a cluster hang on their switches.
#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kFabric = "inter_node/fabric";
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

void read_levels(Reading& reading, const ClusterPlace& place, Section& keys, Fabric& fabric) {
    const Json* list = keys.find("levels");
    if (list == nullptr) return;  // missed where it is required
    if (!list->is_array() || list->empty() || list->size() > kMostFabricLevels) {
        keys.wrong_type("levels", "an array of one to three levels, from the leaves up");
        return;
    }
    std::int64_t below = 0;  // 0: not known
    for (std::size_t i = 0; i < list->size(); ++i) {
        const std::string pointer = fmt::format("{}/levels/{}", place.at(kFabric), i);
        FabricLevel level;
        const bool counted =
            read_object(reading, pointer,
                        fmt::format("{}[{}]", place.named("inter_node.fabric.levels"), i),
                        fabric_level_keys(), level) &&
            reading.good_at(pointer + "/nodes");
        if (counted && below > 0) check_nesting(reading, pointer, level.nodes, below);
        below = counted ? level.nodes : 0;
        fabric.levels.push_back(level);
    }
}

bool has_levels(const Fabric& fabric) {
    return fabric.kind != FabricKind::uniform;
}

bool has_rails(const Fabric& fabric) {
    return fabric.kind == FabricKind::rail;
}

}  // namespace

const Keys<FabricLevel>& fabric_level_keys() {
    static const Keys<FabricLevel> keys = {
        count<&FabricLevel::nodes>("nodes", "How many lie below one of its switches",
                                   {1, kMostNodesOfASwitch})
            .required(),
        number<&FabricLevel::oversubscription>("oversubscription",
                                               "What comes from below ÷ what its links upwards "
                                               "carry",
                                               {1, kMostOversubscription}),
        source_note<FabricLevel>(),
    };
    return keys;
}

const Keys<Fabric>& fabric_keys() {
    static const Keys<Fabric> keys = {
        choice<&Fabric::kind>("kind",
                              "How nodes hang on their switches: all alike, so many on a leaf, or "
                              "the devices of one place in their nodes on a leaf")
            .required(),
        own<Fabric>("levels", KeyType::list, "Of switches, one to three, from the leaves up",
                    specs(fabric_level_keys()))
            .required()
            .where("with \"kind\": \"fat_tree\" or \"rail\"", has_levels),
        number<&Fabric::switch_latency_us>("switch_latency_us", "Of each switch beyond the first")
            .in("µs")
            .where("with \"kind\": \"fat_tree\" or \"rail\"", has_levels),
        choice<&Fabric::cross_rail>("cross_rail",
                                    "Which way a message goes between devices on different rails")
            .where("with \"kind\": \"rail\"", has_rails),
        source_note<Fabric>(),
    };
    return keys;
}

Json written_fabric(const Fabric& fabric) {
    Json out = Json::object();
    write_keys(fabric_keys(), fabric, out, [&](const std::string& name) -> std::optional<Json> {
        if (name != "levels") return std::nullopt;
        Json levels = Json::array();
        for (const FabricLevel& level : fabric.levels)
            levels.push_back(written(fabric_level_keys(), level));
        return levels;
    });
    return out;
}

void read_fabric(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                 InterNode& link) {
    Section section(reading, place.at(kFabric), place.named("inter_node.fabric"));
    if (!section.exists()) return;
    Fabric& fabric = link.fabric;
    const bool direct = cluster.devices_per_node > 1 && has_direct_links(cluster.intra_node.kind);
    if (!direct) fabric.cross_rail = CrossRail::spine;
    read_keys(section, fabric_keys(), fabric);
    if (!has_rails(fabric)) fabric.cross_rail = CrossRail::nvlink;
    if (has_levels(fabric)) read_levels(reading, place, section, fabric);
    section.finish();
    if (has_levels(fabric) && link.oversubscription != 1)
        reading
            .report("S058", place.at("inter_node/oversubscription"),
                    "the levels of a fabric say where it is oversubscribed")
            .help.push_back("state it with a level of \"fabric\", and leave this key out");
    if (has_rails(fabric) && !direct && fabric.cross_rail == CrossRail::nvlink &&
        reading.good({place.named("intra_node").c_str(), place.named("devices_per_node").c_str()}))
        reading
            .report("S058", place.at(kFabric) + "/cross_rail",
                    "a node whose devices no direct link joins has no other way between rails")
            .help.push_back("\"cross_rail\": \"spine\"");
}

}  // namespace orrery::plan
