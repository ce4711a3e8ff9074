// orrery jobs as a user has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kScenarios = std::string(ORRERY_SOURCE_DIR) + "/scenarios/";
const std::string kFour = kScenarios + "jobs/four-7b-on-64-nodes.json";

// The example of the page that begins so.
std::string shown(const std::string& first) {
    std::istringstream page(content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/jobs.md"));
    std::string shown;
    bool begun = false;
    for (std::string line; std::getline(page, line);) {
        begun = begun || line.starts_with("    " + first);
        if (!begun) continue;
        if (!line.empty() && !line.starts_with("    ")) break;
        shown += line.empty() ? "\n" : line.substr(4) + '\n';
    }
    if (!shown.empty()) shown.pop_back();
    return shown;
}

TEST(JobsCommand, PrintsWhatItsPageShows) {
    const Outcome outcome = run({"jobs", kFour});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(shown("4 jobs of 512 ranks"), outcome.out);
    const Outcome shifted = run({"jobs", kFour, "--shift", "search"});
    ASSERT_EQ(shifted.code, 0) << shifted.err;
    const std::size_t starts = shifted.out.find("starts, best first");
    ASSERT_NE(starts, std::string::npos) << shifted.out;
    EXPECT_EQ(shown("starts, best first"), shifted.out.substr(starts));
}

TEST(JobsCommand, PrintsJson) {
    const Outcome outcome = run({"jobs", kFour, "--json", "--steps", "2"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    ASSERT_EQ(printed.at("jobs").size(), 4U);
    double tokens = 0;
    for (const json& job : printed.at("jobs")) {
        EXPECT_EQ(job.at("nodes").size(), 16U);
        EXPECT_NEAR(job.at("slowdown").get<double>(),
                    job.at("shared_s").get<double>() / job.at("alone_s").get<double>(), 1e-12);
        EXPECT_GT(job.at("slowdown"), 1);
        EXPECT_GT(job.at("exposed_shared_s"), job.at("exposed_alone_s"));
        EXPECT_LE(job.at("least_s"), job.at("shared_s"));
        EXPECT_GE(job.at("most_s"), job.at("shared_s"));
        EXPECT_GE(job.at("steps"), 2);
        double sum = 0;
        for (const auto& [account, of_it] : job.at("breakdown_alone_s").items())
            sum += of_it.get<double>();
        EXPECT_NEAR(sum, job.at("alone_s").get<double>(), 1e-9);
        tokens += job.at("tokens_per_s").get<double>();
    }
    EXPECT_NEAR(printed.at("throughput").at("tokens_per_s").get<double>(), tokens, 1e-6 * tokens);
    EXPECT_EQ(printed.at("links").size(), 16U);
    for (const json& link : printed.at("links")) {
        EXPECT_LE(link.at("carried"), 1);
        EXPECT_LE(link.at("full"), link.at("met"));
        EXPECT_LE(link.at("met"), link.at("busy"));
    }
    EXPECT_EQ(run({"jobs", kFour, "--json", "--steps", "2"}).out, outcome.out);
}

// The scenario on its own, as large: the same step to the bit.
TEST(JobsCommand, OneJobIsWhatSimulateSays) {
    json one = json::parse(content_of(kFour));
    one["jobs"] = json::array({one["jobs"][0]});
    one["jobs"][0]["placement"] = "compact";
    const std::string file = written("one.json", one.dump());
    json cluster = one["cluster"];
    cluster["nodes"] = 16;
    const Outcome jobs = run({"jobs", file, "--json"});
    ASSERT_EQ(jobs.code, 0) << jobs.err;
    const Outcome alone =
        run({"simulate", kScenarios + "runs/llama2-7b-a100x8.json", "--set",
             "cluster=" + cluster.dump(), "--set", "layout.global_batch_size=256", "--json"});
    ASSERT_EQ(alone.code, 0) << alone.err;
    const json job = json::parse(jobs.out).at("jobs").at(0);
    const double time_s = json::parse(alone.out).at("step").at("time_s");
    EXPECT_EQ(job.at("alone_s"), time_s);
    EXPECT_EQ(job.at("shared_s"), time_s);
}

TEST(JobsCommand, SearchesPlaces) {
    const Outcome outcome = run({"jobs", kFour, "--place", "search", "--json", "--steps", "2"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    const json& search = printed.at("search");
    EXPECT_EQ(search.at("places").at(0).at("score"), 4) << "each fits two leaves of its own";
    EXPECT_EQ(search.at("places").back().at("how"), "as given");
    for (const json& job : printed.at("jobs"))
        EXPECT_EQ(job.at("slowdown"), 1);
    const Outcome nothing = run({"jobs", kFour, "--objective", "worst"});
    EXPECT_EQ(nothing.code, 2);
    EXPECT_THAT(nothing.err, HasSubstr("only with --place search or --shift search"));
}

// c's step is nearly two of a's.
TEST(JobsCommand, SearchesShifts) {
    const std::vector<std::string> command = {"jobs",   kFour,     "--shift", "search",
                                              "--json", "--steps", "2"};
    const Outcome outcome = run(command);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(run(command).out, outcome.out);
    const json printed = json::parse(outcome.out);
    const json& shifts = printed.at("shifts");
    const json& starts = shifts.at("starts");
    const json given = json::parse(run({"jobs", kFour, "--json", "--steps", "2"}).out);
    double least = 1e9;
    for (const json& one : starts) {
        least = std::min(least, one.at("score").get<double>());
        double sum = 0;
        for (const json& slowdown : one.at("slowdowns"))
            sum += slowdown.get<double>();
        EXPECT_NEAR(one.at("score").get<double>(), sum, 1e-9);
        if (one.at("how") != "as given") continue;
        for (std::size_t j = 0; j < 4; ++j)
            EXPECT_EQ(one.at("shared_s").at(j), given.at("jobs").at(j).at("shared_s"));
        EXPECT_LT(starts.at(0).at("score"), one.at("score"));
    }
    EXPECT_EQ(starts.at(0).at("score"), least);
    for (std::size_t j = 0; j < 4; ++j) {
        EXPECT_EQ(starts.at(0).at("shared_s").at(j), printed.at("jobs").at(j).at("shared_s"));
        EXPECT_GE(starts.at(0).at("later_s").at(j), 0);
    }
    EXPECT_EQ(shifts.at("lasting"), false);
    const json& drift = shifts.at("drifts").at(0);
    EXPECT_EQ(drift.at("slow"), "c");
    EXPECT_EQ(drift.at("fast"), "a");
    const double a = printed.at("jobs").at(0).at("alone_s");
    const double c = printed.at("jobs").at(2).at("alone_s");
    EXPECT_NEAR(drift.at("drift_s").get<double>(), std::abs(c - 2 * a), 1e-9);
}

TEST(JobsCommand, SearchesShiftsWherePlacesAreBest) {
    json two = json::parse(content_of(kFour));
    two["jobs"] = json::array({two["jobs"][0], two["jobs"][1]});
    for (std::size_t j = 0; j < 2; ++j) {
        json nodes = json::array();
        for (std::size_t node = 0; node < 16; ++node)
            nodes.push_back(4 * node + j);
        two["jobs"][j].erase("nodes");
        two["jobs"][j].erase("placement");
        two["jobs"][j]["on_nodes"] = nodes;
    }
    two["cluster"]["inter_node"]["fabric"]["levels"][0]["oversubscription"] = 8;
    const std::string file = written("two.json", two.dump());
    const Outcome outcome = run({"jobs", file, "--place", "search", "--shift", "search",
                                 "--objective", "worst", "--json", "--steps", "2"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    EXPECT_EQ(printed.at("shifts").at("objective"), "worst");
    EXPECT_EQ(printed.at("shifts").at("starts").at(0).at("score"),
              printed.at("search").at("places").at(0).at("score"));
    const Outcome places =
        run({"jobs", file, "--place", "search", "--objective", "worst", "--json", "--steps", "2"});
    EXPECT_LT(printed.at("search").at("places").at(0).at("score"),
              json::parse(places.out).at("search").at("places").at(0).at("score"));
}

TEST(JobsCommand, ShiftsAreSearchedOrAsGiven) {
    const Outcome outcome = run({"jobs", kFour, "--shift", "soon"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--shift"));
    EXPECT_EQ(outcome.out, "");
}

const char* const kCluster = R"("cluster": {"nodes": 4, "devices_per_node": 8,
    "device": "a100-80gb-sxm", "profile": "profiles/a100-80gb-sxm.json",
    "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 300, "latency_us": 2},
    "inter_node": {"kind": "infiniband", "nics_per_node": 8, "bandwidth_Gbps": 200,
                   "latency_us": 5}})";

Outcome with_jobs(const std::string& jobs) {
    const std::string file =
        written("jobs.json", std::string("{") + kCluster + ", \"jobs\": [" + jobs + "]}");
    Outcome outcome = run({"jobs", file});
    outcome.err = replaced(outcome.err, file, "jobs.json");
    return outcome;
}

TEST(JobsCommand, SaysAllThatIsWrongAtOnce) {
    const std::string seven = R"("scenario": "runs/llama2-7b-a100x8.json")";
    const Outcome outcome =
        with_jobs("{\"name\": \"a\", " + seven + ", \"on_nodes\": [0, 1]}, {\"name\": \"a\", " +
                  seven + ", \"on_nodes\": [1]}, {" + seven + ", \"on_nodes\": [9]}, {" + seven +
                  ", \"nodes\": 4, \"placement\": \"rail_aligned\"}");
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, R"(error[J004]: the cluster's fabric has no rails
  --> jobs.json:/jobs/3/placement   (= "rail_aligned")
   = help: "compact", or "kind": "rail" for cluster.inter_node.fabric

error[J008]: jobs 1 and 2 have one name
  --> jobs.json:/jobs/1/name   (= "a")

error[J001]: node 1 is a's already
  --> jobs.json:/jobs/1/on_nodes   (= [1])

error[J003]: the cluster has no node 9
  --> jobs.json:/jobs/2/on_nodes   (= [9])
   |  nodes 0 to 3

error[J002]: the jobs need more nodes than the cluster has
  --> jobs.json:/jobs   (= [{"name":"a","scenario":"runs/llama2-7b-a100x8.json","on_nod …)
   |  2 + 1 + 1 + 4 = 8 > 4 nodes
   = help: 4 nodes fewer in all, or cluster.nodes: 8

5 errors; nothing was run.
)");
}

TEST(JobsCommand, SaysWhoseScenarioIsWrong) {
    const Outcome layout = with_jobs(
        R"({"name": "wide", "scenario": "runs/llama2-7b-a100x8.json", "nodes": 1,
            "set": ["layout.tensor_parallel=3"]})");
    EXPECT_EQ(layout.code, 3);
    EXPECT_THAT(layout.err, HasSubstr("S014"));
    EXPECT_THAT(layout.err, HasSubstr("runs/llama2-7b-a100x8.json:/layout/tensor_parallel"));
    EXPECT_THAT(layout.err, HasSubstr("in wide"));
    const Outcome device = with_jobs(R"({"scenario": "runs/llama3-8b-h200x8.json", "nodes": 1})");
    EXPECT_EQ(device.code, 3);
    EXPECT_THAT(device.err, StartsWith("error[J005]"));
    const Outcome missing = with_jobs(R"({"scenario": "runs/llama2-7b-a100x9.json", "nodes": 1})");
    EXPECT_EQ(missing.code, 5);
    EXPECT_THAT(missing.err, HasSubstr("did you mean \"runs/llama2-7b-a100x8.json\"?"));
    const Outcome scenario = run({"jobs", kScenarios + "runs/tiny-gpt.json"});
    EXPECT_EQ(scenario.code, 5);
    EXPECT_THAT(scenario.err, StartsWith("error[J007]"));
    EXPECT_EQ(run({"jobs", "nowhere.json"}).code, 5);
}

// "cluster" with nodes of two kinds, and what else it is to have.
std::string two_kinds(const std::string& more) {
    const auto nodes = [](const std::string& device, const std::string& count) {
        return R"("nodes": )" + count + R"(, "devices_per_node": 8, "device": ")" + device +
               R"(", "profile": "profiles/)" + device + R"(.json", "intra_node": {"kind":
               "nvswitch", "bandwidth_GBps": 300, "latency_us": 2}, "inter_node": {"kind":
               "infiniband", "nics_per_node": 8, "bandwidth_Gbps": 200, "latency_us": 5})";
    };
    return R"("cluster": {)" + nodes("a100-80gb-sxm", "2") + R"(, "other_nodes": [{)" +
           nodes("h100-sxm", "2") + "}]" + more + "}";
}

Outcome with_cluster(const std::string& cluster, const std::string& jobs,
                     const std::vector<std::string>& options = {}) {
    const std::string file =
        written("two_kinds.json", "{" + cluster + ", \"jobs\": [" + jobs + "]}");
    std::vector<std::string> command = {"jobs", file};
    command.insert(command.end(), options.begin(), options.end());
    Outcome outcome = run(command);
    outcome.err = replaced(outcome.err, file, "jobs.json");
    return outcome;
}

// The shipped 7B without its cluster: it fits any node.
std::string anywhere() {
    json scenario = json::parse(content_of(kScenarios + "runs/llama2-7b-a100x8.json"));
    scenario.erase("cluster");
    return scenario.dump();
}

const std::string kOfA100 = R"("scenario": "runs/llama2-7b-a100x8.json")";

TEST(JobsCommand, SaysWhatIsWrongWithJobsOnMixedNodes) {
    const Outcome too_many = with_cluster(
        two_kinds(""), R"({"name": "a", )" + kOfA100 + R"(, "nodes": 2}, {"name": "b", )" +
                           kOfA100 + R"(, "nodes": 1}, {"name": "c", "scenario": )" + anywhere() +
                           R"(, "nodes": 1})");
    EXPECT_EQ(too_many.code, 3);
    EXPECT_THAT(too_many.err,
                StartsWith(R"(error[J009]: more nodes of a device are needed than the cluster has
  --> jobs.json:/jobs )"));
    EXPECT_THAT(too_many.err, HasSubstr(R"(
   |  a 2 + b 1 = 3 > 2 nodes of "a100-80gb-sxm"
   = help: a scenario without "cluster" fits any node

1 error; nothing was run.
)"));
    const Outcome on_others =
        with_cluster(two_kinds(""), "{" + kOfA100 + R"(, "on_nodes": [1, 2]})");
    EXPECT_EQ(on_others.code, 3);
    EXPECT_EQ(on_others.err, R"(error[J005]: the scenario is for another device than a node's
  --> jobs.json:/jobs/0/on_nodes   (= [1,2])
   |  its cluster has "a100-80gb-sxm", node 2 has "h100-sxm"
   = help: leave "cluster" out of the scenario, if it is to run there all the same

1 error; nothing was run.
)");
    const Outcome of_neither =
        with_cluster(two_kinds(""), R"({"scenario": "runs/llama3-8b-h200x8.json", "nodes": 1})");
    EXPECT_THAT(
        of_neither.err,
        HasSubstr(R"(its cluster has "h200-sxm", the shared one "a100-80gb-sxm", "h100-sxm")"));
    const Outcome own =
        with_cluster(two_kinds(""), "{" + kOfA100 + R"(, "nodes": 1, "set": ["cluster.nodes=2"]})");
    EXPECT_EQ(own.code, 3);
    EXPECT_EQ(own.err, R"(error[J010]: a job has no cluster of its own: it runs on the shared one
  --> jobs.json:/jobs/0/set   (= ["cluster.nodes=2"])
   |  cluster.nodes=2
   = help: set it in "cluster", for all jobs

1 error; nothing was run.
)");
    const Outcome machine =
        with_cluster(replaced(two_kinds(""), "profiles/a100-80gb-sxm.json", "this-machine"),
                     "{" + kOfA100 + R"(, "nodes": 1})");
    EXPECT_EQ(machine.code, 3);
    EXPECT_THAT(machine.err, StartsWith("error[J006]"));
    EXPECT_THAT(machine.err, HasSubstr("/cluster/profile"));
}

// Eight-bit products are only of the two nodes of H100, which the reader of files does not know.
TEST(JobsCommand, JobsGetNodesThatComputeWhatTheyAsk) {
    json eight_bit = json::parse(anywhere());
    eight_bit["training"]["precision"] = "fp8";
    eight_bit["training"]["fp8_recipe"] = "delayed";
    const std::string one = R"({"name": "f8", "scenario": )" + eight_bit.dump() + R"(, "nodes": )";
    const Outcome fits = with_cluster(two_kinds(""), one + "2}", {"--json"});
    ASSERT_EQ(fits.code, 0) << fits.err;
    EXPECT_EQ(json::parse(fits.out).at("jobs").at(0).at("nodes"), (json{2, 3}));
    const Outcome too_few = with_cluster(two_kinds(""), one + "4}");
    EXPECT_EQ(too_few.code, 3);
    EXPECT_THAT(too_few.err, StartsWith("error[J009]"));
    EXPECT_THAT(too_few.err,
                HasSubstr(R"(f8, of 4 nodes, can only be computed by the 2 of "h100-sxm")"));
}

TEST(JobsCommand, OneJobOnUnevenNodesIsWhatSimulateSays) {
    const std::string slow = R"(, "slow_devices": [{"device": 3, "factor": 1.5}])";
    const std::string varying =
        R"(, "jitter": {"distribution": "lognormal", "relative_sd": 0.1}, "stragglers": "megascale")";
    for (const std::string& more : {slow, varying}) {
        const Outcome jobs = with_cluster(
            two_kinds(more), R"({"scenario": )" + anywhere() + R"(, "nodes": 4})", {"--json"});
        ASSERT_EQ(jobs.code, 0) << jobs.err;
        json scenario = json::parse(anywhere());
        scenario["cluster"] = json::parse("{" + two_kinds(more) + "}").at("cluster");
        const Outcome alone = run({"simulate", written("alone.json", scenario.dump()), "--json"});
        ASSERT_EQ(alone.code, 0) << alone.err;
        const json job = json::parse(jobs.out).at("jobs").at(0);
        const double time_s = json::parse(alone.out).at("step").at("time_s");
        EXPECT_EQ(job.at("alone_s"), time_s);
        EXPECT_EQ(job.at("slowdown"), 1);
        EXPECT_EQ(job.at("devices").size(), 2U);
        EXPECT_EQ(job.contains("alone_mean_s"), more == varying);
    }
}

TEST(JobsCommand, TellsWhoHasWhatIsSlow) {
    json four = json::parse(content_of(kFour));
    four["cluster"]["slow_nodes"] = {{{"node", 3}, {"factor", 1.2}}};
    four["jobs"][0].erase("nodes");
    four["jobs"][0].erase("placement");
    four["jobs"][0]["on_nodes"] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const std::string file = written("slow.json", four.dump());
    const Outcome text = run({"jobs", file});
    ASSERT_EQ(text.code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("uneven      devices of node 3 take 1.2 x as long\n"));
    EXPECT_THAT(text.out, HasSubstr("costs       a with node 3 (1.2 x) takes "));
    EXPECT_THAT(text.out, Not(HasSubstr("b takes")));
    const json jobs = json::parse(run({"jobs", file, "--json"}).out).at("jobs");
    EXPECT_EQ(jobs.at(0).at("slow_nodes"), (json{{{"node", 3}, {"slower", 1.2}}}));
    EXPECT_GT(jobs.at(0).at("alone_s"), jobs.at(0).at("even_s"));
    EXPECT_EQ(jobs.at(1).at("alone_s"), jobs.at(1).at("even_s"));
    EXPECT_TRUE(jobs.at(1).at("slow_nodes").empty());
}

// What fits the schema of jobs are the shipped files.
TEST(JobsCommand, SchemaKnowsTheKeysOfShippedFiles) {
    const Outcome outcome = run({"schema", "--jobs"});
    ASSERT_EQ(outcome.code, 0);
    const json schema = json::parse(outcome.out);
    const json& known = schema.at("properties").at("jobs").at("items").at("properties");
    for (const char* file : {"four-7b-on-64-nodes.json", "four-1024-on-fat-tree.json"}) {
        const json jobs = json::parse(content_of(kScenarios + "jobs/" + file));
        for (const auto& [key, value] : jobs.items())
            EXPECT_TRUE(schema.at("properties").contains(key)) << key;
        for (const json& job : jobs.at("jobs"))
            for (const auto& [key, value] : job.items())
                EXPECT_TRUE(known.contains(key)) << key;
    }
    EXPECT_EQ(run({"schema", "--jobs", "layout"}).code, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
