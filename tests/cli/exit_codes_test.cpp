// One class of failure, one exit code; stdout holds data only.
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/build_facts.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/native.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using testing::TempDir;

void expect_usage_error(const std::vector<std::string>& args, const std::string& message) {
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.out, "") << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
}

TEST(ExitCodes, UsageIs2) {
    expect_usage_error({}, "Examples:");
    expect_usage_error({"simulat", "x"}, "unknown subcommand 'simulat'; did you mean 'simulate'?");
    expect_usage_error({"frobnicate"}, "unknown subcommand 'frobnicate'\n");
    expect_usage_error({"--verson"}, "unknown option '--verson'; did you mean '--version'?");
    expect_usage_error({"simulate"}, "FILE is required");
    expect_usage_error({"simulate", tiny(), "--jsn"},
                       "unknown option '--jsn'; did you mean '--json'?");
    expect_usage_error({"simulate", tiny(), "--jsn=1"}, "unknown option '--jsn'");
    expect_usage_error({"simulate", tiny(), "more"}, "'more' is one argument too many");
    expect_usage_error({"simulate", tiny(), "--set"}, "--set");
    expect_usage_error({"simulate", tiny(), "--set", "layout"}, "--set layout: KEY=VALUE");
    expect_usage_error({"simulate", tiny(), "--json", "--timeline"}, "exclude each other");
    expect_usage_error({"simulate", tiny(), "--trace", "x.txt"},
                       "--trace x.txt: the name must end in .orrery, .pftrace or .json");
    expect_usage_error({"simulate", "no such file", "--trace", ".orrery"}, "must end in .orrery");
    expect_usage_error({"convert", "no such file", "x.trace"},
                       "x.trace: the name must end in .orrery, .pftrace or .json");
    expect_usage_error({"convert", "x.orrery"}, "OUT is required");
    expect_usage_error({"plan", tiny(), "--rank", "8"}, "--rank 8: this layout has ranks 0 to 7");
    expect_usage_error({"plan", tiny(), "--rank", "-1"}, "--rank -1: this layout has ranks 0 to 7");
    expect_usage_error({"plan", tiny(), "--rank", "first"}, "--rank");
    expect_usage_error({"fit", "sheet.json"}, "one of --output and --transfer-from is required");
    expect_usage_error({"fit", "sheet.json", "--output", "x.json", "--transfer-from", "y.json"},
                       "one of --output and --transfer-from is required");
}

TEST(ExitCodes, WhatFollowsTwoDashesAreFiles) {
    EXPECT_EQ(run({"simulate", "--", tiny()}).out, run({"simulate", tiny()}).out);
    const Outcome twice = run({"simulate", "--", tiny(), "--json"});
    EXPECT_EQ(twice.code, 2);
    EXPECT_NE(twice.err.find("'--json' is one argument too many"), std::string::npos) << twice.err;
}

TEST(ExitCodes, ARangeIsSaidToTheEndThatWasLeft) {
    const auto said = [](const std::string& tokens) {
        return run({"simulate", tiny(), "--set", "training.tokens=" + tokens}).err;
    };
    EXPECT_NE(said("1e308").find("at least 0 and at most 1e+30\n"), std::string::npos);
    EXPECT_NE(said("-1").find("at least 0\n"), std::string::npos);
}

TEST(ExitCodes, InvalidScenarioIs3WithAllErrors) {
    const std::vector<std::string> args = {
        "simulate", tiny(), "--set", "layout.tensor_paralel=2", "--set", "training.precision=int8"};
    const Outcome text = run(args);
    EXPECT_EQ(text.code, 3);
    EXPECT_EQ(text.out, "");
    EXPECT_NE(text.err.find("2 errors; nothing was run."), std::string::npos) << text.err;

    std::vector<std::string> with_json = args;
    with_json.push_back("--json");
    const Outcome both = run(with_json);
    EXPECT_EQ(both.code, 3);
    EXPECT_EQ(both.err, text.err);
    const nlohmann::json errors = nlohmann::json::parse(both.out)["errors"];
    ASSERT_EQ(errors.size(), 2u);
    for (const nlohmann::json& error : errors)
        for (const char* key : {"code", "file", "pointer", "origin", "message"})
            EXPECT_TRUE(error.contains(key)) << key;
    EXPECT_EQ(run({"plan", tiny(), "--set", "layout.zero_stage=7"}).code, 3);
}

