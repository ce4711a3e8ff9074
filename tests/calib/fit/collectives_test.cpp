#include "calib/fit/collectives.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"
#include "sim/network/collective_cost.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

using sim::CurvePoint;
using ::testing::HasSubstr;

CollectiveSample sample(double bytes, double seconds, const std::string& collective = "all_reduce",
                        int ranks = 8) {
    return {"box", "2.27", collective, ranks, 1, bytes, seconds, "bench"};
}

TEST(CollectiveSamples, AreReadFromATable) {
    const CsvTable table(std::string("system,nccl,collective,ranks,nodes,bytes,time_us,source\n"
                                     "box,2.27,all_gather,4,1,1024,12.5,bench\n"),
                         "t.csv", kCollectiveColumns);
    const auto samples = collective_samples(table);
    ASSERT_EQ(samples.size(), 1u);
    EXPECT_EQ(samples[0].collective, "all_gather");
    EXPECT_EQ(samples[0].ranks, 4);
    EXPECT_DOUBLE_EQ(samples[0].seconds, 12.5e-6);
}

TEST(MonotoneMedians, TakesTheMedianOfEachSize) {
    EXPECT_EQ(monotone_medians({sample(8, 5), sample(8, 1), sample(8, 2), sample(16, 9)}),
              (std::vector<CurvePoint>{{8, 2}, {16, 9}}));
}

TEST(MonotoneMedians, PoolsViolatorsToTheirWeightedMean) {
    // 6 (one sample) before 3 (two samples): the nearest constant is (6 + 2·3) / 3 = 4.
    EXPECT_EQ(
        monotone_medians({sample(1, 1), sample(2, 6), sample(4, 3), sample(4, 3), sample(8, 9)}),
        (std::vector<CurvePoint>{{1, 1}, {2, 4}, {4, 4}, {8, 9}}));
}

// 600 before 3 and 4: no constant is nearer to the three than their median, 4. Their mean would be
// 202, for an outlier.
TEST(MonotoneByMedians, PoolsViolatorsToTheirMedian) {
    EXPECT_EQ(monotone_by_medians(
                  {sample(1, 1), sample(2, 600), sample(4, 3), sample(8, 4), sample(16, 9)}),
              (std::vector<CurvePoint>{{1, 1}, {2, 4}, {4, 4}, {8, 4}, {16, 9}}));
}

TEST(Thinned, KeepsOnlyTheCornersOfAPowerLaw) {
    std::vector<CurvePoint> points;  // flat to 1024, then proportional
    for (double bytes = 16; bytes <= 65536; bytes *= 2)
        points.push_back({bytes, std::max(1024.0, bytes) / 1e9});
    EXPECT_EQ(thinned(points, 0.01),
              (std::vector<CurvePoint>{{16, 1.024e-6}, {1024, 1.024e-6}, {65536, 6.5536e-5}}));
}

TEST(Thinned, StaysWithinItsTolerance) {
    std::vector<CurvePoint> points;
    for (double bytes = 512; bytes <= 1e9; bytes *= 1.3)
        points.push_back({bytes, 1e-5 + bytes / 2e11});
    const auto kept = thinned(points, 0.02);
    EXPECT_LT(kept.size(), points.size() / 2);
    for (const CurvePoint& point : points)
        EXPECT_LE(std::abs(sim::interpolate(kept, point.bytes) / point.seconds - 1), 0.02);
}

TEST(HeldOutError, IsTheMissOfThePointsLeftOut) {
    // Between (1, 1) and (4, 4) the line gives 2 at 2; measured 2.5: −20 %.
    EXPECT_NEAR(held_out_error({{1, 1}, {2, 2.5}, {4, 4}}), 0.2, 1e-9);
    EXPECT_EQ(held_out_error({{1, 1}, {2, 2}}), 0);
}

