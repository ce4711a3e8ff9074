#include <algorithm>

#include <fmt/format.h>

#include "plan/scenario/link_kinds.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostPerNode = 1024;

void read_intra_node(Reading& reading, const Cluster& cluster, IntraNode& link) {
    Section section(reading, "/cluster/intra_node", "cluster.intra_node");
    if (!section.exists()) {
        const bool judged = reading.good({"cluster.devices_per_node", "cluster.intra_node"}) &&
                            cluster.devices_per_node > 1;
        if (judged) {
            reading.report("S022", "/cluster/intra_node",
                           fmt::format("{} devices in a node need a link between them: cluster "
                                       "needs the key \"intra_node\"",
                                       cluster.devices_per_node));
        }
        return;
    }
    section.choice("kind", link.kind, intra_node_kinds(), Presence::required);
    section.number("bandwidth_GBps", link.bandwidth_GBps, kPositive, Presence::required);
    section.number("latency_us", link.latency_us, {}, Presence::required);
    const bool mesh = link.kind == IntraNodeKind::hybrid_cube_mesh;
    if (mesh) section.number("host_GBps", link.host_GBps, kPositive, Presence::required);
    section.finish();
    if (!mesh || !reading.good({"cluster.devices_per_node", "cluster.intra_node.kind"}) ||
        cluster.devices_per_node <= kCubeMeshDevices)
        return;
    Diagnostic& fault = reading.report(
        "S056", "/cluster/devices_per_node",
        fmt::format("a hybrid cube mesh joins at most {} devices", kCubeMeshDevices));
    fault.arithmetic = fmt::format("devices_per_node = {}", cluster.devices_per_node);
    fault.help.push_back("\"nvswitch\" for larger nodes (DGX-2)");
}

// One node needs no network, but may describe one for the day that nodes is raised.
void read_inter_node(Reading& reading, const Cluster& cluster, InterNode& link) {
    Section section(reading, "/cluster/inter_node", "cluster.inter_node");
    if (section.exists()) {
        section.choice("kind", link.kind, inter_node_kinds(), Presence::required);
        const bool linked = !section.has("kind") || link.kind != InterNodeKind::none;
        const Presence presence = linked ? Presence::required : Presence::optional;
        std::int64_t nics = 0;
        section.integer("nics_per_node", nics, {1, kMostPerNode}, presence);
        link.nics_per_node = static_cast<int>(nics);
        section.number("bandwidth_Gbps", link.bandwidth_Gbps, kPositive, presence);
        section.number("latency_us", link.latency_us, {}, presence);
        section.number("oversubscription", link.oversubscription, {1, kMostOversubscription});
        section.known("fabric");
        section.finish();
        read_fabric(reading, cluster, link);
    }
    const bool judged = reading.good({"cluster.nodes", "cluster.inter_node.kind"});
    if (!judged || cluster.nodes <= 1 || link.kind != InterNodeKind::none) return;
    reading
        .report("S022", section.exists() ? "/cluster/inter_node/kind" : "/cluster/inter_node",
                fmt::format("{} nodes need a network between them", cluster.nodes))
        .help.push_back(section.exists() ? "\"kind\": \"infiniband\" or \"ethernet\""
                                         : "cluster needs the key \"inter_node\"");
}

void report_other_device(Reading& reading, const Cluster& cluster, const std::string& profile_is,
                         const std::string& other) {
    Diagnostic& fault = reading.report("S023", "/cluster/device",
                                       "the profile is of another device than the cluster's");
    fault.arithmetic = fmt::format("cluster.device = \"{}\", {}", cluster.device, profile_is);
    fault.help.push_back(fmt::format("use {}, or the profile of \"{}\"", other, cluster.device));
}

