// `orrery compare`: what a person reads, the contract of --json, and what it refuses.
#include <cmath>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;

// A measured trace of tests/cli/tiny.json: what was predicted, every rank r slower by r percent,
// attention by a tenth on top.
trace::Trace measured_trace() {
    const std::string path = testing::TempDir() + "compare_as_predicted.orrery";
    const Outcome outcome = run({"simulate", tiny(), "--unfolded", "--trace", path});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    trace::Trace trace = trace::read_trace(path);
    trace.origin = trace::Origin::measured;
    for (trace::Track& track : trace.tracks)
        track.events.change([&](trace::Event& event, std::size_t i) {
            const bool attention = trace.op_of(track, i).label == "attention";
            const auto length = static_cast<double>(event.duration());
            const double slower = static_cast<double>(track.rank) + (attention ? 10 : 0);
            event.end = event.start + std::llround(length * (1 + slower / 100));
            trace.step_end = std::max(trace.step_end, event.end);
        });
    return trace;
}

std::string written_trace(const std::string& name, const trace::Trace& trace) {
    std::string path = testing::TempDir() + name;
    trace::write_trace(trace, path);
    return path;
}

trace::Trace with_facts(trace::Trace trace) {
    trace.facts = {};
    trace.facts.backend = "cpu";
    trace.facts.high_water_bytes = {279000000, 279500000, 279000000, 279000000,
                                    270000000, 270000000, 270000000, 270000000};
    trace.facts.other_bytes = {150000000, 151000000, 152000000, 150000000,
                               150000000, 150000000, 150000000, 150000000};
    trace.facts.step_times_s = {0.0217, 0.0214, 0.0221};
    trace.facts.storage = {0.0004, 1.5e8, 0.03, 0.2, 1.5e8, 0.25};
    return trace;
}

TEST(Compare, SaysWhereMeasuredTimesSayNothing) {
    trace::Trace trace = with_facts(measured_trace());
    trace.facts.ranks_per_device = 2;
    const std::string measured = written_trace("compare_shared.orrery", trace);
    const Outcome text = run({"compare", tiny(), measured});
    EXPECT_THAT(text.out, HasSubstr("several ranks shared a GPU: the measured times say nothing"));
    EXPECT_TRUE(json::parse(run({"compare", tiny(), measured, "--json"}).out)["correctness_only"]);
    const Outcome priced = run({"simulate", tiny(), "--costs", measured});
    EXPECT_EQ(priced.code, 0);
    EXPECT_THAT(priced.err, HasSubstr("several ranks shared a GPU: its times say nothing"));
}

TEST(Compare, ReadsLikeThis) {
    const std::string measured =
        written_trace("compare_measured.orrery", with_facts(measured_trace()));
    const Outcome outcome = run({"compare", tiny(), measured});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    std::istringstream lines(replaced(replaced(outcome.out, folder(), ""), testing::TempDir(), ""));
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(width_of(line), 100u) << line;
    expect_golden("compare.txt",
                  replaced(replaced(outcome.out, folder(), ""), testing::TempDir(), ""));
}

// Two traces say all that is printed of them: where their scenarios are no more, it is the same.
TEST(Compare, ReadsTracesWithoutTheirScenarios) {
    const std::string simulated = testing::TempDir() + "compare_simulated.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--trace", simulated}).code, 0);
    trace::Trace predicted = trace::read_trace(simulated);
    trace::Trace measured = with_facts(measured_trace());
    const std::string of_measured = written_trace("compare_alone_m.orrery", measured);
    const Outcome whole = run({"compare", simulated, of_measured});
    ASSERT_EQ(whole.code, 0) << whole.err;
    for (const char* text : {"", "no scenario"}) {
        predicted.scenario_json = measured.scenario_json = text;
        written_trace("compare_simulated.orrery", predicted);
        written_trace("compare_alone_m.orrery", measured);
        const Outcome alone = run({"compare", simulated, of_measured});
        EXPECT_EQ(alone.code, 0) << alone.err;
        EXPECT_EQ(alone.out, whole.out);
        const Outcome as_json = run({"compare", simulated, of_measured, "--json"});
        EXPECT_GT(json::parse(as_json.out)["memory"]["predicted_peak_bytes"], 0);
    }
}

