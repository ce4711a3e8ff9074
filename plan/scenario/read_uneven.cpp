// Keys of a cluster whose devices are not alike.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr double kSlowest = 10;
constexpr double kMostDeviation = 1;

// f(pointer, field, entry) for each of a list of objects; nothing where the key is absent.
template <typename Function>
void each_entry(Section& section, const std::string& pointer, const std::string& field,
                const std::string& key, const char* expected, const Function& f) {
    const Json* list = section.find(key);
    if (list == nullptr) return;
    if (!list->is_array()) {
        section.wrong_type(key, expected);
        return;
    }
    for (std::size_t i = 0; i < list->size(); ++i)
        f(fmt::format("{}/{}/{}", pointer, key, i), fmt::format("{}.{}[{}]", field, key, i));
}

// Whether a device or node of that number is among the cluster's, and it says so where it is not.
bool check_named(Reading& reading, const Cluster& cluster, const std::string& pointer,
                 const char* what, std::int64_t named) {
    const std::string at = pointer + '/' + what;
    if (!reading.good_at(at)) return false;
    if (!reading.good({"cluster.nodes", "cluster.devices_per_node"})) return true;
    const bool device = std::string_view(what) == "device";
    const std::int64_t last = (device ? cluster.devices() : cluster.all_nodes()) - 1;
    if (named <= last) return true;
    reading.report("S007", at, fmt::format("{} must be at most {}", what, last));
    return false;
}

// Sorted by what they name; one that is named twice is an error.
template <auto named, typename Slow>
void put_in_order(Reading& reading, const std::string& pointer, const char* what, Slow slow,
                  std::vector<Slow>& all) {
    const auto place =
        std::lower_bound(all.begin(), all.end(), slow.*named,
                         [](const Slow& one, std::int64_t of) { return one.*named < of; });
    if (place != all.end() && (*place).*named == slow.*named && reading.good_at(pointer)) {
        reading.report("S055", pointer + '/' + what,
                       fmt::format("{} {} is named twice", what, slow.*named));
        return;
    }
    all.insert(place, slow);
}

void read_slow_link(Reading& reading, const Cluster& cluster, const std::string& pointer,
                    const std::string& field, SlowLink& slow) {
    Section section(reading, pointer, field);
    if (!section.exists()) return;
    read_keys(section, slow_link_keys(), slow);
    section.finish();
    if (section.has("device") && section.has("node"))
        reading.report("S055", pointer + "/node", "a link is of a device, or of all of a node")
            .help.push_back("name one of \"device\" and \"node\"");
    else if (!section.has("device") && !section.has("node"))
        reading.report("S055", pointer, "whose link is slow?")
            .help.push_back("\"device\": 12, or \"node\": 1 for all of a node");
    if (section.has("device")) check_named(reading, cluster, pointer, "device", slow.device);
    if (section.has("node")) check_named(reading, cluster, pointer, "node", slow.node);
    const bool network = slow.link == LinkOf::inter_node;
    if (!section.sound() || !reading.good({"cluster.nodes", "cluster.devices_per_node"})) return;
    if (network ? cluster.all_nodes() > 1 : cluster.devices_per_node > 1) return;
    reading.report("S055", pointer + "/link",
                   network ? "one node has no network to others"
                           : "a node of one device has no links within it");
}

void read_stragglers(Reading& reading, Stragglers& stragglers) {
    const std::string pointer = "/cluster/stragglers", field = "cluster.stragglers";
    Section section(reading, pointer, field);
    if (!section.exists()) return;
    read_keys(section, straggler_keys(), stragglers);
    each_entry(section, pointer, field, "slow", "an array of objects with a share and a factor",
               [&](const std::string& at, const std::string& name) {
                   read_object(reading, at, name, straggler_share_keys(),
                               stragglers.slow.emplace_back());
               });
    section.finish();
}

}  // namespace

const Keys<SlowDevice>& slow_device_keys() {
    static const Keys<SlowDevice> keys = {
        count<&SlowDevice::device>("device", "Which of the cluster's, counted node by node",
                                   {0, kLargestCount})
            .required(),
        number<&SlowDevice::factor>(
            "factor", "Time of its kernels, as a multiple of what the profile says", {1, kSlowest})
            .required(),
        source_note<SlowDevice>(),
    };
    return keys;
}

