#include <algorithm>

#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostPerNode = 1024;

bool is_mesh(const IntraNode& link) {
    return link.kind == IntraNodeKind::hybrid_cube_mesh;
}

bool is_linked(const InterNode& link) {
    return link.kind != InterNodeKind::none;
}

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
    read_keys(section, intra_node_keys(), link);
    section.finish();
    if (!is_mesh(link) || !reading.good({"cluster.devices_per_node", "cluster.intra_node.kind"}) ||
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
        // Where no kind is said, all that a network lacks is named.
        if (!section.has("kind")) link.kind = InterNodeKind::infiniband;
        read_keys(section, inter_node_keys(), link);
        if (!section.has("kind")) link.kind = InterNodeKind::none;
        section.finish();
        read_fabric(reading, cluster, link);
    }
    const bool judged = reading.good({"cluster.nodes", "cluster.inter_node.kind"});
    if (!judged || cluster.nodes <= 1 || link.kind != InterNodeKind::none) return;
    reading
        .report("S022", section.exists() ? "/cluster/inter_node/kind" : "/cluster/inter_node",
                fmt::format("{} nodes need a network between them", cluster.nodes))
        .help.push_back(section.exists() ? "\"kind\": \"infiniband\", \"roce\", …"
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

const Keys<IntraNode>& intra_node_keys() {
    static const Keys<IntraNode> keys = {
        choice<&IntraNode::kind>("kind", "What joins the devices of a node").required(),
        number<&IntraNode::bandwidth_GBps>(
            "bandwidth_GBps", "Of one device, in one direction, all its links together", kPositive)
            .in("GB/s")
            .required(),
        number<&IntraNode::latency_us>("latency_us", "Of one message").in("µs").required(),
        number<&IntraNode::host_GBps>("host_GBps",
                                      "Between the two halves of a node, of all devices together, "
                                      "in one direction",
                                      kPositive)
            .in("GB/s")
            .required()
            .where("with \"kind\": \"hybrid_cube_mesh\"", is_mesh),
    };
    return keys;
}

const Keys<InterNode>& inter_node_keys() {
    static const Keys<InterNode> keys = {
        choice<&InterNode::kind>("kind", "The network between nodes").required(),
        count<&InterNode::nics_per_node>("nics_per_node", "Network adapters of a node",
                                         {1, kMostPerNode})
            .required_if(is_linked)
            .unset()
            .written_if([](const InterNode& from) { return from.nics_per_node > 0; }),
        number<&InterNode::bandwidth_Gbps>("bandwidth_Gbps", "Of one adapter, in one direction",
                                           kPositive)
            .in("Gb/s")
            .required_if(is_linked)
            .unset()
            .written_if([](const InterNode& from) { return from.bandwidth_Gbps > 0; }),
        number<&InterNode::latency_us>("latency_us", "Of one message")
            .in("µs")
            .required_if(is_linked),
        number<&InterNode::oversubscription>(
            "oversubscription", "Of a uniform fabric above its leaves; 1: full bisection",
            {1, kMostOversubscription}),
        own<InterNode>("fabric", KeyType::object, "How nodes hang on their switches",
                       specs(fabric_keys()))
            .written_if(
                [](const InterNode& from) { return from.fabric.kind != FabricKind::uniform; })
            .written_by(
                [](const KeySpec&, const InterNode& from) { return written_fabric(from.fabric); }),
    };
    return keys;
}

const Keys<Cluster>& cluster_keys() {
    static const Keys<Cluster> keys = {
        text<&Cluster::name>("name", "What reports call it"),
        count<&Cluster::nodes>("nodes", "Computers", {1, kMostNodes})
            .required()
            .also({"num_nodes"}),
        count<&Cluster::devices_per_node>("devices_per_node", "Devices (GPUs) of a node",
                                          {1, kMostPerNode})
            .required()
            .also({"gpus_per_node"}),
        text<&Cluster::device>("device", "Their name, as in the profile").required().also({"gpu"}),
        passed_text<Cluster>("profile",
                             "Timings of the device's kernels and collectives: a file, a name of "
                             "the library, or \"this-machine\"")
            .required(),
        own<Cluster>("intra_node", KeyType::object, "The link between the devices of a node",
                     specs(intra_node_keys())),
        own<Cluster>("inter_node", KeyType::object, "The network between nodes",
                     specs(inter_node_keys())),
        own<Cluster>("host_memory", KeyType::object, "Memory of a node, for what is offloaded",
                     specs(host_memory_keys())),
        own<Cluster>("storage", KeyType::object, "Disk of a node, for what is offloaded",
                     specs(storage_keys())),
        own<Cluster>("slow_devices", KeyType::list, "Devices that are slower than the profile says",
                     specs(slow_device_keys())),
        own<Cluster>("jitter", KeyType::object, "Factors that are drawn on the time of kernels",
                     specs(jitter_keys())),
        own<Cluster>("list_price", KeyType::object,
                     "What the device is rented for by public lists; the library's unless given",
                     specs(list_price_keys())),
        number<&Cluster::price_usd_per_gpu_hour>("price_usd_per_gpu_hour",
                                                 "What a device costs you, instead of the list's "
                                                 "price")
            .in("USD/h")
            .written_if([](const Cluster& from) { return !from.list_price; }),
        number<&Cluster::power_w_per_gpu>("power_w_per_gpu",
                                          "Draw of a device with its share of the node; 0: not "
                                          "known, and energy is not told")
            .in("W"),
        number<&Cluster::pue>("pue", "Power usage effectiveness of the site", {1, 10}),
        source_note<Cluster>(),
    };
    return keys;
}

Json written_cluster(const Cluster& cluster, const Document& document) {
    Json out = Json::object();
    write_keys(cluster_keys(), cluster, out, [&](const std::string& name) -> std::optional<Json> {
        const Json* said = document.find("/cluster/" + name);
        if (name == "list_price") {
            if (!cluster.list_price) return std::nullopt;
            return written(list_price_keys(), *cluster.list_price);
        }
        if (said == nullptr) return std::nullopt;
        if (name == "intra_node") return written(intra_node_keys(), cluster.intra_node);
        if (name == "inter_node") return written(inter_node_keys(), cluster.inter_node);
        return *said;
    });
    return out;
}

void read_cluster(Reading& reading, const Folders& folders, Cluster& cluster) {
    Section section(reading, "/cluster", "cluster");
    if (!section.exists()) return;
    read_keys(section, cluster_keys(), cluster);
    tell_changes(reading.document(), cluster.name);
    const bool has_profile = section.has("profile") && section.good("profile");
    read_price(reading, section, cluster);
    read_uneven(reading, section, cluster);
    section.finish();
    read_intra_node(reading, cluster, cluster.intra_node);
    read_inter_node(reading, cluster, cluster.inter_node);
    read_host_memory(reading, cluster);
    if (has_profile)
        find_profile(reading, folders, cluster, section.find("profile")->get<std::string>());
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