TEST(Compare, JsonHasItsKeysAndSums) {
    const std::string measured = written_trace("compare_json.orrery", with_facts(measured_trace()));
    const Outcome outcome = run({"compare", tiny(), measured, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    const json& step = result["step"];
    const double predicted = step["predicted_s"];
    const double took = step["measured_s"];
    EXPECT_DOUBLE_EQ(step["error_pct"].get<double>(), (predicted - took) / took * 100);
    EXPECT_EQ(step["steps_measured"], 3);
    EXPECT_EQ(step["step_times_s"]["median"], 0.0217);
    EXPECT_EQ(result["memory"]["measured_peak_bytes"], 279500000);
    EXPECT_EQ(result["memory"]["measured_other_bytes"], 152000000);
    EXPECT_GT(result["memory"]["predicted_peak_bytes"], 0);
    EXPECT_GT(result["memory"]["predicted_other_bytes"], 0);
    // The scenario says nothing of its storage: nobody predicted it.
    EXPECT_EQ(result["storage"]["load_s"], json({{"predicted", nullptr}, {"measured", 0.25}}));
    EXPECT_EQ(result["storage"].size(), trace::kStorageFacts.size());
    const Outcome stored = run({"compare", tiny(), measured, "--json", "--set",
                                R"(storage={"write_GBps": 0.5, "node_GBps": 1})"});
    ASSERT_EQ(stored.code, 0) << stored.err;
    const json storage = json::parse(stored.out)["storage"];
    EXPECT_NEAR(storage["save_write_s"]["predicted"].get<double>(),
                storage["save_bytes"]["predicted"].get<double>() / 0.5e9, 1e-12);
    EXPECT_EQ(storage["save_write_s"]["measured"], 0.2);
    EXPECT_EQ(storage["data_wait_s"]["predicted"], 0);
    double sum = 0;
    for (const auto& [name, account] : result["accounts"].items())
        sum += account["measured_s"].get<double>();
    EXPECT_NEAR(sum, took, 1e-12);
    // Ranks 0 to 7 are slower by 3.5 % in the mean, and rank 7 by 7: to that it was predicted
    // short.
    for (const json& kind : result["kinds"]) {
        ASSERT_TRUE(kind["kind"].is_string());
        if (kind["kind"] != "norm") continue;
        EXPECT_NEAR(kind["rank_error_pct"]["low"].get<double>(), (1 / 1.07 - 1) * 100, 1e-4);
        EXPECT_NEAR(kind["rank_error_pct"]["high"].get<double>(), 0, 1e-4);
    }
    double shares = 0;
    for (const json& op : result["ops"])
        shares += op["share_of_error"].get<double>();
    EXPECT_NEAR(shares, 1, 1e-12);
    const json top = json::parse(run({"compare", tiny(), measured, "--json", "--top", "3"}).out);
    EXPECT_EQ(top["ops"].size(), 3u);
}

TEST(Compare, TakesATraceForThePrediction) {
    const std::string predicted = testing::TempDir() + "compare_predicted.json";
    ASSERT_EQ(run({"simulate", tiny(), "--trace", predicted}).code, 0);
    const std::string measured = written_trace("compare_two.orrery", measured_trace());
    // The profile that the trace's scenario names is looked for beside the trace.
    const std::string profile =
        written("tiny-profile.json", content_of(folder() + "tiny-profile.json"));
    const Outcome of_trace = run({"compare", predicted, measured, "--json"});
    ASSERT_EQ(of_trace.code, 0) << of_trace.err;
    const Outcome of_scenario = run({"compare", tiny(), measured, "--json"});
    for (const char* key :
         {"step", "memory", "accounts", "communication", "kinds", "ops", "streams"})
        EXPECT_EQ(json::parse(of_trace.out)[key], json::parse(of_scenario.out)[key]) << key;
    EXPECT_EQ(run({"compare", predicted, measured, "--set", "layout.zero_stage=0"}).code, 2);

    // Of each group what simulate says of it.
    const json simulated = json::parse(run({"simulate", tiny(), "--json"}).out)["communication"];
    const json compared = json::parse(of_scenario.out)["communication"];
    EXPECT_EQ(compared.size(), 3u);  // tensor, data, pipeline
    for (const auto& [group, times] : compared.items())
        EXPECT_NEAR(times["predicted_s"].get<double>(),
                    simulated.at(group).at("busy_s").get<double>(), 1e-12)
            << group;
}

TEST(Compare, SaysWhatAnImportedScenarioLacks) {
    const std::string measured = written_trace("compare_imported.orrery", measured_trace());
    const std::vector<std::string> command = {
        "compare", tiny(), measured, "--set",
        R"(imported={"from":"a run","approximations":[{"key":"--a","value":"2","why":"no such"}]})"};
    EXPECT_THAT(run(command).out, HasSubstr("from a run; not simulated: --a 2 (no such)"));
    std::vector<std::string> as_json = command;
    as_json.emplace_back("--json");
    EXPECT_EQ(json::parse(run(as_json).out)["imported"]["approximations"][0]["key"], "--a");
}

TEST(Compare, RefusesWhatDoesNotJoin) {
    const std::string measured = written_trace("compare_other.orrery", measured_trace());
    const Outcome other =
        run({"compare", tiny(), measured, "--set", "layout.recompute=full", "--json"});
    EXPECT_EQ(other.code, 3);
    EXPECT_NE(other.err.find("/layout/recompute: predicted \"full\", measured \"none\""),
              std::string::npos)
        << other.err;
    EXPECT_TRUE(json::parse(other.out).contains("errors"));
    EXPECT_EQ(run({"compare", tiny(), testing::TempDir() + "none.orrery"}).code, 5);
    EXPECT_EQ(run({"compare", testing::TempDir() + "none.orrery", measured}).code, 5);
    EXPECT_EQ(run({"compare", testing::TempDir() + "none.json", measured}).code, 5);
    EXPECT_EQ(run({"compare", tiny(), tiny()}).code, 5);
    EXPECT_EQ(run({"compare", tiny()}).code, 2);
}

// What was predicted, taken for measured, replays to itself.
TEST(Costs, ReplayTheStepThatWasMeasured) {
    const std::string predicted = testing::TempDir() + "costs_predicted.orrery";
    const Outcome plain = run({"simulate", tiny(), "--unfolded", "--json", "--trace", predicted});
    trace::Trace trace = trace::read_trace(predicted);
    trace.origin = trace::Origin::measured;
    const std::string measured = written_trace("costs_measured.orrery", trace);
    const Outcome outcome = run({"simulate", tiny(), "--costs", measured, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(result["step"]["time_s"], json::parse(plain.out)["step"]["time_s"]);
    EXPECT_EQ(result["prices"]["trace"], measured);
    EXPECT_EQ(result["prices"]["own_time"]["share"], 1.0);
    EXPECT_EQ(result["prices"]["profile"]["ops"], 0);
    EXPECT_FALSE(json::parse(plain.out).contains("prices"));

    const Outcome text = run({"simulate", tiny(), "--costs", measured});
    EXPECT_NE(text.out.find("where the prices are from"), std::string::npos);
    // Lines break where the folder's name makes them.
    std::istringstream words(text.out);
    std::string unbroken;
    for (std::string word; words >> word;)
        unbroken += word + ' ';
    EXPECT_NE(unbroken.find("by what they took themselves"), std::string::npos) << text.out;
    const Outcome compared = run({"compare", tiny(), measured, "--costs", measured, "--json"});
    EXPECT_EQ(json::parse(compared.out)["step"]["error_pct"], 0.0);
    EXPECT_NE(json::parse(compared.out)["prices"].get<std::string>().find("measured in "),
              std::string::npos);

    const json asked = json::parse(run({"simulate", tiny(), "--costs", measured, "--json", "--set",
                                        "layout.global_batch_size=16"})
                                       .out);
    EXPECT_GT(asked["step"]["time_s"], result["step"]["time_s"]);
    // Groups of tiny.json lie within a node or on both: what was measured is parted by the model.
    EXPECT_GT(asked["prices"]["mean"]["share"], 0.5);
    EXPECT_EQ(asked["prices"]["own_time"]["ops"], 0);

    // A link of a fifth of the bandwidth: the plan is the measured one, its collectives are not.
    const Outcome elsewhere = run({"simulate", tiny(), "--costs", measured, "--json", "--set",
                                   "cluster.intra_node.bandwidth_GBps=1"});
    EXPECT_EQ(elsewhere.err, "");
    const json slower = json::parse(elsewhere.out);
    EXPECT_GT(slower["step"]["time_s"], result["step"]["time_s"]);
    EXPECT_GT(slower["prices"]["scaled"]["share"], 0);
    EXPECT_EQ(slower["prices"]["profile"]["ops"], 0);
    double of_kinds = 0;
    for (const json& kind : slower["prices"]["kinds"])
        of_kinds += kind["scaled"].get<double>();
    EXPECT_NEAR(of_kinds, slower["prices"]["scaled"]["share"], 1e-12);
}

TEST(Costs, SayWhyNothingCanBeScaled) {
    const std::string predicted = testing::TempDir() + "costs_nameless.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--unfolded", "--trace", predicted}).code, 0);
    trace::Trace trace = trace::read_trace(predicted);
    trace.origin = trace::Origin::measured;
    trace.scenario_json = "{}";
    const Outcome outcome =
        run({"simulate", tiny(), "--costs", written_trace("costs_of_none.orrery", trace), "--json",
             "--set", "layout.micro_batch_size=2"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.err.find("warning"), std::string::npos) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["prices"]["scaled"]["ops"], 0);
}

TEST(Costs, AreRefusedWhereNothingWasMeasured) {
    const std::string predicted = testing::TempDir() + "costs_refused.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--trace", predicted}).code, 0);
    EXPECT_EQ(run({"simulate", tiny(), "--costs", predicted}).code, 3);
    EXPECT_EQ(run({"simulate", tiny(), "--costs", tiny()}).code, 5);
    EXPECT_EQ(run({"simulate", tiny(), "--costs", "none.orrery"}).code, 5);
    EXPECT_EQ(run({"compare", predicted, predicted, "--costs", predicted}).code, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
