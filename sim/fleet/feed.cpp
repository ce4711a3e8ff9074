#include "sim/fleet/feed.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/cost/log2.hpp"
#include "sim/engine/uneven.hpp"

namespace orrery::sim {
namespace {

constexpr double kLogTwo = 0.6931471805599453;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double log_of(double x) {
    return kLogTwo * log2_of(x);
}

// What a cluster gives data, all nodes together.
struct FeedRates {
    double store = 0, disks = 0, network = 0;  // GB/s
    FeedLimit limit = FeedLimit::node_links;
    double nodes = 1;
    double node_link = 0;  // of one node to storage, its reads in flight counted
};

double in_flight_GBps(const plan::SharedStorage& storage, double read_bytes, double latency_s) {
    if (latency_s <= 0) return kUnlimited;
    // Little 1961: what is under way = rate × latency.
    return static_cast<double>(storage.reads_in_flight) * read_bytes / latency_s / 1e9;
}

FeedRates rates_of(const plan::Scenario& scenario, const plan::SharedStorage& storage,
                   double read_bytes) {
    const std::int64_t per_node = scenario.cluster.devices_per_node;
    FeedRates rates;
    rates.nodes = static_cast<double>((scenario.layout.ranks() + per_node - 1) / per_node);
    const double of_requests = in_flight_GBps(storage, read_bytes, storage.read_latency_ms / 1e3);
    const std::array<double, 4> limits = {
        storage.node_GBps * rates.nodes, storage.read_GBps > 0 ? storage.read_GBps : kUnlimited,
        storage.reads_per_s > 0 ? storage.reads_per_s * read_bytes / 1e9 : kUnlimited,
        of_requests * rates.nodes};
    const auto* least = std::min_element(limits.begin(), limits.end());
    rates.store = *least;
    rates.limit = static_cast<FeedLimit>(least - limits.begin());
    rates.node_link = std::min({storage.node_GBps, of_requests, rates.store});
    const plan::Storage& disk = scenario.cluster.storage;
    rates.disks = rates.nodes * std::min(disk.read_GBps, in_flight_GBps(storage, read_bytes,
                                                                        disk.latency_us / 1e6));
    const plan::InterNode& link = scenario.cluster.inter_node;
    rates.network = rates.nodes * link.nics_per_node * link.bandwidth_Gbps / 8;
    return rates;
}

// A cache as a run's epochs meet it.
class Cache {
  public:
    Cache(const plan::Scenario& scenario, const plan::SharedStorage& storage, double dataset_bytes,
          double nodes)
        : storage_(storage), nodes_(nodes) {
        const double disk = scenario.cluster.storage.capacity_GB * 1e9;
        all_dealt_ = storage.cache == plan::DataCache::local && storage.reshuffled && nodes > 1;
        const double wanted = all_dealt_ ? dataset_bytes : dataset_bytes / nodes;
        share_ = std::min(1.0, disk / wanted);
        node_bytes_ = share_ * wanted;
    }

    bool exists() const { return storage_.cache != plan::DataCache::none; }
    double node_bytes() const { return node_bytes_; }
    bool is_the_same_on_all() const { return all_dealt_; }

    // Of what the epoch after `epochs` others reads.
    double hits(double epochs) const {
        if (!exists()) return storage_.cached_share;
        const bool warmed = storage_.warming != plan::Warming::as_read;
        if (all_dealt_) {
            const double before = warmed ? kUnlimited : epochs;
            return reshuffled_hits(share_, nodes_, before, storage_.eviction);
        }
        if (epochs < 1 && !warmed) return 0;
        return storage_.eviction == plan::CacheEviction::lru ? lru_hits(share_) : share_;
    }

  private:
    const plan::SharedStorage& storage_;
    double nodes_;
    bool all_dealt_ = false;
    double share_ = 0, node_bytes_ = 0;
};

// Of the busiest way that data take, the time of a step's data over the step's.
double busy_of(const plan::SharedStorage& storage, const FeedRates& rates, double needed_GBps,
               double hits) {
    double busy = needed_GBps * (1 - hits) / rates.store;
    if (storage.cache == plan::DataCache::none) return busy;
    busy = std::max(busy, needed_GBps * hits / rates.disks);
    if (storage.cache == plan::DataCache::neighbours)
        busy = std::max(busy, needed_GBps * hits * (rates.nodes - 1) / rates.nodes / rates.network);
    return busy;
}

double stretch_of(const plan::SharedStorage& storage, double busy) {
    if (storage.read_jitter <= 0) return std::max(1.0, busy);
    return jittered_step(busy, storage.read_jitter, storage.prefetch_steps);
}

void read_epochs(const plan::SharedStorage& storage, const FeedRates& rates, const Cache& cache,
                 DataFeed& feed) {
    // Epochs grow alike: a hundred thousandth is no longer told apart.
    constexpr double kAlike = 1e-5;
    double left = feed.epochs, stretched = 0, from_storage = 0, hits = -1, stretch = 1;
    for (double before = 0; left > 0; ++before) {
        const double now = cache.hits(before);
        if (std::abs(now - hits) > kAlike) {
            hits = now;
            stretch = stretch_of(storage, busy_of(storage, rates, feed.needed_GBps, hits));
        } else if (before > 1) {
            stretched += left * stretch;
            from_storage += left * (1 - hits);
            break;
        }
        const double part = std::min(1.0, left);
        if (before < 1) {
            feed.cold_hits = hits;
            feed.cold_stretch = stretch;
        }
        stretched += part * stretch;
        from_storage += part * (1 - hits);
        left -= part;
    }
    feed.warm_hits = hits;
    feed.warm_stretch = stretch;
    feed.stretch = stretched / feed.epochs;
    feed.from_storage_GBps = feed.needed_GBps * from_storage / feed.epochs;
}

void warm(const plan::Scenario& scenario, const plan::SharedStorage& storage,
          const FeedRates& rates, const Cache& cache, DataFeed& feed) {
    if (!cache.exists()) return;
    const double bytes = cache.node_bytes(), disk = scenario.cluster.storage.write_GBps;
    feed.as_read_s = feed.dataset_bytes / (feed.needed_GBps * 1e9) * feed.cold_stretch;
    feed.from_store_s = bytes * rates.nodes / (std::min(rates.store, disk * rates.nodes) * 1e9);
    if (cache.is_the_same_on_all())
        feed.chain_s = chain_s(bytes, storage.chunk_MB * 1e6, rates.nodes,
                               std::min({rates.node_link, disk, rates.network / rates.nodes}));
    if (storage.warming == plan::Warming::from_store) feed.warming_s = feed.from_store_s;
    if (storage.warming == plan::Warming::chain) feed.warming_s = feed.chain_s;
    // A new node reads from storage what its disk would have had, and all others wait for it; or it
    // fills its disk first, whichever is quicker.
    const double needed = feed.needed_GBps / rates.nodes;
    const double waits = bytes / 1e9 * std::max(0.0, 1 / rates.node_link - 1 / needed);
    feed.rewarm_s = std::min(waits, bytes / (std::min(rates.node_link, disk) * 1e9));
}

}  // namespace

std::string_view name(FeedLimit limit) {
    static constexpr std::array<std::string_view, 4> names = {"node_links", "store_bandwidth",
                                                              "store_reads", "reads_in_flight"};
    return names[static_cast<std::size_t>(limit)];
}

DataFeed data_feed(const plan::Scenario& scenario, double tokens_per_s, double tokens) {
    const plan::SharedStorage storage = scenario.storage.value_or(plan::SharedStorage{});
    const auto sequence = static_cast<double>(scenario.training.sequence_length);
    const double read_tokens = storage.tokens_per_read > 0 ? storage.tokens_per_read : sequence;
    const FeedRates rates = rates_of(scenario, storage, read_tokens * storage.bytes_per_token);
    DataFeed feed;
    // The ranks of a tensor, context or pipeline group need the same tokens; those of one node read
    // them once.
    feed.needed_GBps = tokens_per_s * storage.bytes_per_token / 1e9;
    feed.samples_per_s = tokens_per_s / sequence;
    feed.reads_per_s = tokens_per_s / read_tokens;
    feed.available_GBps = rates.store;
    feed.limit = rates.limit;
    const double dataset = storage.dataset_tokens > 0 ? storage.dataset_tokens : tokens;
    feed.dataset_bytes = dataset * storage.bytes_per_token;
    feed.epochs = tokens / dataset;
    const Cache cache(scenario, storage, feed.dataset_bytes, rates.nodes);
    read_epochs(storage, rates, cache, feed);
    warm(scenario, storage, rates, cache, feed);
    return feed;
}

CheckpointStorm checkpoint_storm(const plan::Scenario& scenario, const DataFeed& feed,
                                 double checkpoint_bytes, double write_GBps, double step_s) {
    const plan::SharedStorage storage = scenario.storage.value_or(plan::SharedStorage{});
    const double asked = feed.needed_GBps * (1 - feed.warm_hits);
    const double flowing = std::min(asked, feed.available_GBps);
    CheckpointStorm storm;
    storm.feed_GBps = std::max(feed.available_GBps / 2, feed.available_GBps - write_GBps);
    storm.write_s = checkpoint_bytes / (std::max(write_GBps / 2, write_GBps - flowing) * 1e9);
    const double slower = std::max(1.0, flowing / storm.feed_GBps);
    storm.starved_s = std::max(0.0, storm.write_s * (1 - 1 / slower) -
                                        static_cast<double>(storage.prefetch_steps) * step_s);
    return storm;
}

double lru_hits(double share) {
    if (share >= 1) return 1;
    return std::max(0.0, share + (1 - share) * log_of(1 - share));
}

double reshuffled_hits(double share, double nodes, double epochs, plan::CacheEviction eviction) {
    const double met =
        epochs == kUnlimited ? 1 : 1 - exp_of(std::max(-60.0, epochs * log_of(1 - 1 / nodes)));
    if (met <= share || share >= 1 || eviction == plan::CacheEviction::none)
        return std::min(share, met);
    const double epoch = 1 / nodes;  // of the data set, what a node reads
    return share >= epoch ? share - epoch / 2 : share * share / epoch / 2;
}

double chain_s(double bytes, double chunk_bytes, double nodes, double GBps) {
    const double chunks = std::max(1.0, std::ceil(bytes / chunk_bytes));
    return bytes / (GBps * 1e9) * (1 + (nodes - 1) / chunks);
}

double jittered_step(double busy, double jitter, std::int64_t ahead) {
    constexpr std::int64_t kSteps = 20'000;
    const double variance = log_of(1 + jitter * jitter), sd = std::sqrt(variance);
    std::vector<double> begun(static_cast<std::size_t>(ahead), 0.0);  // of the last steps, a ring
    double there = 0, begins = -1;
    for (std::int64_t i = 0; i < kSteps; ++i) {
        double& slot = begun[static_cast<std::size_t>(i % ahead)];
        const double drawn = normal_draw(0, 0, static_cast<std::uint64_t>(i));
        there = std::max(there, slot) +
                busy * exp_of(std::clamp(sd * drawn - variance / 2, -50.0, 50.0));
        begins = std::max(begins + 1, there);
        slot = begins;
    }
    return begins / static_cast<double>(kSteps - 1);
}

}  // namespace orrery::sim
