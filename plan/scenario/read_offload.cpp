// Keys of offloading: what the layout keeps off the device, and what the cluster says of the
// memory it goes to.
#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kFurthestAhead = 1024;

}  // namespace

const Keys<Offload>& offload_keys() {
    static const Keys<Offload> keys = {
        choice<&Offload::optimizer>("optimizer",
                                    "Where the optimizer's states are kept, and "
                                    "stepped by the host"),
        choice<&Offload::gradients>("gradients", "Where accumulated gradients are kept"),
        choice<&Offload::parameters>("parameters",
                                     "Where a rank's share of the parameters is kept"),
        choice<&Offload::activations>("activations",
                                      "Where a layer's activations wait for backward"),
        count<&Offload::prefetch>("prefetch",
                                  "Buckets of states, or actions of activations, that are fetched "
                                  "ahead of their use",
                                  {0, kFurthestAhead}),
    };
    return keys;
}

const Keys<HostMemory>& host_memory_keys() {
    static const Keys<HostMemory> keys = {
        number<&HostMemory::capacity_GB>("capacity_GB", "Memory of a node (1e9 bytes)", kPositive)
            .in("GB")
            .required(),
        number<&HostMemory::bandwidth_GBps>(
            "bandwidth_GBps", "Between the host and each of its devices, in one direction",
            kPositive)
            .in("GB/s")
            .required(),
        number<&HostMemory::latency_us>("latency_us", "Of one copy").in("µs").required(),
        source_note<HostMemory>(),
    };
    return keys;
}

const Keys<Storage>& storage_keys() {
    static const Keys<Storage> keys = {
        number<&Storage::capacity_GB>("capacity_GB", "Disk of a node (1e9 bytes)", kPositive)
            .in("GB")
            .required(),
        number<&Storage::read_GBps>("read_GBps", "Reading, of all devices of a node together",
                                    kPositive)
            .in("GB/s")
            .required(),
        number<&Storage::write_GBps>("write_GBps", "Writing, of all devices of a node together",
                                     kPositive)
            .in("GB/s")
            .required(),
        number<&Storage::latency_us>("latency_us", "Of one read or write").in("µs").required(),
        source_note<Storage>(),
    };
    return keys;
}

void read_offload(Reading& reading, Offload& offload) {
    read_object(reading, "/layout/offload", "layout.offload", offload_keys(), offload);
}

void read_host_memory(Reading& reading, const ClusterPlace& place, Cluster& cluster) {
    read_object(reading, place.at("host_memory"), place.named("host_memory"), host_memory_keys(),
                cluster.host_memory);
    read_object(reading, place.at("storage"), place.named("storage"), storage_keys(),
                cluster.storage);
}

}  // namespace orrery::plan
