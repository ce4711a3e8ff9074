// The shared library beside the command line, in one process: what it answers is what the commands
// print, byte for byte. Objects of the program are linked in twice, and none knows of its twin.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/orrery.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery {
namespace ORRERY_TEST_FILE {

using cli::content_of;
using cli::Outcome;
using cli::run;
using cli::written;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string run_file(const std::string& name) {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/" + name + ".json";
}

Outcome run_with(std::vector<std::string> args, const std::vector<std::string>& overrides) {
    for (const std::string& one : overrides) {
        args.emplace_back("--set");
        args.push_back(one);
    }
    return run(args);
}

struct Case {
    const char* name;
    std::vector<std::string> overrides;
};

// Beside plain ones: two kinds of nodes, experts, one that does not fit (with its fixes), one whose
// devices are slow in part.
const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {"tiny-gpt", {}},
        {"gpt3-175b-a100x1024", {}},
        {"gpt3-175b-a100x1024", {"layout.schedule=gpipe", "layout.virtual_pipeline=1"}},
        {"llama2-7b-a100x8", {"layout.zero_stage=0"}},
        {"llama3-70b-h100x128-a100x128", {}},
        {"mixtral-8x22b-h100x128", {}},
        {"tiny-gpt", {"cluster.stragglers=megascale", "training.tokens=1e9"}},
    };
    return all;
}

TEST(Library, AnswersWhatSimulatePrints) {
    bool some_exceeds = false;
    for (const Case& one : cases()) {
        const Outcome printed = run_with({"simulate", run_file(one.name), "--json"}, one.overrides);
        const Scenario scenario = Scenario::from_file(run_file(one.name), one.overrides);
        const Prediction step = simulate(scenario);
        EXPECT_EQ(step.json(), printed.out) << one.name;
        EXPECT_EQ(step.verdict() == Verdict::exceeds, printed.code == 4) << one.name;
        some_exceeds = some_exceeds || printed.code == 4;
    }
    EXPECT_TRUE(some_exceeds) << "or nothing is said of fixes";
}

double number(const std::optional<double>& value) {
    return value ? *value : -1;
}
double number(const Json& value) {
    return value.is_null() ? -1 : value.get<double>();
}

TEST(Library, HasTheNumbersOfTheObject) {
    for (const Case& one : cases()) {
        const Prediction step = simulate(Scenario::from_file(run_file(one.name), one.overrides));
        const Json json = Json::parse(step.json());
        const Json &of_step = json["step"], &memory = json["memory"], &run = json["run"],
                   &throughput = json["throughput"];
        EXPECT_EQ(step.step_time_s(), of_step["time_s"]);
        EXPECT_EQ(Json({step.interval_s().first, step.interval_s().second}), of_step["interval_s"]);
        Json breakdown;
        double sum = 0;
        for (const auto& [account, seconds] : step.breakdown_s()) {
            breakdown[account] = seconds;
            sum += seconds;
        }
        EXPECT_EQ(breakdown, of_step["breakdown_s"]);
        EXPECT_NEAR(sum, step.step_time_s(), 1e-12 * step.step_time_s());
        EXPECT_EQ(step.bubble_fraction(), of_step["bubble_fraction"]);
        EXPECT_EQ(name(step.verdict()), memory["verdict"]);
        EXPECT_EQ(step.fit_probability(), memory["fit_probability"]);
        EXPECT_EQ(step.capacity_bytes(), memory["capacity_bytes"]);
        EXPECT_EQ(step.tokens_per_s(), throughput["tokens_per_s"]);
        EXPECT_EQ(step.tokens_per_s_per_gpu(), throughput["tokens_per_s_per_gpu"]);
        EXPECT_EQ(step.model_tflops_per_gpu(), throughput["model_tflops_per_gpu"]);
        EXPECT_EQ(step.mfu(), throughput["mfu"]);
        EXPECT_EQ(step.mfu_causal(), throughput["mfu_causal"]);
        EXPECT_EQ(step.hfu(), throughput["hfu"]);
        EXPECT_EQ(step.gpus(), run["gpus"]);
        EXPECT_EQ(number(step.days()), number(run["days"]));
        EXPECT_EQ(number(step.gpu_hours()), number(run["gpu_hours"]));
        EXPECT_EQ(number(step.cost_usd()), number(run["cost_usd"]));
        EXPECT_EQ(number(step.energy_mwh()), number(run["energy_mwh"]));
    }
}