TEST(ExitCodes, DoesNotFitIs4WithTheResult) {
    // 32 sequences at once need 32 times the activations, some 3 GB each of 1 GB devices.
    const std::vector<std::string> args = {"simulate",
                                           tiny(),
                                           "--json",
                                           "--set",
                                           "layout.micro_batch_size=32",
                                           "--set",
                                           "layout.global_batch_size=64"};
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, 4);
    const nlohmann::json result = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(result["memory"]["fits"], false);
    EXPECT_EQ(result["memory"]["verdict"], "exceeds");
    EXPECT_LT(result["memory"]["fit_probability"], 0.5);
    EXPECT_GT(result["step"]["time_s"], 0);
    EXPECT_NE(outcome.err, "");
}

TEST(ExitCodes, UnreadableIs5) {
    EXPECT_EQ(run({"simulate", TempDir() + "nowhere.json"}).code, 5);
    EXPECT_EQ(run({"simulate", written("not_json.json", "{ \"model\": ")}).code, 5);
    EXPECT_EQ(run({"simulate", tiny(), "--set", "model=models/nowhere.json"}).code, 5);
    EXPECT_EQ(run({"plan", TempDir() + "nowhere.json"}).code, 5);
    const Outcome fit = run({"fit", TempDir() + "nowhere.json", "--output", TempDir() + "x.json"});
    EXPECT_EQ(fit.code, 5);
    EXPECT_NE(fit.err.find("nowhere.json"), std::string::npos) << fit.err;
}

TEST(ExitCodes, BrokenProfileIs5) {
    const std::string profile =
        written("broken_profile.json", replaced(content_of(folder() + "tiny-profile.json"),
                                                "\"t0_us\": 5", "\"t0_us\": \"five\""));
    const Outcome outcome =
        run({"simulate", tiny(), "--json", "--set", "cluster.profile=" + profile});
    EXPECT_EQ(outcome.code, 5);
    EXPECT_NE(outcome.err.find("t0_us"), std::string::npos) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["errors"].size(), 1u);
}

// Before any work: a search takes minutes.
TEST(ExitCodes, AnOutputWithoutAFolderIs8BeforeAnyWork) {
    const std::string nowhere = TempDir() + "no_such_folder/";
    for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
             {"simulate", tiny(), "--trace", nowhere + "step.orrery"},
             {"simulate", tiny(), "--csv", nowhere + "one.csv", "--table", "summary"},
             {"search", tiny(), "--write", nowhere + "best.json"},
             {"plan", tiny(), "-o", nowhere + "step.plan"},
             {"report", tiny(), "-o", nowhere + "step.html"}}) {
        const Outcome outcome = run(args);
        EXPECT_EQ(outcome.code, 8) << args[0];
        EXPECT_EQ(outcome.out, "") << args[0];
        EXPECT_NE(outcome.err.find("cannot be created: there is no folder " + TempDir() +
                                   "no_such_folder"),
                  std::string::npos)
            << outcome.err;
    }
    const std::string made = TempDir() + "tables_made/of_one/";
    EXPECT_EQ(run({"simulate", tiny(), "--csv", made}).code, 0) << "its folders are made";
}

