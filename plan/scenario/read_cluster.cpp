#include <algorithm>

#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostPerNode = 16'384;
constexpr std::int64_t kMostOfOneSwitch = 1024;

bool is_mesh(const IntraNode& link) {
    return link.kind == IntraNodeKind::hybrid_cube_mesh;
}

bool is_torus(const IntraNode& link) {
    return link.kind == IntraNodeKind::torus;
}

constexpr const char* kShape = "shape";
constexpr const char* kWraparound = "wraparound";

bool is_linked(const InterNode& link) {
    return link.kind != InterNodeKind::none;
}

// One entry for each axis, which `take` has where it is sound.
template <typename Sound, typename Take>
bool read_each_axis(Section& section, const std::string& key, const char* expected, Sound sound,
                    Take take) {
    const Json* list = section.find(key);
    if (list == nullptr) return false;
    const bool good = list->is_array() && !list->empty() && list->size() <= kMostTorusAxes &&
                      std::all_of(list->begin(), list->end(), sound);
    if (!good) {
        section.wrong_type(key, expected);
        return false;
    }
    for (std::size_t axis = 0; axis < list->size(); ++axis)
        take(axis, (*list)[axis]);
    return true;
}

void read_axes(Section& section, IntraNode& link) {
    const auto is_length = [](const Json& value) {
        return value.is_number_integer() && value >= 1 && value <= kMostPerNode;
    };
    const bool shaped =
        read_each_axis(section, kShape, "an array of one to three whole numbers from 1 to 16384",
                       is_length, [&](std::size_t, const Json& devices) {
                           link.axes.push_back({devices.get<std::int64_t>(), true});
                       });
    std::vector<bool> wraps;
    const bool said = read_each_axis(
        section, kWraparound, "an array of true and false, one for each axis",
        [](const Json& value) { return value.is_boolean(); },
        [&](std::size_t, const Json& value) { wraps.push_back(value.get<bool>()); });
    if (!shaped || !said) return;
    if (wraps.size() != link.axes.size()) {
        section.wrong_type(kWraparound, "an array of true and false, one for each axis");
        return;
    }
    for (std::size_t axis = 0; axis < wraps.size(); ++axis)
        link.axes[axis].wraps = wraps[axis];
}

template <auto member>
Json written_of_axes(const KeySpec&, const IntraNode& link) {
    Json list = Json::array();
    for (const TorusAxis& axis : link.axes)
        list.push_back(axis.*member);
    return list;
}

void check_torus(Reading& reading, const ClusterPlace& place, std::int64_t per_node,
                 const IntraNode& link) {
    std::int64_t devices = 1;
    std::string product;
    for (const TorusAxis& axis : link.axes) {
        devices *= axis.devices;
        product += fmt::format("{}{}", product.empty() ? "" : " × ", axis.devices);
    }
    if (devices == per_node) return;
    Diagnostic& fault = reading.report("S084", place.at("intra_node/shape"),
                                       "the axes of a torus must make up the devices of a node");
    fault.arithmetic =
        fmt::format("{} = {}, and devices_per_node = {}", product, devices, per_node);
    if (devices <= kMostPerNode) fault.help.push_back(fmt::format("devices_per_node {}", devices));
}

// Whether the link can join so many devices.
void check_size(Reading& reading, const ClusterPlace& place, std::int64_t per_node,
                const IntraNode& link) {
    if (is_torus(link)) {
        if (reading.good({place.named("intra_node.shape").c_str()}) && !link.axes.empty())
            check_torus(reading, place, per_node, link);
        return;
    }
    const std::int64_t most = is_mesh(link) ? kCubeMeshDevices : kMostOfOneSwitch;
    if (per_node <= most) return;
    Diagnostic& fault = reading.report(
        "S056", place.at("devices_per_node"),
        is_mesh(link) ? fmt::format("a hybrid cube mesh joins at most {} devices", most)
                      : fmt::format("only a torus joins more than {} devices of a node", most));
    fault.arithmetic = fmt::format("devices_per_node = {}", per_node);
    fault.help.push_back(is_mesh(link) ? "\"nvswitch\" for larger nodes (DGX-2)"
                                       : "more nodes, with a network between them");
}