TEST(Library, HasTheMemoryOfEachStage) {
    const Prediction step = simulate(Scenario::from_file(run_file("gpt3-175b-a100x1024")));
    const Json stages = Json::parse(step.json())["memory"]["stages"];
    const std::vector<StageMemory> typed = step.stages();
    ASSERT_EQ(typed.size(), stages.size());
    std::int64_t fullest = 0;
    for (std::size_t i = 0; i < typed.size(); ++i) {
        const StageMemory& stage = typed[i];
        const Json ours = {{"parameters_bytes", stage.parameters_bytes},
                           {"gradients_bytes", stage.gradients_bytes},
                           {"optimizer_bytes", stage.optimizer_bytes},
                           {"activations_bytes", stage.activations_bytes},
                           {"workspace_bytes", stage.workspace_bytes},
                           {"communication_bytes", stage.communication_bytes},
                           {"other_bytes", stage.other_bytes}};
        std::int64_t sum = 0;
        for (const auto& [key, bytes] : ours.items()) {
            EXPECT_EQ(bytes, stages[i][key]) << key;
            sum += bytes.get<std::int64_t>();
        }
        EXPECT_EQ(stage.peak_bytes, sum);
        EXPECT_EQ(stage.peak_at, stages[i]["peak_at"]);
        EXPECT_EQ(stage.capacity_bytes, step.capacity_bytes()) << "all devices are alike";
        fullest = std::max(fullest, stage.peak_bytes);
    }
    EXPECT_EQ(step.peak_bytes(), fullest);
}

// A measured trace prices its ops, draws are drawn, ranks stand for themselves: as by the options.
TEST(Library, SimulatesByTheOptionsOfTheCommand) {
    const std::string file = run_file("tiny-gpt"), costs = testing::TempDir() + "costs.orrery";
    ASSERT_EQ(run({"simulate", file, "--unfolded", "--trace", costs}).code, 0);
    trace::Trace measured = trace::read_trace(costs);  // as if it had come true
    measured.origin = trace::Origin::measured;
    measured.facts.ranks_per_device = 2;
    trace::write_trace(measured, costs);
    const std::vector<std::string> slow = {"cluster.stragglers=megascale"};
    SimulateOptions options;
    options.draws = 3;
    options.unfolded = true;
    EXPECT_EQ(simulate(Scenario::from_file(file, slow), options).json(),
              run_with({"simulate", file, "--json", "--draws", "3", "--unfolded"}, slow).out);
    SimulateOptions replay;
    replay.costs = costs;
    const Prediction replayed = simulate(Scenario::from_file(file), replay);
    const Outcome printed = run({"simulate", file, "--json", "--costs", costs});
    EXPECT_EQ(replayed.json(), printed.out);
    ASSERT_EQ(replayed.warnings().size(), 1U);
    EXPECT_EQ("orrery simulate: warning: " + replayed.warnings()[0] + "\n", printed.err);
    EXPECT_THROW(replayed.write_trace(costs), Error) << "which was read";
    options.draws = 10'001;
    EXPECT_THROW(simulate(Scenario::from_file(file, slow), options), Error);
}

std::string without_seconds(const std::string& json) {
    return std::regex_replace(json, std::regex(R"("seconds": [^,]*,)"), "");
}

TEST(Library, SearchesAsTheCommandDoes) {
    const std::string file = run_file("llama2-7b-a100x8"), best = testing::TempDir() + "best.json";
    const Outcome printed =
        run({"search", file, "--json", "--top", "2", "--vary", "layout.tensor_parallel=1,2,4",
             "--vary", "layout.zero_stage=0..3", "--objective", "tokens_per_s_per_gpu",
             "--memory-margin", "5", "--write", best, "--force"});
    ASSERT_EQ(printed.code, 0) << printed.err;
    SearchOptions options;
    options.top = 2;
    options.vary = {"layout.tensor_parallel=1,2,4", "layout.zero_stage=0..3"};
    options.objective = "tokens_per_s_per_gpu";
    options.memory_margin_percent = 5;
    std::atomic<double> priced{0};
    options.pricing = [&](double done) { priced.store(done); };
    const SearchResult found = search(Scenario::from_file(file), options);
    EXPECT_EQ(without_seconds(found.json()), without_seconds(printed.out));
    EXPECT_EQ(found.scenario().text(), content_of(best));
    EXPECT_EQ(found.evaluated(), 12U);
    EXPECT_FALSE(found.interrupted());
    EXPECT_GT(priced.load(), 0);

    const Json layouts = Json::parse(found.json())["layouts"];
    ASSERT_EQ(found.layouts().size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
        const FoundLayout& layout = found.layouts()[i];
        EXPECT_EQ(Json(layout.overrides), layouts[i]["set"]);
        EXPECT_EQ(layout.step_time_s, layouts[i]["step_time_s"]);
        EXPECT_EQ(layout.peak_bytes, layouts[i]["peak_bytes"]);
        EXPECT_EQ(layout.fit_probability, layouts[i]["fit_probability"]);
        EXPECT_EQ(layout.mfu, layouts[i]["mfu"]);
        EXPECT_EQ(layout.tokens_per_s, layouts[i]["tokens_per_s"]);
        EXPECT_EQ(simulate(found.scenario(i)).step_time_s(), layout.step_time_s);
    }
    EXPECT_THROW(found.scenario(2), Error);
}