TEST(ExitCodes, AScenarioFromStandardInputIsThatOfItsFile) {
    std::istringstream text(content_of(tiny()));
    std::istringstream wrong(replaced(content_of(tiny()), "\"layout\"", "\"layuot\""));
    std::streambuf* const before = std::cin.rdbuf(text.rdbuf());
    const auto old_folder = std::filesystem::current_path();
    std::filesystem::current_path(folder());  // its references are from here
    const Outcome piped = run({"simulate", "-", "--set", "layout.micro_batch_size=1", "--json"});
    std::cin.rdbuf(wrong.rdbuf());
    const Outcome misspelt = run({"explain", "-"});
    std::cin.rdbuf(before);
    std::filesystem::current_path(old_folder);
    EXPECT_EQ(piped.code, 0) << piped.err;
    const auto step_of = [](const std::string& json) {
        return nlohmann::json::parse(json)["step"];
    };
    EXPECT_EQ(
        step_of(piped.out),
        step_of(run({"simulate", tiny(), "--set", "layout.micro_batch_size=1", "--json"}).out));
    EXPECT_EQ(misspelt.code, 3);
    EXPECT_NE(misspelt.err.find("--> -:/layuot"), std::string::npos) << misspelt.err;
}

TEST(ExitCodes, ATraceIsNoScenarioAndSaysWhoTakesIt) {
    const std::string trace = TempDir() + "no_scenario.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--trace", trace}).code, 0);
    const Outcome outcome = run({"explain", trace});
    EXPECT_EQ(outcome.code, 5);
    EXPECT_NE(outcome.err.find("this is no text; a trace is taken by orrery compare"),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.err.find("quotation marks"), std::string::npos) << outcome.err;
}

TEST(ExitCodes, HelpIsAWordAsWell) {
    EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
    EXPECT_EQ(run({"help"}).code, 0);
    EXPECT_EQ(run({"help", "simulate"}).out, run({"simulate", "--help"}).out);
    EXPECT_NE(run({"help", "simulate"}).out.find("Usage: orrery simulate"), std::string::npos);
    // Not the help of all, as if it had been asked for.
    expect_usage_error({"help", "simulat"}, "unknown subcommand 'simulat'; did you mean");
    expect_usage_error({"simulat", "--help"}, "unknown subcommand 'simulat'; did you mean");
}

TEST(ExitCodes, AListOfNothingSaysWhatThereIs) {
    expect_usage_error({"list"}, "of what? one of models, clusters, profiles, frameworks");
    expect_usage_error({"list", "gpus"}, "gpus: one of models, clusters, profiles, frameworks");
    const Outcome none = run({"list", "models", "llama3-80b"});
    EXPECT_EQ(none.code, 0);
    EXPECT_NE(none.err.find("none of the models has 'llama3-80b' in its name; nearest: llama3-"),
              std::string::npos)
        << none.err;
}

TEST(ExitCodes, UnwritableProfileIs8) {
    // A profile without "tables" to fit is written as it stands.
    const std::string sheet =
        written("sheet.json", "{\"tables\": {\"system\": \"none\"}, " +
                                  content_of(folder() + "tiny-profile.json").substr(1));
    const Outcome good = run({"fit", sheet, "--output", TempDir() + "fitted.json"});
    EXPECT_EQ(good.code, 0) << good.err;
    const Outcome bad = run({"fit", sheet, "--output", TempDir() + "no_such_folder/fitted.json"});
    EXPECT_EQ(bad.code, 8);
    EXPECT_NE(bad.err.find("no_such_folder"), std::string::npos) << bad.err;
}

TEST(ExitCodes, UnwritableOutputIs8) {
    std::ofstream out(TempDir() + "no_such_folder/out");
    std::ostringstream err;
    EXPECT_EQ(run_cli({"simulate", tiny()}, {out, err}), 8);
    EXPECT_NE(err.str(), "");
}