// The profile holds the timings of one device; read here only as far as the name of that device.
void check_profile(Reading& reading, const Folders& folders, Cluster& cluster,
                   const std::string& reference) {
    const std::string pointer = "/cluster/profile";
    const std::optional<ParsedJson> parsed =
        parse_file(reading, pointer, reference, cluster.profile_path, folders.files);
    if (!parsed) return;
    if (!parsed->errors.empty()) {
        reading.unreadable = true;
        return;
    }
    const bool named = parsed->value.is_object() && parsed->value.contains("device") &&
                       parsed->value["device"].is_string();
    if (!named) {
        reading.unreadable = true;
        reading.report("S026", pointer,
                       fmt::format("{} is not a profile: it has no \"device\"", reference));
        return;
    }
    const std::string device = parsed->value["device"].get<std::string>();
    if (!reading.good({"cluster.device"}) || device == cluster.device) return;
    report_other_device(reading, cluster, fmt::format("{} is of \"{}\"", reference, device),
                        fmt::format("the device \"{}\"", device));
}

void find_profile(Reading& reading, const Folders& folders, Cluster& cluster,
                  const std::string& reference) {
    const std::string pointer = "/cluster/profile";
    if (reference == kThisMachine) return;  // see find_own_profile
    cluster.profile_path = find_file(reference, reading.document().source(pointer), folders);
    if (cluster.profile_path.empty())
        report_missing_file(reading, pointer, reference, "profiles", folders);
    else
        check_profile(reading, folders, cluster, reference);
}

// A name is of the hardware that its file describes: where a --set made that other hardware, the
// name says so.
void tell_changes(const Document& document, std::string& name) {
    if (name.empty() || document.set_by_itself("/cluster/name")) return;
    const std::string prefix = "cluster.";
    std::string changes;
    for (const char* part : {"nodes", "devices_per_node", "device", "intra_node", "inter_node"})
        for (const std::string& set : document.sets_at(std::string("/cluster/") + part)) {
            const std::size_t object = set.find('{');
            changes += (changes.empty() ? "" : ", ") +
                       set.substr(prefix.size(), object - prefix.size()) +
                       (object == std::string::npos ? "" : "…");
        }
    if (!changes.empty()) name += ", with " + changes;
}

}  // namespace

void read_cluster(Reading& reading, const Folders& folders, Cluster& cluster) {
    Section section(reading, "/cluster", "cluster");
    if (!section.exists()) return;
    section.text("name", cluster.name);
    tell_changes(reading.document(), cluster.name);
    section.integer("nodes", cluster.nodes, {1, kMostNodes}, Presence::required);
    section.integer("devices_per_node", cluster.devices_per_node, {1, kMostPerNode},
                    Presence::required);
    section.text("device", cluster.device, Presence::required);
    std::string profile;
    const bool has_profile = section.text("profile", profile, Presence::required);
    section.known("intra_node");
    section.known("inter_node");
    section.known("host_memory");
    section.known("storage");
    read_price(reading, section, cluster);
    section.number("power_w_per_gpu", cluster.power_w_per_gpu);
    section.number("pue", cluster.pue, {1, 10});
    read_uneven(reading, section, cluster);
    section.known("source");  // of the figures; any JSON, carried along
    section.finish();
    read_intra_node(reading, cluster, cluster.intra_node);
    read_inter_node(reading, cluster, cluster.inter_node);
    read_host_memory(reading, cluster);
    if (has_profile) find_profile(reading, folders, cluster, profile);
}

void find_own_profile(Reading& reading, const Folders& folders, Scenario& scenario) {
    const std::string pointer = "/cluster/profile";
    const Json* reference = reading.document().find(pointer);
    if (reference == nullptr || *reference != kThisMachine) return;
    Cluster& cluster = scenario.cluster;
    if (cluster.intra_node.kind != IntraNodeKind::host) {
        report_other_device(reading, cluster,
                            fmt::format("{} is of this computer's cores", kThisMachine),
                            "a cluster whose ranks are cores (intra_node.kind \"host\")");
        return;
    }
    std::string why;
    cluster.profile_path =
        folders.files.machine_profile(std::min(scenario.layout.ranks(), cluster.devices_per_node),
                                      scenario.run.threads_per_rank, why);
    if (cluster.profile_path.empty()) {
        reading.unreadable = true;
        reading.report("S001", pointer, "there is no profile of this machine: " + why);
        return;
    }
    check_profile(reading, folders, cluster, kThisMachine);
}

}  // namespace orrery::plan
