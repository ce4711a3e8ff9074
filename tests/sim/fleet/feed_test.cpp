// Data on their way to the devices: closed forms against caches and chains that are walked through.
#include "sim/fleet/feed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
#include <random>
#include <unordered_map>
#include <vector>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

// Item by item, for the formulas that need none.
class LruCache {
  public:
    explicit LruCache(std::size_t room) : room_(room) {}

    bool read(int item) {
        const auto found = places_.find(item);
        const bool hit = found != places_.end();
        if (hit) order_.erase(found->second);
        order_.push_front(item);
        places_[item] = order_.begin();
        if (order_.size() > room_) {
            places_.erase(order_.back());
            order_.pop_back();
        }
        return hit;
    }

  private:
    std::size_t room_;
    std::list<int> order_;
    std::unordered_map<int, std::list<int>::iterator> places_;
};

std::vector<int> shuffled(int items, std::mt19937& chance) {
    std::vector<int> order(static_cast<std::size_t>(items));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), chance);
    return order;
}

TEST(DataCaches, ALeastRecentlyUsedOneOfShuffledEpochsHitsAsTheProductOfUniformNumbersSays) {
    constexpr int kItems = 2000, kEpochs = 12;
    std::mt19937 chance(1);
    for (const double share : {0.2, 0.5, 0.9}) {
        LruCache cache(static_cast<std::size_t>(share * kItems));
        int hits = 0;
        for (int epoch = 0; epoch <= kEpochs; ++epoch)
            for (const int item : shuffled(kItems, chance))
                if (cache.read(item) && epoch > 0) ++hits;
        EXPECT_NEAR(hits / static_cast<double>(kItems * kEpochs), lru_hits(share), 0.01) << share;
    }
    EXPECT_EQ(lru_hits(1), 1);
    EXPECT_EQ(lru_hits(0), 0);
    EXPECT_NEAR(lru_hits(0.01), 0.01 * 0.01 / 2, 1e-6) << "to second order";
}

// Each of n nodes reads its n-th of an epoch that is dealt out anew.
double dealt_out(double share, int nodes, int before, plan::CacheEviction eviction) {
    constexpr int kItems = 8000;
    std::mt19937 chance(2);
    LruCache cache(static_cast<std::size_t>(share * kItems));
    std::vector<bool> kept(kItems);
    std::size_t held = 0;
    int hits = 0;
    for (int epoch = 0; epoch <= before; ++epoch) {
        const std::vector<int> order = shuffled(kItems, chance);
        for (int i = 0; i < kItems; i += nodes) {
            const int item = order[static_cast<std::size_t>(i)];
            bool hit = kept[static_cast<std::size_t>(item)];
            if (eviction == plan::CacheEviction::lru) {
                hit = cache.read(item);
            } else if (!hit && static_cast<double>(held) < share * kItems) {
                kept[static_cast<std::size_t>(item)] = true;
                ++held;
            }
            if (hit && epoch == before) ++hits;
        }
    }
    return hits / (static_cast<double>(kItems) / nodes);
}

TEST(DataCaches, OfSamplesThatAreDealtOutAnewANodeKnowsWhatItHasMet) {
    for (const int nodes : {8, 16})
        for (const int before : {1, 3, 10})
            EXPECT_NEAR(dealt_out(1, nodes, before, plan::CacheEviction::none),
                        1 - std::pow(1 - 1.0 / nodes, before), 0.04);
    for (const int before : {1, 3, 10}) {
        EXPECT_NEAR(reshuffled_hits(1, 8, before, plan::CacheEviction::lru),
                    1 - std::pow(1 - 1.0 / 8, before), 1e-12);
        EXPECT_NEAR(reshuffled_hits(0.3, 8, before, plan::CacheEviction::none),
                    dealt_out(0.3, 8, before, plan::CacheEviction::none), 0.04);
    }
    // Full for long.
    for (const double share : {0.05, 0.3, 0.6})
        EXPECT_NEAR(reshuffled_hits(share, 8, 40, plan::CacheEviction::lru),
                    dealt_out(share, 8, 40, plan::CacheEviction::lru), 0.04)
            << share;
}

TEST(DataCaches, AChainIsAPipelineOfChunks) {
    // Chunk by chunk: node i passes one on when it has it and has passed on the one before.
    for (const int nodes : {1, 2, 50})
        for (const int chunks : {1, 7, 400}) {
            const double chunk_s = 0.25;
            std::vector<double> there(static_cast<std::size_t>(nodes), 0.0);
            for (int chunk = 0; chunk < chunks; ++chunk) {
                double before = 0;
                for (double& node : there)
                    node = before = std::max(node, before) + chunk_s;
            }
            EXPECT_NEAR(chain_s(chunks * chunk_s * 2e9, chunk_s * 2e9, nodes, 2), there.back(),
                        1e-9)
                << nodes << ' ' << chunks;
        }
}