void read_intra_node(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                     IntraNode& link) {
    Section section(reading, place.at("intra_node"), place.named("intra_node"));
    const std::string per_node = place.named("devices_per_node");
    if (!section.exists()) {
        const bool judged = reading.good({per_node.c_str(), place.named("intra_node").c_str()}) &&
                            cluster.devices_per_node > 1;
        if (judged) {
            reading.report("S022", place.at("intra_node"),
                           fmt::format("{} devices in a node need a link between them: cluster "
                                       "needs the key \"intra_node\"",
                                       cluster.devices_per_node));
        }
        return;
    }
    read_keys(section, intra_node_keys(), link);
    if (is_torus(link)) read_axes(section, link);
    section.finish();
    if (reading.good({per_node.c_str(), place.named("intra_node.kind").c_str()}))
        check_size(reading, place, cluster.devices_per_node, link);
}

// One node needs no network, but may describe one for the day that nodes is raised. `all_nodes`:
// of the cluster that these nodes are in.
void read_inter_node(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                     std::int64_t all_nodes, InterNode& link) {
    Section section(reading, place.at("inter_node"), place.named("inter_node"));
    if (section.exists()) {
        // Where no kind is said, all that a network lacks is named.
        if (!section.has("kind")) link.kind = InterNodeKind::infiniband;
        read_keys(section, inter_node_keys(), link);
        if (!section.has("kind")) link.kind = InterNodeKind::none;
        section.finish();
        read_fabric(reading, place, cluster, link);
    }
    const bool judged = reading.good(
        {"cluster.nodes", place.named("nodes").c_str(), place.named("inter_node.kind").c_str()});
    if (!judged || all_nodes <= 1 || link.kind != InterNodeKind::none) return;
    reading
        .report("S022", place.at(section.exists() ? "inter_node/kind" : "inter_node"),
                fmt::format("{} nodes need a network between them", all_nodes))
        .help.push_back(section.exists() ? "\"kind\": \"infiniband\", \"roce\", …"
                                         : place.field + " needs the key \"inter_node\"");
}

void report_other_device(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                         const std::string& profile_is, const std::string& other) {
    Diagnostic& fault = reading.report("S023", place.at("device"),
                                       "the profile is of another device than the cluster's");
    fault.arithmetic =
        fmt::format("{} = \"{}\", {}", place.named("device"), cluster.device, profile_is);
    fault.help.push_back(fmt::format("use {}, or the profile of \"{}\"", other, cluster.device));
}

// The profile holds the timings of one device; read here only as far as the name of that device.
void check_profile(Reading& reading, const ClusterPlace& place, const Folders& folders,
                   Cluster& cluster, const std::string& reference) {
    const std::string pointer = place.at("profile");
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
    if (!reading.good({place.named("device").c_str()}) || device == cluster.device) return;
    report_other_device(reading, place, cluster, fmt::format("{} is of \"{}\"", reference, device),
                        fmt::format("the device \"{}\"", device));
}

void find_profile(Reading& reading, const ClusterPlace& place, const Folders& folders,
                  Cluster& cluster, const std::string& reference) {
    const std::string pointer = place.at("profile");
    if (reference == kThisMachine && place.field == ClusterPlace().field)
        return;  // see find_own_profile
    cluster.profile_path = find_file(reference, reading.document().source(pointer), folders);
    if (cluster.profile_path.empty())
        report_missing_file(reading, pointer, reference, "profiles", folders);
    else
        check_profile(reading, place, folders, cluster, reference);
}