TEST(Library, RefusesAsTheCommandDoes) {
    const Scenario scenario = Scenario::from_file(run_file("tiny-gpt"));
    SearchOptions none, no_word, no_margin, no_price;
    none.top = 0;
    no_word.objective = "speed";
    no_margin.memory_margin_percent = 100;
    no_price.objective = "cost_per_token";
    for (const SearchOptions& options : {none, no_word, no_margin, no_price})
        try {
            search(scenario, options);
            ADD_FAILURE() << options.objective;
        } catch (const Error& error) {
            EXPECT_EQ(error.fault(), Fault::usage) << error.what();
        }
    EXPECT_THROW(Scenario::from_file(run_file("tiny-gpt"), {"layout.zero_stage"}), Error);
}

TEST(Library, WritesTheTraceOfTheCommand) {
    const std::string file = run_file("tiny-gpt");
    const Prediction step = simulate(Scenario::from_file(file));
    for (const char* ending : {".orrery", ".pftrace", ".json"}) {
        const std::string ours = testing::TempDir() + "ours" + ending,
                          theirs = testing::TempDir() + "theirs" + ending;
        std::filesystem::remove(ours);
        step.write_trace(ours);
        ASSERT_EQ(run({"simulate", file, "--trace", theirs, "--force"}).code, 0);
        EXPECT_EQ(content_of(ours), content_of(theirs)) << ending;
        step.write_trace(ours);  // its own kind gives way
    }
}

TEST(Library, WritesNoTraceOntoWhatIsNone) {
    const std::string mine = written("mine.json", content_of(run_file("tiny-gpt")));
    const Prediction step = simulate(Scenario::from_file(mine));
    const std::string before = content_of(mine);
    for (const std::string& path : {mine, testing::TempDir() + "trace.txt"})
        try {
            step.write_trace(path);
            ADD_FAILURE() << path;
        } catch (const Error& error) {
            EXPECT_EQ(error.fault(), Fault::usage) << error.what();
        }
    EXPECT_EQ(content_of(mine), before);
    const std::string other = written("other.json", "[]");
    EXPECT_THROW(step.write_trace(other), Error);
    step.write_trace(other, true);
    EXPECT_NE(content_of(other), "[]");
    try {
        step.write_trace("/nonexistent/trace.orrery");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::storage) << error.what();
    }
}

TEST(Library, SaysWhatIsWrongAsValues) {
    const std::string file = run_file("gpt3-175b-a100x1024");
    const std::vector<std::string> wrong = {"layout.tensor_parallel=3", "layout.schedule=gpip"};
    const Outcome refused = run_with({"simulate", file, "--json"}, wrong);
    ASSERT_EQ(refused.code, 3);
    const Scenario scenario = Scenario::from_file(file, wrong);
    const Json errors = Json::parse(refused.out)["errors"];
    ASSERT_EQ(scenario.diagnostics().size(), errors.size());
    for (std::size_t i = 0; i < errors.size(); ++i) {
        const Diagnostic& one = scenario.diagnostics()[i];
        for (const auto& [key, text] : {std::pair{"code", one.code},
                                        {"file", one.file},
                                        {"pointer", one.pointer},
                                        {"origin", one.origin},
                                        {"message", one.message},
                                        {"arithmetic", one.arithmetic},
                                        {"note", one.note}})
            EXPECT_EQ(text, errors[i].value(key, "")) << key;
        EXPECT_EQ(Json(one.help), errors[i].value("help", Json::array()));
        EXPECT_FALSE(one.value.empty());
    }
    try {
        simulate(scenario);
        ADD_FAILURE();
    } catch (const InvalidScenario& error) {
        EXPECT_EQ(error.what(), refused.err);
        EXPECT_EQ(error.fault(), Fault::invalid_scenario);
        EXPECT_EQ(error.diagnostics().size(), errors.size());
    }
    EXPECT_THROW(scenario.resolved(), InvalidScenario);
    EXPECT_THROW(scenario.text(), InvalidScenario);
    EXPECT_THROW(search(scenario), InvalidScenario);
}

TEST(Library, TellsAMissingFileFromAWrongValue) {
    const Scenario scenario = Scenario::from_file("/nonexistent.json");
    ASSERT_EQ(scenario.diagnostics().size(), 1U);
    try {
        simulate(scenario);
        ADD_FAILURE();
    } catch (const InvalidScenario& error) {
        EXPECT_EQ(error.fault(), Fault::unreadable);
    }
    const Scenario broken = Scenario::from_text("{\n  \"layout\": ]");
    ASSERT_EQ(broken.diagnostics().size(), 1U);
    EXPECT_EQ(broken.diagnostics()[0].line, 2);
    EXPECT_EQ(broken.diagnostics()[0].file, "scenario.json");
}