double normal_below(double x) {
    return std::erfc(-x / std::sqrt(2.0)) / 2;
}

TEST(Loaders, WithNothingAheadWaitForEachStepsOwnData) {
    // Data and computing take turns with one step ahead: the longer of both, E[max(1, S)] of a
    // lognormal S: Φ(−d₂) + m Φ(d₁).
    for (const double busy : {0.5, 0.9, 1.2})
        for (const double jitter : {0.2, 0.8}) {
            const double variance = std::log(1 + jitter * jitter), sd = std::sqrt(variance);
            const double d1 = (std::log(busy) + variance / 2) / sd, d2 = d1 - sd;
            const double expected = normal_below(-d2) + busy * normal_below(d1);
            EXPECT_NEAR(jittered_step(busy, jitter, 1), expected, 0.02 * expected);
        }
}

TEST(Loaders, HideJitterWithDepthDownToTheFluidBound) {
    for (const double busy : {0.6, 0.95, 1.3}) {
        double before = 1e9;
        for (const std::int64_t ahead : {1, 2, 4, 16, 256}) {
            const double step = jittered_step(busy, 0.6, ahead);
            EXPECT_LE(step, before);
            EXPECT_GE(step, std::max(1.0, busy) * 0.98);
            before = step;
        }
        EXPECT_NEAR(before, std::max(1.0, busy), 0.02) << busy;
        EXPECT_NEAR(jittered_step(busy, 1e-6, 2), std::max(1.0, busy), 1e-3);
    }
}

// Theory's cluster with disks; one node of eight.
plan::Scenario with(const std::string& storage, const std::vector<std::string>& more = {}) {
    std::vector<std::string> sets = {
        "layout.data_parallel=8", "storage=" + storage,
        R"(cluster.storage={"capacity_GB": 2, "read_GBps": 4, "write_GBps": 2, "latency_us": 0})"};
    sets.insert(sets.end(), more.begin(), more.end());
    return theory::scenario(sets);
}

TEST(DataFeeds, SmallReadsAreBoundByTheirNumberAndTheirLatency) {
    // 1,000 tokens of 2 bytes a read: 2 kB × 5,000 reads/s = 10 MB/s.
    const DataFeed counted = data_feed(
        with(R"({"bytes_per_token": 2, "tokens_per_read": 1000, "reads_per_s": 5000})"), 1e7, 1e12);
    EXPECT_EQ(counted.limit, FeedLimit::store_reads);
    EXPECT_NEAR(counted.available_GBps, 0.01, 1e-12);
    EXPECT_NEAR(counted.reads_per_s, 1e4, 1e-6);
    EXPECT_NEAR(counted.stretch, 2, 1e-9);
    EXPECT_NEAR(counted.starved_fraction(), 0.5, 1e-9);
    // Little: 4 reads of 2 kB in 1 ms are 8 MB/s.
    const DataFeed waited = data_feed(with(R"({"bytes_per_token": 2, "tokens_per_read": 1000,
                                              "read_latency_ms": 1, "reads_in_flight": 4})"),
                                      1e7, 1e12);
    EXPECT_EQ(waited.limit, FeedLimit::reads_in_flight);
    EXPECT_NEAR(waited.available_GBps, 0.008, 1e-12);
}

TEST(DataFeeds, AColdEpochIsSlowAndWarmOnesAreNot) {
    // 1 GB an epoch, five of them, at 0.2 GB/s where storage gives 0.1 and the disk holds it all.
    const std::string keys = R"("bytes_per_token": 2, "dataset_tokens": 5e8, "read_GBps": 0.1,)";
    const DataFeed cold = data_feed(with("{" + keys + R"("cache": "local"})"), 1e8, 2.5e9);
    EXPECT_NEAR(cold.epochs, 5, 1e-12);
    EXPECT_NEAR(cold.cold_stretch, 2, 1e-9);
    EXPECT_EQ(cold.warm_stretch, 1);
    EXPECT_NEAR(cold.stretch, (2 + 4 * 1) / 5.0, 1e-9);
    EXPECT_NEAR(cold.as_read_s, 1e9 / 0.1e9, 1e-6);
    EXPECT_NEAR(cold.from_storage_GBps, 0.2 / 5, 1e-9);
    const DataFeed warmed =
        data_feed(with("{" + keys + R"("cache": "local", "warming": "from_store"})"), 1e8, 2.5e9);
    EXPECT_EQ(warmed.stretch, 1);
    EXPECT_NEAR(warmed.warming_s, 1e9 / 0.1e9, 1e-6);
    // Half of it on the disk: an LRU cache misses more than one that keeps what it has.
    const std::vector<std::string> small = {"cluster.storage.capacity_GB=0.5"};
    const DataFeed lru = data_feed(with("{" + keys + R"("cache": "local"})", small), 1e8, 2.5e9);
    EXPECT_NEAR(lru.warm_hits, 0.5 + 0.5 * std::log(0.5), 1e-9);
    const DataFeed kept =
        data_feed(with("{" + keys + R"("cache": "local", "eviction": "none"})", small), 1e8, 2.5e9);
    EXPECT_NEAR(kept.warm_hits, 0.5, 1e-12);
    EXPECT_NEAR(kept.warm_stretch, 1, 1e-9) << "half of 0.2 GB/s is what storage gives";
}