const Keys<SlowNode>& slow_node_keys() {
    static const Keys<SlowNode> keys = {
        count<&SlowNode::node>("node", "Which of the cluster's", {0, kLargestCount}).required(),
        number<&SlowNode::factor>("factor",
                                  "Time of its devices' kernels, as a multiple of what the profile "
                                  "says; of a slow device the factors are multiplied",
                                  {1, kSlowest})
            .required(),
        source_note<SlowNode>(),
    };
    return keys;
}

const Keys<SlowLink>& slow_link_keys() {
    static const Keys<SlowLink> keys = {
        count<&SlowLink::device>("device", "Whose link, counted node by node", {0, kLargestCount})
            .unset(),
        count<&SlowLink::node>("node", "All of whose links, in the place of a device",
                               {0, kLargestCount})
            .unset(),
        choice<&SlowLink::link>("link",
                                "Those to the node's other devices, or the network adapter that it "
                                "sends through"),
        number<&SlowLink::factor>("factor", "The link has 1/factor of its bandwidth", {1, kSlowest})
            .required(),
        source_note<SlowLink>(),
    };
    return keys;
}

const Keys<StragglerShare>& straggler_share_keys() {
    static const Keys<StragglerShare> keys = {
        choice<&StragglerShare::of>("of",
                                    "What is slow: kernels of a device or of all of a node, a "
                                    "device's link to its node's others, a node's network adapters")
            .required(),
        number<&StragglerShare::share>("share", "So many of all, each for itself", {0, 1})
            .required(),
        number<&StragglerShare::factor>(
            "factor", "Time of the kernels, or what the bandwidth is divided by", {1, kSlowest})
            .required(),
        source_note<StragglerShare>(),
    };
    return keys;
}

const Keys<Stragglers>& straggler_keys() {
    static const Keys<Stragglers> keys = {
        text<&Stragglers::name>("name", "What reports call it"),
        own<Stragglers>("slow", KeyType::list, "What is slow, each with its share and its factor",
                        specs(straggler_share_keys())),
        number<&Stragglers::common_sd>("common_sd",
                                       "Standard deviation of one factor of mean 1 on the kernels "
                                       "of all devices: clocks that follow the temperature",
                                       {0, kMostDeviation}),
        count<&Stragglers::seed>("seed", "Of the draws", {0, kLargestCount}),
        source_note<Stragglers>(),
    };
    return keys;
}

const Keys<Jitter>& jitter_keys() {
    static const Keys<Jitter> keys = {
        choice<&Jitter::distribution>("distribution",
                                      "Of the factors on the time of kernels, of mean 1")
            .required(),
        number<&Jitter::relative_sd>("relative_sd", "Standard deviation of the factors",
                                     {0, kMostDeviation})
            .required(),
        choice<&Jitter::per>("per", "What draws a factor of its own"),
        count<&Jitter::seed>("seed", "Of the draws", {0, kLargestCount}),
        source_note<Jitter>(),
    };
    return keys;
}

void follow_stragglers(Reading& reading, const Folders& folders) {
    constexpr const char* kStragglers = "/cluster/stragglers";
    if (reading.good_at(kStragglers))  // else it was looked for before, in vain
        follow_reference(reading, kStragglers, "stragglers", Source::Kind::preset, folders);
}

void read_uneven(Reading& reading, Section& keys, Cluster& cluster) {
    const std::string pointer = "/cluster", field = "cluster";
    each_entry(keys, pointer, field, "slow_devices",
               "an array of objects with a device and its factor",
               [&](const std::string& at, const std::string& name) {
                   SlowDevice slow;
                   read_object(reading, at, name, slow_device_keys(), slow);
                   if (check_named(reading, cluster, at, "device", slow.device))
                       put_in_order<&SlowDevice::device>(reading, at, "device", slow,
                                                         cluster.slow_devices);
               });
    each_entry(keys, pointer, field, "slow_nodes", "an array of objects with a node and its factor",
               [&](const std::string& at, const std::string& name) {
                   SlowNode slow;
                   read_object(reading, at, name, slow_node_keys(), slow);
                   if (check_named(reading, cluster, at, "node", slow.node))
                       put_in_order<&SlowNode::node>(reading, at, "node", slow, cluster.slow_nodes);
               });
    each_entry(keys, pointer, field, "slow_links", "an array of objects with a link and its factor",
               [&](const std::string& at, const std::string& name) {
                   read_slow_link(reading, cluster, at, name, cluster.slow_links.emplace_back());
               });
    read_stragglers(reading, cluster.stragglers);
    read_object(reading, "/cluster/jitter", "cluster.jitter", jitter_keys(), cluster.jitter);
}

}  // namespace orrery::plan