TEST(ExitCodes, VersionIs0) {
    const Outcome outcome = run({"--version"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(outcome.out.starts_with(tool_name() + "\n")) << outcome.out;
    EXPECT_EQ(outcome.out, build_facts_text(build_facts()) + "\n");
}

TEST(Simulate, WritesATraceOfTheStep) {
    const std::string path = TempDir() + "step.orrery";
    const Outcome outcome = run({"simulate", tiny(), "--json", "--trace", path});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json result = nlohmann::json::parse(outcome.out);
    const trace::Trace trace = trace::read_native(path);
    EXPECT_EQ(static_cast<double>(trace.step_end - trace.step_start) / 1e12,
              result["step"]["time_s"].get<double>());
    std::int64_t ranks = 0;
    for (const trace::Track& track : trace.tracks)
        ranks += track.represents();
    EXPECT_EQ(ranks, 8);
}

// A suggested setting takes the place of the user's for the same key.
// What was set for a key that the suggestion changes is left out, the rest is repeated.
TEST(Simulate, SuggestsCommandsThatMakeALayoutFit) {
    const std::string out = run({"simulate", tiny(), "--set", "layout.micro_batch_size=32", "--set",
                                 "layout.global_batch_size=64", "--set", "layout.recompute=none"})
                                .out;
    const std::size_t section = out.find("\nto make it fit");
    ASSERT_NE(section, std::string::npos) << out;
    std::istringstream lines(out.substr(section, out.find("\nnext") - section));
    int commands = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("  orrery simulate ", 0) != 0) continue;
        ++commands;
        std::istringstream words(line.substr(std::string("  orrery ").size()));
        std::vector<std::string> args;
        std::map<std::string, int> keys;
        for (std::string word; words >> word; args.push_back(word))
            if (!args.empty() && args.back() == "--set") ++keys[word.substr(0, word.find('='))];
        for (const auto& [key, count] : keys)
            EXPECT_EQ(count, 1) << key << " in " << line;
        EXPECT_EQ(keys.count("layout.global_batch_size"), 1u) << line;
        EXPECT_EQ(run(args).code, 0) << line;
    }
    EXPECT_GT(commands, 0) << out;
}

// Ranks 0 to 3 are pipeline rank 0, ranks 4 to 7 pipeline rank 1.
TEST(Plan, OfARankIsThatOfItsPipelineRank) {
    const auto plan_of = [](const char* rank) { return run({"plan", tiny(), "--rank", rank}).out; };
    EXPECT_EQ(plan_of("0"), plan_of("3"));
    EXPECT_EQ(plan_of("4"), plan_of("7"));
    EXPECT_NE(plan_of("3"), plan_of("4"));
    EXPECT_EQ(run({"plan", tiny()}).out, run({"plan", tiny(), "--text"}).out);
}

TEST(Plan, AsJson) {
    const Outcome outcome = run({"plan", tiny(), "--json"});
    ASSERT_EQ(outcome.code, 0);
    const nlohmann::json plan = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(plan["mesh"]["pipeline"], 2);
    EXPECT_EQ(plan["programs"].size(), 2u);
}

// What only shows when ops are priced is said as any fault of a scenario is.
TEST(ExitCodes, FaultsThatPricingFindsHaveACodeAndAPlace) {
    const struct {
        std::vector<std::string> sets;
        std::string code, pointer;
    } all[] = {
        {{"training.precision=fp8", "training.fp8_recipe=mxfp8"}, "S063", "/training/fp8_recipe"},
        {{"cluster.inter_node.bandwidth_Gbps=1e-6"}, "S064", "/cluster/inter_node"},
        {{"cluster.intra_node.bandwidth_GBps=1e-9"}, "S064", "/cluster/intra_node"}};
    for (const auto& one : all) {
        std::vector<std::string> args = {
            "simulate", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/llama3-70b-h100x256.json",
            "--json"};
        for (const std::string& set : one.sets)
            args.insert(args.end(), {"--set", set});
        const Outcome outcome = run(args);
        EXPECT_EQ(outcome.code, 3) << outcome.err;
        EXPECT_NE(outcome.err.find("error[" + one.code + "]"), std::string::npos) << outcome.err;
        const auto error = nlohmann::json::parse(outcome.out)["errors"][0];
        EXPECT_EQ(error["code"], one.code);
        EXPECT_EQ(error["pointer"], one.pointer);
        EXPECT_EQ(error["file"], args[1]);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
