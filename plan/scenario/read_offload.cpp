// Keys of offloading: what the layout keeps off the device, and what the cluster says of the
// memory it goes to.
#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr NumberRange kPositive = {0, kLargestNumber, true, false};
constexpr std::int64_t kFurthestAhead = 1024;
constexpr auto kRequired = Presence::required;

}  // namespace

void read_offload(Reading& reading, Offload& offload) {
    Section section(reading, "/layout/offload", "layout.offload");
    if (!section.exists()) return;
    const auto kept = [&](const char* key, KeptOn& out) {
        section.choice<KeptOn>(
            key, out, {{"none", KeptOn::none}, {"host", KeptOn::host}, {"disk", KeptOn::disk}});
    };
    kept("optimizer", offload.optimizer);
    kept("gradients", offload.gradients);
    kept("parameters", offload.parameters);
    kept("activations", offload.activations);
    section.integer("prefetch", offload.prefetch, {0, kFurthestAhead});
    section.finish();
}

void read_host_memory(Reading& reading, Cluster& cluster) {
    Section host(reading, "/cluster/host_memory", "cluster.host_memory");
    if (host.exists()) {
        host.number("capacity_GB", cluster.host_memory.capacity_GB, kPositive, kRequired);
        host.number("bandwidth_GBps", cluster.host_memory.bandwidth_GBps, kPositive, kRequired);
        host.number("latency_us", cluster.host_memory.latency_us, {}, kRequired);
        host.known("source");
        host.finish();
    }
    Section storage(reading, "/cluster/storage", "cluster.storage");
    if (!storage.exists()) return;
    storage.number("capacity_GB", cluster.storage.capacity_GB, kPositive, kRequired);
    storage.number("read_GBps", cluster.storage.read_GBps, kPositive, kRequired);
    storage.number("write_GBps", cluster.storage.write_GBps, kPositive, kRequired);
    storage.number("latency_us", cluster.storage.latency_us, {}, kRequired);
    storage.known("source");
    storage.finish();
}

}  // namespace orrery::plan
