// Nodes for jobs of which not every one fits every node.
#include "sim/jobs/place_jobs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "plan/scenario/jobs/share_nodes.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::NodeDemand;
using plan::NodeShares;
using plan::share_nodes;

// Kind 1 has three nodes, and two jobs that fit no other need four; a third has what it needs.
TEST(ShareNodes, NamesThoseThatFitTooFew) {
    const NodeShares shares = share_nodes({{2, {1}}, {5, {}}, {2, {1}}}, {20, 3});
    EXPECT_EQ(shares.too_many, (std::vector<std::size_t>{0, 2}));
    EXPECT_TRUE(shares.of_kind.empty());
}

// The first may have both kinds, the second only kind 0, which it needs in full.
TEST(ShareNodes, LeavesAKindToWhoFitsNoOther) {
    const NodeShares shares = share_nodes({{4, {}}, {3, {0}}}, {3, 4});
    EXPECT_TRUE(shares.too_many.empty());
    EXPECT_EQ(shares.of_kind, (std::vector<std::vector<std::int64_t>>{{0, 4}, {3, 0}}));
}

// By Hall's theorem: there are enough exactly if no set of demands fits fewer than it needs.
RC_GTEST_PROP(ShareNodes, AreEnoughWhereNoSetOfDemandsFitsTooFew, ()) {
    const auto below = [](int most) { return *rc::gen::inRange<std::int64_t>(0, most); };
    std::vector<std::int64_t> nodes(3);
    for (std::int64_t& count : nodes)
        count = below(6);
    std::vector<NodeDemand> demands(static_cast<std::size_t>(1 + below(4)));
    for (NodeDemand& demand : demands) {
        demand.nodes = 1 + below(5);
        for (std::size_t kind = 0; kind < nodes.size(); ++kind)
            if (below(2) == 1) demand.kinds.push_back(kind);
    }
    const auto fits = [](const NodeDemand& demand, std::size_t kind) {
        return demand.kinds.empty() ||
               std::find(demand.kinds.begin(), demand.kinds.end(), kind) != demand.kinds.end();
    };
    bool enough = true;
    for (unsigned set = 1; set < 1U << demands.size(); ++set) {
        std::int64_t needed = 0, there = 0;
        for (std::size_t d = 0; d < demands.size(); ++d)
            if ((set >> d & 1U) != 0) needed += demands[d].nodes;
        for (std::size_t kind = 0; kind < nodes.size(); ++kind) {
            bool any = false;
            for (std::size_t d = 0; d < demands.size(); ++d)
                any = any || ((set >> d & 1U) != 0 && fits(demands[d], kind));
            if (any) there += nodes[kind];
        }
        enough = enough && needed <= there;
    }
    const NodeShares shares = share_nodes(demands, nodes);
    RC_ASSERT(shares.too_many.empty() == enough);
    std::vector<std::int64_t> used(nodes.size(), 0);
    for (std::size_t d = 0; d < shares.of_kind.size(); ++d) {
        const auto& of = shares.of_kind[d];
        RC_ASSERT(std::accumulate(of.begin(), of.end(), std::int64_t{0}) == demands[d].nodes);
        for (std::size_t kind = 0; kind < of.size(); ++kind) {
            RC_ASSERT(of[kind] == 0 || fits(demands[d], kind));
            used[kind] += of[kind];
        }
    }
    for (std::size_t kind = 0; kind < nodes.size(); ++kind)
        RC_ASSERT(used[kind] <= nodes[kind]);
}

// Six nodes of one kind and four of another.
plan::Cluster two_kinds() {
    plan::Cluster cluster;
    cluster.nodes = 6;
    cluster.devices_per_node = 8;
    plan::Cluster others = cluster;
    others.nodes = 4;
    cluster.other_nodes = {others};
    return cluster;
}

Job job_of(std::int64_t nodes, std::vector<std::size_t> kinds) {
    Job job;
    job.scenario.cluster.nodes = nodes;
    job.scenario.cluster.devices_per_node = 8;
    job.kinds = std::move(kinds);
    return job;
}

TEST(JobPlacing, TakesNodesThatFit) {
    const plan::Cluster cluster = two_kinds();
    const std::vector<Job> jobs = {job_of(3, {1})};
    for (const PlacementPolicy policy :
         {PlacementPolicy::compact, PlacementPolicy::scattered, PlacementPolicy::random}) {
        JobPlacing placing(cluster, jobs);
        EXPECT_TRUE(fits(cluster, jobs[0], placing.place(0, policy, 5)));
    }
    EXPECT_FALSE(fits(cluster, jobs[0], {5, 6, 7}));
}

// By the file's order the first would take nodes 0 to 6 and leave the second too few of kind 1.
TEST(JobPlacing, LeavesOthersWhatTheyNeed) {
    const plan::Cluster cluster = two_kinds();
    const std::vector<Job> jobs = {job_of(6, {}), job_of(4, {0})};
    JobPlacing placing(cluster, jobs);
    const NodeList first = placing.place(0, PlacementPolicy::compact, 0);
    EXPECT_EQ(first, (NodeList{0, 1, 6, 7, 8, 9}));
    EXPECT_EQ(placing.place(1, PlacementPolicy::compact, 0), (NodeList{2, 3, 4, 5}));
}

TEST(JobPlacing, SaysWhoHasTooFew) {
    const plan::Cluster cluster = two_kinds();
    const std::vector<Job> jobs = {job_of(2, {1}), job_of(3, {}), job_of(3, {1})};
    EXPECT_EQ(jobs_without_nodes(cluster, jobs, {{}, {}, {}}), (std::vector<std::size_t>{0, 2}));
    EXPECT_EQ(jobs_without_nodes(cluster, {jobs[0], jobs[1]}, {{}, {7, 8, 9}}),
              (std::vector<std::size_t>{0}));
    EXPECT_TRUE(jobs_without_nodes(cluster, {jobs[0], jobs[1]}, {{}, {}}).empty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