// A text is its file in another place, and both give way to what is set later.
TEST(Library, ReadsTextsAndOverridesThem) {
    const std::string file = run_file("tiny-gpt");
    const Scenario of_file = Scenario::from_file(file, {"layout.zero_stage=1"});
    const Scenario of_text = Scenario::from_text(content_of(file), {"layout.zero_stage=1"}, file);
    EXPECT_EQ(of_text.resolved(), of_file.resolved());
    EXPECT_EQ(simulate(of_text).json(), simulate(of_file).json());
    const Scenario changed = of_text.with({"layout.zero_stage=2"});
    EXPECT_EQ(Json::parse(changed.resolved())["layout"]["zero_stage"], 2);
    EXPECT_EQ(Json::parse(of_text.resolved())["layout"]["zero_stage"], 1);
    EXPECT_THAT(changed.overrides(),
                ::testing::ElementsAre("layout.zero_stage=1", "layout.zero_stage=2"));
    EXPECT_EQ(Scenario::from_text(changed.text()).diagnostics().size(), 0U);
    EXPECT_EQ(simulate(Scenario::from_text(changed.text())).step_time_s(),
              simulate(changed).step_time_s());
}

TEST(Library, StopsWhenItIsAskedTo) {
    const std::atomic<bool> stop{true};
    const Scenario scenario = Scenario::from_file(run_file("llama2-7b-a100x8"));
    SimulateOptions options;
    options.stop = &stop;
    try {
        simulate(scenario, options);
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::stopped);
    }
    SearchOptions searching;
    searching.stop = &stop;
    EXPECT_TRUE(search(scenario, searching).interrupted());
    // What exceeds memory is asked for changes that make it fit, one simulation after another.
    const Prediction step = simulate(scenario.with({"layout.zero_stage=0"}));
    ASSERT_EQ(step.verdict(), Verdict::exceeds);
    EXPECT_THROW(step.json(&stop), Error);
    EXPECT_THAT(step.json(), HasSubstr("\"fixes\"")) << "and may be asked again";
}

TEST(Library, AnswersSeveralThreadsAtOnce) {
    const Scenario scenario = Scenario::from_file(run_file("tiny-gpt"));
    const Prediction shared = simulate(scenario);
    std::vector<std::string> answers(6);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < answers.size(); ++i)
        threads.emplace_back([&, i] {
            if (i % 2 == 0)
                answers[i] = shared.json();
            else
                answers[i] = simulate(Scenario::from_file(run_file("tiny-gpt"))).json();
        });
    for (std::thread& thread : threads)
        thread.join();
    for (const std::string& answer : answers)
        EXPECT_EQ(answer, shared.json());
}

// The command would time this computer; a library starts no process behind its caller's back.
TEST(Library, MeasuresNothing) {
    const std::string folder = testing::TempDir() + "no-profile-yet";
    std::filesystem::create_directories(folder);
    ASSERT_EQ(setenv("XDG_CACHE_HOME", folder.c_str(), 1), 0);
    testing::internal::CaptureStderr();
    const Scenario scenario =
        Scenario::from_file(run_file("tiny-gpt"), {"cluster.profile=this-machine"});
    EXPECT_THROW(search(scenario), InvalidScenario);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    ASSERT_EQ(unsetenv("XDG_CACHE_HOME"), 0);
    ASSERT_EQ(scenario.diagnostics().size(), 1U);
    EXPECT_THAT(scenario.diagnostics()[0].message + scenario.diagnostics()[0].note,
                HasSubstr("orrery calibrate --this-machine"));
    EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(Library, IsOfTheProgramAndItsTree) {
    EXPECT_TRUE(run({"--version"}).out.starts_with("orrery " + version() + "\n"));
    EXPECT_EQ(library_folder(), std::string(ORRERY_SOURCE_DIR) + "/scenarios");
}

TEST(Library, HeaderIncludesTheStandardLibraryAlone) {
    const std::string header = content_of(std::string(ORRERY_SOURCE_DIR) + "/api/orrery.hpp");
    const std::regex include(R"(\n *# *include *([^\n]*))"), standard(R"(<[a-z_]+>)");
    std::size_t includes = 0;
    for (std::sregex_iterator at(header.begin(), header.end(), include), end; at != end; ++at) {
        EXPECT_TRUE(std::regex_match((*at)[1].str(), standard)) << (*at)[1];
        ++includes;
    }
    EXPECT_GT(includes, 5U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery
