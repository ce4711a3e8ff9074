// Keys of a cluster whose devices are not alike.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr double kSlowest = 10;
constexpr double kMostDeviation = 1;

void read_slow_devices(Reading& reading, Cluster& cluster, const Json& list) {
    const bool counted = reading.good({"cluster.nodes", "cluster.devices_per_node"});
    const std::int64_t last = counted ? cluster.devices() - 1 : kLargestCount;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string pointer = fmt::format("/cluster/slow_devices/{}", i);
        SlowDevice slow;
        read_object(reading, pointer, fmt::format("cluster.slow_devices[{}]", i),
                    slow_device_keys(), slow);
        const bool named = reading.good_at(pointer + "/device");
        if (named && slow.device > last)
            reading.report("S007", pointer + "/device",
                           fmt::format("device must be at most {}", last));
        const bool again = std::any_of(
            cluster.slow_devices.begin(), cluster.slow_devices.end(),
            [&](const SlowDevice& other) { return named && other.device == slow.device; });
        if (again)
            reading.report("S055", pointer + "/device",
                           fmt::format("device {} is named twice", slow.device));
        cluster.slow_devices.push_back(slow);
    }
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

void read_uneven(Reading& reading, Section& keys, Cluster& cluster) {
    if (const Json* list = keys.find("slow_devices")) {
        if (list->is_array())
            read_slow_devices(reading, cluster, *list);
        else
            keys.wrong_type("slow_devices", "an array of objects with a device and its factor");
    }
    read_object(reading, "/cluster/jitter", "cluster.jitter", jitter_keys(), cluster.jitter);
}

}  // namespace orrery::plan
