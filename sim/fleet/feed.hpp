// Data on their way to the devices: what a run needs of them, what storage, disks and neighbours
// give, how a cache fills, and how long training waits. A fluid model: rates, fair shares, each
// step's data alike; only jitter is drawn. Sizes are bytes, rates 1e9 bytes a second, times
// seconds.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// What the rate of storage ends at.
enum class FeedLimit : std::uint8_t { node_links, store_bandwidth, store_reads, reads_in_flight };
std::string_view name(FeedLimit limit);

struct DataFeed {
    double needed_GBps = 0;        // of all ranks together
    double from_storage_GBps = 0;  // of it, the mean over the run of what no disk has
    double available_GBps = 0;     // of storage
    FeedLimit limit = FeedLimit::node_links;
    double samples_per_s = 0, reads_per_s = 0;  // needed
    double dataset_bytes = 0;                   // of an epoch
    double epochs = 1;
    double cold_hits = 0, warm_hits = 0;        // share from disks: in the first epoch, in the last
    double cold_stretch = 1, warm_stretch = 1;  // of a step that waits for data, there
    double stretch = 1;                         // mean over the run
    double starved_fraction() const { return 1 - 1 / stretch; }

    // Filling the disks: while the first epoch is read, by each node from storage, along a chain;
    // 0: there is no cache, or not that way.
    double as_read_s = 0, from_store_s = 0, chain_s = 0;
    double warming_s = 0;  // of these, what passes before training begins
    // What training waits more until a new node's disk is as full as the one's before.
    double rewarm_s = 0;
};

DataFeed data_feed(const plan::Scenario& scenario, double tokens_per_s, double tokens);

// A checkpoint written beside training, on the storage that data come from.
struct CheckpointStorm {
    double feed_GBps = 0;  // what is left for data
    double write_s = 0;    // of the checkpoint, data beside it
    double starved_s = 0;  // training waits: what loaders held ready aside
};

// Fair shares (max-min): each side has half, and what the other does not ask for. Of a run in its
// last epoch, with a step every `step_s`.
CheckpointStorm checkpoint_storm(const plan::Scenario& scenario, const DataFeed& feed,
                                 double checkpoint_bytes, double write_GBps, double step_s);

// Of a cache that holds `share` of what is read once an epoch, each time in a new random order.
// Read at p of one epoch and q of the next, an item has had (1 − p) + q − (1 − p)q others read
// between: it is there where p(1 − q) > 1 − share, the product of two uniform numbers.
double lru_hits(double share);  // share + (1 − share) ln(1 − share)

// Of one node's cache of `share` of the data set, in the epoch after `epochs` others, where `nodes`
// deal all samples out anew each time: a node has met 1 − (1 − 1/nodes)^epochs of them. Least
// recently used, what an epoch has read so far pushes out what it may yet ask for (many nodes).
double reshuffled_hits(double share, double nodes, double epochs, plan::CacheEviction eviction);

// All of `bytes` to each of `nodes`, each passing chunks on as they come: the first node has them
// after bytes/rate, each other a chunk's time after the one before it.
double chain_s(double bytes, double chunk_bytes, double nodes, double GBps);

// A step of 1 whose data take `busy` (mean, relative to it) with a relative deviation `jitter`,
// lognormal, loaders being `ahead` steps ahead at most: how long it takes in the mean. The data of
// step i are begun when those of i − 1 are there and step i − ahead has begun to be computed.
// Drawn: 20,000 steps.
double jittered_step(double busy, double jitter, std::int64_t ahead);

}  // namespace orrery::sim
