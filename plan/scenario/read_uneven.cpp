// Keys of a cluster whose devices are not alike.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr double kSlowest = 10;
constexpr double kMostDeviation = 1;

void read_slow_devices(Reading& reading, Cluster& cluster, const Json& list) {
    const bool counted = reading.good({"cluster.nodes", "cluster.devices_per_node"});
    const std::int64_t last = counted ? cluster.devices() - 1 : kLargestCount;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string pointer = fmt::format("/cluster/slow_devices/{}", i);
        Section section(reading, pointer, fmt::format("cluster.slow_devices[{}]", i));
        SlowDevice slow;
        const bool named = section.integer("device", slow.device, {0, last}, Presence::required);
        section.number("factor", slow.factor, {1, kSlowest}, Presence::required);
        section.known("source");
        section.finish();
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

void read_uneven(Reading& reading, Section& keys, Cluster& cluster) {
    keys.known("slow_devices");
    keys.known("jitter");
    if (const Json* list = keys.find("slow_devices")) {
        if (list->is_array())
            read_slow_devices(reading, cluster, *list);
        else
            keys.wrong_type("slow_devices", "an array of objects with a device and its factor");
    }
    Section section(reading, "/cluster/jitter", "cluster.jitter");
    if (!section.exists()) return;
    section.choice<JitterDistribution>("distribution", cluster.jitter.distribution,
                                       {{"none", JitterDistribution::none},
                                        {"normal", JitterDistribution::normal},
                                        {"lognormal", JitterDistribution::lognormal}},
                                       Presence::required);
    section.number("relative_sd", cluster.jitter.relative_sd, {0, kMostDeviation},
                   Presence::required);
    section.choice<JitterPer>("per", cluster.jitter.per,
                              {{"kernel", JitterPer::kernel}, {"device", JitterPer::device}});
    section.integer("seed", cluster.jitter.seed, {0, kLargestCount});
    section.known("source");
    section.finish();
}

}  // namespace orrery::plan
