// Keys of offloading: what the layout keeps off the device, and what the cluster says of the
// memory it goes to.
#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kFurthestAhead = 1024;

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
        host.number("capacity_GB", cluster.host_memory.capacity_GB, kPositive, Presence::required);
        host.number("bandwidth_GBps", cluster.host_memory.bandwidth_GBps, kPositive,
                    Presence::required);
        host.number("latency_us", cluster.host_memory.latency_us, {}, Presence::required);
        host.known("source");
        host.finish();
    }
    Section storage(reading, "/cluster/storage", "cluster.storage");
    if (!storage.exists()) return;
    storage.number("capacity_GB", cluster.storage.capacity_GB, kPositive, Presence::required);
    storage.number("read_GBps", cluster.storage.read_GBps, kPositive, Presence::required);
    storage.number("write_GBps", cluster.storage.write_GBps, kPositive, Presence::required);
    storage.number("latency_us", cluster.storage.latency_us, {}, Presence::required);
    storage.known("source");
    storage.finish();
}

}  // namespace orrery::plan