// α-β machine: the fit must give back its bandwidth, and prices near the samples it was given.
TEST(FitCollectives, MakesASectionThatPricesWhatItWasFittedTo) {
    std::vector<CollectiveSample> samples;
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
        for (int ranks : {2, 8})
            for (double bytes = 1024; bytes <= (1 << 30); bytes *= 2) {
                const double rounds = std::string(collective) == "all_reduce" ? 2 : 1;
                const double sent = rounds * (ranks - 1) / ranks * bytes;
                samples.push_back(sample(bytes, 2e-5 + sent / 60e9, collective, ranks));
            }
    samples.push_back({"other box", "1", "all_reduce", 8, 1, 1024, 1, "bench"});
    samples.push_back({"box", "2.27", "all_reduce", 16, 2, 1024, 1, "bench"});
    CollectiveFit fit;
    fit.system = "box";
    fit.intra_node_bandwidth_GBps = 100;
    const nlohmann::json section = fit_collectives(samples, fit);
    const sim::CollectiveTable table = sim::parse_collectives(section.dump(), "p.json");
    EXPECT_EQ(table.curves.size(), 6u);
    // 60 of 100 GB/s, less the 20 µs in the 16 ms of the largest size.
    EXPECT_NEAR(table.intra_node.efficiency, 0.6, 0.002);
    EXPECT_EQ(table.inter_node.efficiency, 0.8);
    EXPECT_EQ(table.ring.size(), 3u);
    EXPECT_EQ(table.tree.size(), 3u);
    EXPECT_THAT(table.curves.front().source, HasSubstr("bench: 21 timings of 21 sizes"));

    plan::Cluster cluster;
    cluster.devices_per_node = 8;
    cluster.intra_node = {plan::IntraNodeKind::nvswitch, 100, 2};
    const sim::Network network(cluster, table);
    for (const CollectiveSample& known : samples) {
        if (known.system != "box" || known.nodes > 1 || known.collective == "all_to_all") continue;
        const double priced = network
                                  .collective(*plan::from_name<plan::OpKind>(known.collective),
                                              static_cast<std::int64_t>(known.bytes),
                                              {known.ranks, 1, known.ranks, 1})
                                  .seconds;
        EXPECT_NEAR(priced / known.seconds, 1, 0.011);
    }
}

std::string error_of(const std::vector<CollectiveSample>& samples, const CollectiveFit& fit) {
    try {
        fit_collectives(samples, fit);
    } catch (const FitError& error) {
        return error.what();
    }
    return "";
}

TEST(FitCollectives, AsksWhichLibraryAndRefusesAnEmptyTable) {
    CollectiveFit fit;
    fit.system = "box";
    fit.intra_node_bandwidth_GBps = 100;
    CollectiveSample later = sample(8, 1);
    later.library = "2.29";
    std::vector<CollectiveSample> samples{sample(8, 1), later};
    EXPECT_THAT(error_of(samples, fit), HasSubstr("choose one of 2.27, 2.29"));
    fit.library = "2.29";
    EXPECT_EQ(error_of(samples, fit), "");
    fit.system = "no box";
    EXPECT_THAT(error_of(samples, fit), HasSubstr("no collective of system \"no box\""));
    fit.system = "box";
    samples[1].collective = "gossip";
    EXPECT_THAT(error_of(samples, fit), HasSubstr("unknown collective \"gossip\""));
}

TEST(UnmeasuredCollectives, PriceAHostByItsLinks) {
    CollectiveFit fit;
    fit.system = "host";
    fit.intra_node_bandwidth_GBps = 10;
    fit.algorithms = Algorithms::links;
    const auto table =
        sim::parse_collectives(unmeasured_collectives(fit, {0.5, 0.5, "assumed"}).dump(), "p.json");
    plan::Cluster cluster;
    cluster.devices_per_node = 4;
    cluster.intra_node = {plan::IntraNodeKind::host, 10, 3};
    // 3 hops of 3 µs; 3/4 of 40 MB at half of 10 GB/s.
    EXPECT_NEAR(sim::Network(cluster, table)
                    .collective(plan::OpKind::all_gather, 40'000'000, {4, 1, 4, 1})
                    .seconds,
                9e-6 + 6e-3, 1e-12);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
