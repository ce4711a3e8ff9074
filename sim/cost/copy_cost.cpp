#include "sim/cost/copy_cost.hpp"

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

// Nothing is fitted: data sheets and single measurements of links.
constexpr double kRelativeDeviation = 0.15;

}  // namespace

Price price_copy(const plan::Op& op, const plan::Cluster& cluster, std::int64_t ranks_of_node) {
    ORRERY_CHECK(plan::is_copy(op.kind()), "not a copy between tiers of memory");
    const plan::Storage& storage = cluster.storage;
    const auto sharers = static_cast<double>(ranks_of_node);
    double bandwidth_GBps = cluster.host_memory.bandwidth_GBps;
    double latency_us = cluster.host_memory.latency_us;
    if (op.kind() == plan::OpKind::read_disk || op.kind() == plan::OpKind::write_disk) {
        const bool reads = op.kind() == plan::OpKind::read_disk;
        bandwidth_GBps = (reads ? storage.read_GBps : storage.write_GBps) / sharers;
        latency_us = storage.latency_us;
    }
    Price price;
    price.family = CostFamily::copy;
    price.seconds =
        latency_us * 1e-6 + static_cast<double>(plan::message_bytes(op)) / (bandwidth_GBps * 1e9);
    price.relative_sd = kRelativeDeviation;
    return price;
}

}  // namespace orrery::sim