// Eight nodes of eight devices, 8 × 200 Gb/s = 200 GB/s each: 8 GB, read four times.
TEST(DataFeeds, NeighboursDisksHoldTogetherWhatNoneHoldsAlone) {
    const auto feed_of = [](const std::string& keys, const std::string& disk_GB) {
        return data_feed(
            with(R"({"bytes_per_token": 2, "dataset_tokens": 4e9, "read_GBps": 0.5,)" + keys + "}",
                 {"layout.data_parallel=64", "layout.global_batch_size=64",
                  "cluster.storage.capacity_GB=" + disk_GB}),
            5e8, 16e9);
    };
    // An eighth of the data on each disk: all of it together, of which a node that is dealt other
    // samples each epoch meets an eighth again.
    const DataFeed together = feed_of(R"("cache": "neighbours", "reshuffled": true)", "1");
    EXPECT_EQ(together.warm_hits, 1);
    EXPECT_NEAR(together.cold_stretch, 2, 1e-9) << "1 GB/s where storage gives 0.5";
    const DataFeed alone =
        feed_of(R"("cache": "local", "reshuffled": true, "eviction": "none")", "1");
    EXPECT_NEAR(alone.warm_hits, 1 / 8.0, 1e-9);
    // All on each: as many as it has met.
    const DataFeed met = feed_of(R"("cache": "local", "reshuffled": true)", "8");
    EXPECT_NEAR(met.warm_hits, 1 - std::pow(7 / 8.0, 3), 1e-9);
    const double misses = 1 + 7 / 8.0 + std::pow(7 / 8.0, 2) + std::pow(7 / 8.0, 3);
    EXPECT_NEAR(met.from_storage_GBps, misses / 4, 1e-9);
    // Along a chain all read storage once, one by one each node for itself.
    const DataFeed chain =
        feed_of(R"("cache": "local", "reshuffled": true, "warming": "chain", "chunk_MB": 80)", "8");
    EXPECT_NEAR(chain.chain_s, 8 / 0.5 * (1 + 7 / 100.0), 1e-9);
    EXPECT_NEAR(chain.from_store_s, 8 * 8 / 0.5, 1e-9);
    EXPECT_EQ(chain.warming_s, chain.chain_s);
    EXPECT_EQ(chain.stretch, 1);
    // A new node needs 1/8 GB/s and storage gives it 0.5: nobody waits.
    EXPECT_EQ(chain.rewarm_s, 0);
}

TEST(DataFeeds, ANewNodesEmptyDiskHoldsTheOthersUp) {
    // 1 GB on the disk, at 0.2 GB/s where storage gives 0.1: 10 s in place of 5.
    const DataFeed feed = data_feed(with(R"({"bytes_per_token": 2, "dataset_tokens": 5e8,
                                            "read_GBps": 0.1, "cache": "local"})"),
                                    1e8, 2.5e9);
    EXPECT_NEAR(feed.rewarm_s, 10 - 5, 1e-9);
}

TEST(DataFeeds, ACheckpointAndDataShareStorageFairly) {
    const plan::Scenario scenario = with(R"({"prefetch_steps": 3})");
    DataFeed feed;
    feed.available_GBps = 1;
    feed.needed_GBps = 0.8;
    // The feed has half, and is 0.8/0.5 as slow; writing has the other half: 10 GB take 20 s.
    const CheckpointStorm storm = checkpoint_storm(scenario, feed, 10e9, 1, 0.5);
    EXPECT_NEAR(storm.feed_GBps, 0.5, 1e-12);
    EXPECT_NEAR(storm.write_s, 20, 1e-9);
    EXPECT_NEAR(storm.starved_s, 20 * (1 - 0.5 / 0.8) - 3 * 0.5, 1e-9);
    // Who asks for less than half has it, and the writer the rest.
    feed.needed_GBps = 0.2;
    const CheckpointStorm light = checkpoint_storm(scenario, feed, 10e9, 1, 0.5);
    EXPECT_NEAR(light.write_s, 10 / 0.8, 1e-9);
    EXPECT_EQ(light.starved_s, 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