// A name is of the hardware that its file describes: where a --set made that other hardware, the
// name says so.
void tell_changes(const Document& document, const ClusterPlace& place, std::string& name) {
    if (name.empty() || document.set_by_itself(place.at("name"))) return;
    std::string prefix = place.at("");  // as a --set spells it
    prefix.erase(0, 1);
    std::replace(prefix.begin(), prefix.end(), '/', '.');
    std::string changes;
    for (const char* part : {"nodes", "devices_per_node", "device", "intra_node", "inter_node"})
        for (const std::string& set : document.sets_at(place.at(part))) {
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
        number<&IntraNode::latency_us>("latency_us",
                                       "Of one message; of a torus, of each link that it passes")
            .in("µs")
            .required(),
        number<&IntraNode::host_GBps>("host_GBps",
                                      "Between the two halves of a node, of all devices together, "
                                      "in one direction",
                                      kPositive)
            .in("GB/s")
            .required()
            .where("with \"kind\": \"hybrid_cube_mesh\"", is_mesh),
        own<IntraNode>(kShape, KeyType::list,
                       "Devices on each axis, one to three; on the first lie those of neighbouring "
                       "numbers")
            .of_entries(KeyType::whole_number)
            .required()
            .where("with \"kind\": \"torus\"", is_torus)
            .written_by(written_of_axes<&TorusAxis::devices>),
        own<IntraNode>(kWraparound, KeyType::list,
                       "Whether a link joins the last device of an axis to its first; of each axis "
                       "unless said")
            .of_entries(KeyType::flag)
            .unset()
            .where("with \"kind\": \"torus\"", is_torus)
            .written_by(written_of_axes<&TorusAxis::wraps>),
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

namespace {

// Of the nodes of one kind; and of all of a cluster.
Keys<Cluster> keys_of_nodes(bool of_all) {
    Keys<Cluster> keys = {
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
    };
    if (of_all)
        keys = joined(
            std::move(keys),
            Keys<Cluster>{
                own<Cluster>("other_nodes", KeyType::list,
                             "Nodes of other kinds, which come after these in the order of ranks: "
                             "each a file of a cluster, or its keys",
                             specs(keys_of_nodes(false)))
                    .of_entries(KeyType::text)
                    .written_if([](const Cluster& from) { return !from.other_nodes.empty(); }),
                own<Cluster>("slow_devices", KeyType::list,
                             "Devices that are slower than the profile says",
                             specs(slow_device_keys())),
                own<Cluster>("slow_nodes", KeyType::list,
                             "Nodes whose devices are all slower than the profile says",
                             specs(slow_node_keys())),
                own<Cluster>("slow_links", KeyType::list,
                             "Links with less than their bandwidth: a device's to its node's "
                             "others, or the adapter that it sends through",
                             specs(slow_link_keys())),
                own<Cluster>("stragglers", KeyType::text,
                             "What is slow by chance, drawn from a seed: a preset of the library "
                             "(\"megascale\"), or its keys",
                             specs(straggler_keys())),
                own<Cluster>("jitter", KeyType::object,
                             "Factors that are drawn on the time of kernels", specs(jitter_keys())),
            });
    return joined(
        std::move(keys),
        Keys<Cluster>{
            own<Cluster>("list_price", KeyType::object,
                         "What the device is rented for by public lists; the library's unless "
                         "given",
                         specs(list_price_keys())),
            number<&Cluster::price_usd_per_gpu_hour>("price_usd_per_gpu_hour",
                                                     "What a device costs you, instead of the "
                                                     "list's price")
                .in("USD/h")
                .written_if([](const Cluster& from) { return !from.list_price; }),
            number<&Cluster::power_w_per_gpu>("power_w_per_gpu",
                                              "Draw of a device with its share of the node; 0: "
                                              "not known, and energy is not told")
                .in("W"),
            number<&Cluster::pue>("pue", "Power usage effectiveness of the site", {1, 10}),
            source_note<Cluster>(),
        });
}

const Keys<Cluster>& other_node_keys() {
    static const Keys<Cluster> keys = keys_of_nodes(false);
    return keys;
}

}  // namespace

const Keys<Cluster>& cluster_keys() {
    static const Keys<Cluster> keys = keys_of_nodes(true);
    return keys;
}

ClusterPlace place_of_others(std::size_t index) {
    return {fmt::format("/cluster/other_nodes/{}", index),
            fmt::format("cluster.other_nodes[{}]", index)};
}

std::vector<ClusterPlace> places_of_nodes(const Document& document) {
    std::vector<ClusterPlace> places = {ClusterPlace()};
    const Json* others = document.find("/cluster/other_nodes");
    for (std::size_t i = 0; others != nullptr && others->is_array() && i < others->size(); ++i)
        if ((*others)[i].is_object()) places.push_back(place_of_others(i));
    return places;
}

void follow_other_nodes(Reading& reading, const Folders& folders) {
    const Json* others = reading.document().find("/cluster/other_nodes");
    if (others == nullptr || !others->is_array()) return;
    for (std::size_t i = 0; i < others->size(); ++i) {
        const std::string pointer = place_of_others(i).pointer;
        if (reading.good_at(pointer))  // else it was looked for before, in vain
            follow_reference(reading, pointer, "clusters", Source::Kind::file, folders);
    }
}

namespace {

Json written_nodes(const Keys<Cluster>& keys, const ClusterPlace& place, const Cluster& cluster,
                   const Document& document) {
    Json out = Json::object();
    write_keys(keys, cluster, out, [&](const std::string& name) -> std::optional<Json> {
        const Json* said = document.find(place.at(name.c_str()));
        if (name == "list_price") {
            if (!cluster.list_price) return std::nullopt;
            return written(list_price_keys(), *cluster.list_price);
        }
        if (said == nullptr) return std::nullopt;
        if (name == "intra_node") return written(intra_node_keys(), cluster.intra_node);
        if (name == "inter_node") return written(inter_node_keys(), cluster.inter_node);
        if (name != "other_nodes") return *said;
        Json others = Json::array();
        for (std::size_t i = 0; i < cluster.other_nodes.size(); ++i)
            others.push_back(written_nodes(other_node_keys(), place_of_others(i),
                                           cluster.other_nodes[i], document));
        return others;
    });
    return out;
}

// The keys, without what they say of links: whether those are needed hangs on all nodes.
void read_nodes(Reading& reading, const ClusterPlace& place, Section& section,
                const Keys<Cluster>& keys, Cluster& cluster) {
    read_keys(section, keys, cluster);
    tell_changes(reading.document(), place, cluster.name);
    read_price(reading, place, section, cluster);
}

void read_links(Reading& reading, const ClusterPlace& place, const Folders& folders,
                std::int64_t all_nodes, Cluster& cluster) {
    read_intra_node(reading, place, cluster, cluster.intra_node);
    read_inter_node(reading, place, cluster, all_nodes, cluster.inter_node);
    read_host_memory(reading, place, cluster);
    const Json* profile = reading.document().find(place.at("profile"));
    if (profile != nullptr && profile->is_string() && reading.good_at(place.at("profile")))
        find_profile(reading, place, folders, cluster, profile->get<std::string>());
}

// What a group that spans nodes of several kinds is priced by asks that they lie alike.
void check_per_node(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                    const Cluster& others) {
    if (!reading.good({"cluster.devices_per_node", place.named("devices_per_node").c_str()}) ||
        others.devices_per_node == cluster.devices_per_node)
        return;
    Diagnostic& fault = reading.report("S059", place.at("devices_per_node"),
                                       "nodes of all kinds must have as many devices each");
    fault.arithmetic = fmt::format("{} devices in a node of {}, {} in one of the cluster's own",
                                   others.devices_per_node, place.field, cluster.devices_per_node);
    fault.help.push_back(
        fmt::format("{} nodes of {} devices are as many",
                    std::max<std::int64_t>(
                        1, others.nodes * others.devices_per_node / cluster.devices_per_node),
                    cluster.devices_per_node));
}

void check_mesh(Reading& reading, const ClusterPlace& place, const Cluster& nodes) {
    if (is_mesh(nodes.intra_node) || is_torus(nodes.intra_node))
        reading.report("S059", place.at("intra_node/kind"),
                       fmt::format("nodes of a {} cannot be mixed with others",
                                   is_torus(nodes.intra_node) ? "torus" : "hybrid cube mesh"));
}

// Nothing is wrong with it, nor with what stands in it.
bool is_sound(const Reading& reading, const std::string& pointer) {
    return reading.good_at(pointer) &&
           std::none_of(reading.errors().begin(), reading.errors().end(), [&](const Diagnostic& d) {
               return d.pointer.rfind(pointer + '/', 0) == 0;
           });
}

// What a switch carries is told by the adapters below it.
void check_fabric(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                  const Cluster& others) {
    const InterNode &own = cluster.inter_node, &other = others.inter_node;
    if (own.fabric.levels.empty() && other.fabric.levels.empty()) return;
    if (!is_sound(reading, ClusterPlace().at("inter_node")) ||
        !is_sound(reading, place.at("inter_node")))
        return;
    std::string unlike;
    const auto say = [&](const std::string& what) {
        unlike += (unlike.empty() ? "" : ", ") + what;
    };
    if (own.nics_per_node != other.nics_per_node)
        say(fmt::format("nics_per_node {} and {}", own.nics_per_node, other.nics_per_node));
    if (own.bandwidth_Gbps != other.bandwidth_Gbps)
        say(fmt::format("bandwidth_Gbps {} and {}", own.bandwidth_Gbps, other.bandwidth_Gbps));
    if (!(own.fabric == other.fabric)) say("another fabric");
    if (unlike.empty()) return;
    Diagnostic& fault = reading.report(
        "S059", place.at("inter_node"),
        "nodes of several kinds below the switches of one fabric need equal networks");
    fault.arithmetic =
        fmt::format("cluster.inter_node and {}: {}", place.named("inter_node"), unlike);
    fault.help.push_back(
        "the same adapters and the same \"fabric\" for all; or no \"fabric\", and "
        "\"oversubscription\" for what a uniform one lacks");
}

void read_others(Reading& reading, const Folders& folders, Section& section, Cluster& cluster) {
    const Json* list = section.find("other_nodes");
    if (list == nullptr) return;
    if (!list->is_array() || list->size() >= kMostNodeKinds) {
        section.wrong_type("other_nodes",
                           "an array of at most 31 clusters, each a file or an object");
        return;
    }
    std::vector<std::pair<ClusterPlace, std::size_t>> read;
    for (std::size_t i = 0; i < list->size(); ++i) {
        const ClusterPlace place = place_of_others(i);
        Cluster& others = cluster.other_nodes.emplace_back();
        Section keys(reading, place.pointer, place.field);
        if (!keys.exists() || !reading.good_at(place.pointer)) {
            reading.mark_bad(ClusterPlace().at("nodes"));  // how many there are is not known
            continue;
        }
        read_nodes(reading, place, keys, other_node_keys(), others);
        keys.finish();
        if (!keys.good("nodes")) reading.mark_bad(ClusterPlace().at("nodes"));
        read.emplace_back(place, i);
    }
    for (const auto& [place, i] : read)
        read_links(reading, place, folders, cluster.all_nodes(), cluster.other_nodes[i]);
}

}  // namespace

Json written_cluster(const Cluster& cluster, const Document& document) {
    return written_nodes(cluster_keys(), ClusterPlace(), cluster, document);
}

void read_cluster(Reading& reading, const Folders& folders, Cluster& cluster) {
    const ClusterPlace place;
    Section section(reading, place.pointer, place.field);
    if (!section.exists()) return;
    read_nodes(reading, place, section, cluster_keys(), cluster);
    read_others(reading, folders, section, cluster);
    read_uneven(reading, section, cluster);
    section.finish();
    read_links(reading, place, folders, cluster.all_nodes(), cluster);
    if (cluster.other_nodes.empty()) return;
    check_mesh(reading, place, cluster);
    for (std::size_t i = 0; i < cluster.other_nodes.size(); ++i) {
        if (!reading.good_at(place_of_others(i).pointer)) continue;
        check_per_node(reading, place_of_others(i), cluster, cluster.other_nodes[i]);
        check_mesh(reading, place_of_others(i), cluster.other_nodes[i]);
        check_fabric(reading, place_of_others(i), cluster, cluster.other_nodes[i]);
    }
}

void find_own_profile(Reading& reading, const Folders& folders, Scenario& scenario) {
    const ClusterPlace place;
    const std::string pointer = place.at("profile");
    const Json* reference = reading.document().find(pointer);
    if (reference == nullptr || *reference != kThisMachine) return;
    Cluster& cluster = scenario.cluster;
    if (cluster.intra_node.kind != IntraNodeKind::host) {
        report_other_device(reading, place, cluster,
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
    check_profile(reading, place, folders, cluster, kThisMachine);
}

}  // namespace orrery::plan
