// No command destroys what it did not write: every output of every subcommand of both programs,
// against every file that the command reads, by every name, and against files of every kind.
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/run/run_performing.hpp"
#include "tests/calib/fit/nccl_output.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

namespace fs = std::filesystem;

constexpr const char* kNotes = "what nobody has twice\n";

// A subcommand as its program declares it.
struct Declared {
    std::unique_ptr<CLI::App> app = std::make_unique<CLI::App>();
    std::unique_ptr<Subcommand> subcommand;
    bool performs = false;  // of orrery-run

    const std::vector<const CLI::Option*> outputs() const { return subcommand->files().outputs(); }
};

Declared declare(std::unique_ptr<Subcommand> subcommand, bool performs = false) {
    Declared declared;
    declared.subcommand = std::move(subcommand);
    declared.subcommand->declare(*declared.app);
    declared.performs = performs;
    return declared;
}

std::vector<Declared> all_subcommands() {
    std::vector<Declared> all;
    for (auto& subcommand : predicting_program().subcommands)
        all.push_back(declare(std::move(subcommand)));
    for (auto& subcommand : performing_program().subcommands)
        all.push_back(declare(std::move(subcommand), true));
    return all;
}

// Options whose value may be a path, of which nobody has said whether it is read or written.
std::set<std::string> unguarded(const Declared& declared) {
    static const std::set<std::string> no_paths = {
        "N",    "NAME",      "SECONDS",    "COMMAND",        "TOOL", "UINT",
        "INT",  "KEY=VALUE", "KEY=VALUES", "KEY=PRIOR[:SD]", "KEY",  "P",
        "WORD", "VALUES",    "LIST",       "TIME",           "USD",  "PERCENT",
    };
    std::set<std::string> names;
    for (const CLI::Option* option : declared.app->get_options()) {
        if (option->get_items_expected_max() == 0) continue;  // a flag
        std::string type = option->get_option_text();
        // Checks stand behind a colon.
        if (type.empty()) {
            type = option->get_type_name();
            type.resize(std::min(type.size(), type.find(':')));
        }
        if (no_paths.count(type) > 0) continue;
        names.insert(option->get_name());
    }
    for (const auto& options :
         {declared.subcommand->files().inputs(), declared.subcommand->files().outputs()})
        for (const CLI::Option* option : options)
            names.erase(option->get_name());
    return names;
}

// What forgets the guard.
class Careless : public Subcommand {
  public:
    std::string name() const override { return "careless"; }
    std::string summary() const override { return ""; }
    Words examples() const override { return {}; }
    void declare(CLI::App& app) override {
        app.add_option("--csv", path_, "A file to write");
        app.add_option("--table", path_, "A file to write")->type_name("FILE");
        app.add_option("--top", top_, "A number")->type_name("N");
    }
    int run(Console&) override { return 0; }

  private:
    std::string path_;
    int top_ = 0;
};

// A command line that is right, all of whose files are its own.
struct Case {
    std::string subcommand;
    Words words;                                 // without outputs
    std::map<std::string, std::string> outputs;  // by option, a name for each
    std::string own;                             // the sample that is of its kind
    Words reads;                                 // every file, also those that others name
    bool can_be_run = true;                      // here and in a moment
};

class Outputs : public testing::Test {
  protected:
    Outputs() {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }

    std::string at(const std::string& name) const { return folder_ + name; }

    void write(const std::string& name, const std::string& text) const {
        fs::create_directories(fs::path(at(name)).parent_path());
        std::ofstream(at(name), std::ios::binary) << text;
    }
    static std::string shipped(const std::string& name) {
        return content_of(std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name);
    }

    // In this process; what refuses does no work.
    Outcome refused(const Case& each, const Words& outputs) const {
        Words words = {each.subcommand};
        words.insert(words.end(), each.words.begin(), each.words.end());
        words.insert(words.end(), outputs.begin(), outputs.end());
        std::ostringstream out, err;
        const int code =
            performs(each) ? run_performing(words, {out, err}) : run_cli(words, {out, err});
        return {code, out.str(), replaced(err.str(), folder_, "")};
    }
    // As a program.
    int performed(const Case& each, Words outputs) const {
        std::string command = program(performs(each) ? "orrery-run" : "orrery");
        outputs.insert(outputs.begin(), each.words.begin(), each.words.end());
        outputs.insert(outputs.begin(), each.subcommand);
        for (const std::string& word : outputs)
            command += " '" + word + "'";
        const std::string told = at("told");
        const int status = std::system((command + " >" + told + " 2>&1").c_str());
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        EXPECT_TRUE(code == 0 || code == 2) << command << '\n' << content_of(told);
        return code;
    }

    static bool performs(const Case& each) {
        for (const auto& subcommand : performing_program().subcommands)
            if (subcommand->name() == each.subcommand) return true;
        return false;
    }

    // All of a case's outputs, that of `option` at `path`.
    Words outputs(const Case& each, const std::string& option, const std::string& path) const {
        Words words;
        for (const auto& [name, usual] : each.outputs) {
            if (name.front() == '-') words.push_back(name);
            words.push_back(name == option ? path : at(usual));
        }
        return words;
    }

    std::string folder_ = testing::TempDir() + "outputs/";
    // A scenario whose parts are files, that CPU ranks train.
    void write_scenario() const {
        json scenario = json::parse(shipped("runs/tiny-gpt.json"));
        json cluster = json::parse(shipped("clusters/cpu-8.json"));
        write("parts/profile.json", shipped(cluster["profile"]));
        cluster["profile"] = "profile.json";
        write("parts/cluster.json", cluster.dump());
        write("parts/model.json", shipped(scenario["model"]));
        write("parts/framework.json", shipped("frameworks/orrery.json"));
        write("parts/text.txt", shipped(scenario["run"]["data"]));
        scenario["model"] = "parts/model.json";
        scenario["cluster"] = "parts/cluster.json";
        scenario["training"]["framework"] = "parts/framework.json";
        scenario["run"] = {{"data", "parts/text.txt"}, {"steps", 1}};
        scenario["layout"] = {{"data_parallel", 1}, {"global_batch_size", 2}};
        write("run.json", scenario.dump());
        write("experts.json", content_of(tiny_experts()));
        write("counts.json", "[[3, 1, 2, 2, 0, 0, 1, 1]]");
    }
    const Words kOfScenario = {"run.json",           "parts/model.json",     "parts/cluster.json",
                               "parts/profile.json", "parts/framework.json", "parts/text.txt"};

    // A file of each kind that commands write, and some that people do, by name.
    void write_samples() const {
        for (const char* ending : {"orrery", "pftrace", "json"})
            ASSERT_EQ(
                run({"simulate", tiny(), "--trace", at(fmt::format("trace.{}", ending))}).code, 0);
        ASSERT_EQ(run({"plan", tiny(), "--output", at("plan")}).code, 0);
        ASSERT_EQ(run({"sweep", tiny(), "--vary", "layout.zero_stage=0,1", "--svg", at("chart.svg"),
                       "--csv", at("table.csv")})
                      .code,
                  0);
        ASSERT_EQ(
            run({"simulate", tiny(), "--csv", at("breakdown.csv"), "--table", "breakdown"}).code,
            0);
        ASSERT_EQ(run({"report", tiny(), "-o", at("page.html")}).code, 0);
        ASSERT_EQ(run({"simulate", tiny(), "--memory-snapshot", at("memory.pickle")}).code, 0);
        ASSERT_EQ(run({"launch", tiny(), "--for", "megatron", "-o", at("launched.sh")}).code, 0);
        write("scenario", content_of(tiny()));
        write("profile", content_of(folder() + "tiny-profile.json"));
        write("datasheet", shipped("profiles/sources/a100-40gb-sxm.datasheet.json"));
        write("model", shipped("models/llama2-7b.json"));
        write("cluster", shipped("clusters/cpu-8.json"));
        write("another trace", R"({"traceEvents": [], "displayTimeUnit": "ms"})");
        write("script", content_of(folder() + "imports/gpt3-175b.sh"));
        write("notes", kNotes);
        ASSERT_EQ(
            run({"watch", at("events.jsonl"), "--once", "--metrics", at("metrics.prom")}).code, 0);
    }
    const Words kSamples = {"trace.orrery",  "trace.pftrace", "trace.json",   "scenario",
                            "profile",       "datasheet",     "model",        "cluster",
                            "another trace", "script",        "notes",        "plan",
                            "chart.svg",     "table.csv",     "page.html",    "launched.sh",
                            "memory.pickle", "metrics.prom",  "breakdown.csv"};

    std::vector<Case> cases() const;
};

std::vector<Case> Outputs::cases() const {
    std::vector<Case> all;
    Words of_scenario = kOfScenario;
    of_scenario.push_back("costs.json");
    for (const char* ending : {"orrery", "pftrace", "json"})
        all.push_back({"simulate",
                       {at("run.json"), "--costs", at("costs.json")},
                       {{"--trace", fmt::format("out.{}", ending)}},
                       fmt::format("trace.{}", ending),
                       of_scenario});
    all.push_back({"simulate",
                   {at("run.json"), "--plan", at("run.plan")},
                   {{"--trace", "out.orrery"}},
                   "trace.orrery",
                   {"run.json", "parts/cluster.json", "parts/profile.json", "run.plan"}});
    const Words counted = {at("experts.json"), "--routing", at("counts.json")};
    const Words of_counted = {"experts.json", "counts.json"};
    all.push_back({"simulate", counted, {{"--trace", "out.orrery"}}, "trace.orrery", of_counted});
    all.push_back({"report", counted, {{"--output", "out.html"}}, "page.html", of_counted});
    Words of_recorded = kOfScenario;
    of_recorded.push_back("recorded.json");
    for (const char* ending : {"orrery", "pftrace", "json"})
        all.push_back(
            {"import-trace",
             {at("recorded.json"), "--scenario", at("run.json")},
             {{"--output", fmt::format("out.{}", ending)}, {"--csv", "tables of import-trace"}},
             fmt::format("trace.{}", ending),
             of_recorded});
    all.push_back({"import-trace",
                   {at("step.json.gz")},
                   {{"--infer-scenario", "out.json"}},
                   "scenario",
                   {"step.json.gz"}});
    all.push_back({"simulate",
                   {at("run.json")},
                   {{"--memory-snapshot", "out.pickle"}},
                   "memory.pickle",
                   kOfScenario});
    all.push_back({"launch",
                   {at("run.json"), "--for", "megatron"},
                   {{"--output", "out.sh"}, {"--csv", "tables of launch"}},
                   "launched.sh",
                   kOfScenario});
    all.push_back({"plan", {at("run.json")}, {{"--output", "out.plan"}}, "plan", kOfScenario});
    Words of_watched = kOfScenario;
    of_watched.push_back("events.jsonl");
    all.push_back({"watch",
                   {at("events.jsonl"), "--once", "--scenario", at("run.json")},
                   {{"--metrics", "out.prom"}},
                   "metrics.prom",
                   of_watched});
    all.push_back({"plan",
                   {at("run.json"), "--durations", at("costs.json")},
                   {{"--chakra", "nodes"}},
                   "",
                   of_scenario});
    all.push_back({"simulate",
                   {at("run.json"), "--costs", at("costs.json")},
                   {{"--chakra", "nodes"}},
                   "",
                   of_scenario});
    all.push_back({"search",
                   {at("run.json"), "--vary", "layout.zero_stage=0,1"},
                   {{"--write", "out.json"}, {"--csv", "tables of search"}},
                   "scenario",
                   kOfScenario});
    all.push_back({"init",
                   {at("parts/llama.json"), "--cluster", at("parts/a100.json"), "--gpus", "8",
                    "--global-batch", "8"},
                   {{"--output", "out.json"}},
                   "scenario",
                   {"parts/llama.json", "parts/a100.json"}});
    all.push_back(
        {"report", {at("run.json")}, {{"--output", "out.html"}}, "page.html", kOfScenario});
    for (const auto& [option, path, kind] :
         {std::tuple{"--svg", "out.svg", "chart.svg"}, std::tuple{"--csv", "out.csv", "table.csv"}})
        all.push_back({"sweep",
                       {at("run.json"), "--vary", "layout.zero_stage=0,1"},
                       {{option, path}},
                       kind,
                       kOfScenario});
    all.push_back({"size",
                   {at("run.json"), "--tokens", "1e6", "--gpus", "8", "--set",
                    "layout.tensor_parallel=auto", "--set", "layout.global_batch_size=8"},
                   {{"--svg", "out.svg"}, {"--csv", "tables of size"}},
                   "chart.svg",
                   kOfScenario});
    all.push_back({"train",
                   {at("run.json"), "--plan", at("run.plan")},
                   {{"--trace", "out.json"}},
                   "trace.json",
                   {"run.json", "parts/profile.json", "parts/text.txt", "run.plan"}});
    all.push_back(
        {"convert", {at("costs.json")}, {{"OUT", "out.json"}}, "trace.json", {"costs.json"}});
    all.push_back({"fit",
                   {at("sources/sheet.json"), "--gemm", at("gemm.csv"), "--attention",
                    at("attention.csv"), "--collectives", at("collectives.csv")},
                   {{"--output", "out.json"}},
                   "profile",
                   {"sources/sheet.json", "a100-80gb-sxm.json", "gemm.csv", "attention.csv",
                    "collectives.csv"}});
    all.push_back({"import",
                   {at("ds.json"), "--model", at("parts/llama.json"), "--cluster",
                    at("parts/a100.json"), "--gpus", "8", "--set", "training.sequence_length=4096",
                    "--set", "training.framework=orrery"},
                   {{"--output", "out.json"}, {"--csv", "tables of import"}},
                   "scenario",
                   {"ds.json", "parts/llama.json", "parts/a100.json"}});
    all.push_back({"train",
                   {at("run.json"), "--expect", at("costs.json")},
                   {{"--trace", "out.json"}, {"--flight-record", "records"}},
                   "trace.json",
                   of_scenario});
    all.push_back({"export",
                   {at("saved")},
                   {{"--hf", "exported"}},
                   "",
                   {"saved", "saved/step-00000001", "saved/step-00000001/manifest.json"}});
    all.push_back({"calibrate",
                   {"--import", at("all_reduce.txt"), "--profile", at("h100.json")},
                   {{"--output", "out.json"}},
                   "profile",
                   {"all_reduce.txt", "h100.json"}});
    all.push_back({"calibrate",
                   {"--backend", "cuda", "--base", at("h100.json")},
                   {{"--output", "out.json"}},
                   "profile",
                   {"h100.json"},
                   false});
    all.push_back({"calibrate",
                   {"--backend", "cuda", "--ranks", "2", "--base", at("h100.json"), "--output",
                    at("calibrated.json")},
                   {{"--nccl-tests", "table.txt"}},
                   "all_reduce.txt",
                   {"h100.json"},
                   false});
    all.push_back({"simulate",
                   {at("run.json"), "--table", "breakdown"},
                   {{"--csv", "out.csv"}},
                   "breakdown.csv",
                   kOfScenario});
    // Tables alone, into a folder.
    const auto tables = [&](const char* subcommand, const Words& words, Words reads) {
        all.push_back({subcommand,
                       words,
                       {{"--csv", std::string("tables of ") + subcommand}},
                       "",
                       std::move(reads)});
    };
    tables("explain", {at("run.json"), "--costs", at("costs.json")}, of_scenario);
    tables("explain", counted, of_counted);
    tables("goodput", {at("run.json")}, kOfScenario);
    tables("diff", {at("run.json"), at("run.json")}, kOfScenario);
    tables("compare", {at("run.json"), at("costs.json"), "--costs", at("costs.json")}, of_scenario);
    tables("jobs", {at("jobs.json")}, {"jobs.json"});
    tables("list", {"models"}, {});
    tables("validate", {at("records.json")}, {"records.json"});
    tables("constants", {at("records.json"), "--constant", "training.launch_us=20"},
           {"records.json"});
    tables("hang", {at("dump.json")}, {"dump.json"});
    tables("doctor", {}, {});
    tables("calibrate", {"--runs", at("records.json")}, {"records.json"});
    tables("calibrate", {"--from-trace", at("costs.json")}, {"costs.json"});
    // Onto a table that is read.
    all.push_back({"fit",
                   {at("sources/sheet.json"), "--gemm", at("gemm.csv"), "--table", "families"},
                   {{"--csv", "out.csv"}},
                   "",
                   {"sources/sheet.json", "a100-80gb-sxm.json", "gemm.csv"}});
    // Their inputs.
    write_scenario();
    write("jobs.json", shipped("jobs/four-7b-on-64-nodes.json"));
    write("records.json", "[]");
    write("dump.json", "{}");
    write("sources/sheet.json", shipped("profiles/sources/a100-40gb-sxm.datasheet.json"));
    write("a100-80gb-sxm.json", shipped("profiles/a100-80gb-sxm.json"));
    for (const char* table : {"gemm.csv", "attention.csv", "collectives.csv"})
        write(table, "asked for by no sheet\n");
    write("ds.json", content_of(folder() + "imports/llama2-7b-zero3.json"));
    write("parts/llama.json", shipped("models/llama2-7b.json"));
    write("parts/a100.json", shipped("clusters/a100-80gb-sxm-8.json"));
    write("all_reduce.txt", fit::NcclMachine().table());
    write("h100.json", shipped("profiles/h100-sxm.json"));
    EXPECT_EQ(run({"plan", at("run.json"), "--output", at("run.plan")}).code, 0);
    const Case train{"train", {at("run.json")}, {}, "", {}};
    write("events.jsonl", R"({"event": "end", "interrupted": false, "step": 1})"
                          "\n");
    write("step.json.gz",
          content_of(std::string(ORRERY_SOURCE_DIR) + "/tests/calib/compare/traces/gpt-1.json.gz"));
    write("recorded.json",
          R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
              "ts": 0, "dur": 10}]})");
    performed(train, {"--trace", at("costs.json"), "--set",
                      "run.checkpoint={\"path\": \"" + at("saved") + "\", \"every_steps\": 1}"});
    return all;
}

TEST_F(Outputs, NoOptionNamesAFileThatNobodyGuards) {
    for (const Declared& declared : all_subcommands())
        EXPECT_EQ(unguarded(declared), std::set<std::string>{}) << declared.subcommand->name();
    EXPECT_EQ(unguarded(declare(std::make_unique<Careless>())),
              (std::set<std::string>{"--csv", "--table"}));
}

// Where the option is given the command has none of these: it prints, and writes nothing.
bool excludes_all(const CLI::Option& option, const std::vector<const CLI::Option*>& outputs) {
    const std::set<CLI::Option*> excluded = option.get_excludes();
    return std::all_of(outputs.begin(), outputs.end(), [&](const CLI::Option* output) {
        return std::find(excluded.begin(), excluded.end(), output) != excluded.end();
    });
}

TEST_F(Outputs, EachIsInTheCasesAndEachInputOfTheirCommandsToo) {
    const std::vector<Case> all = cases();
    for (const Declared& declared : all_subcommands()) {
        std::set<std::string> tried;
        for (const Case& each : all)
            if (each.subcommand == declared.subcommand->name()) {
                for (const auto& [option, path] : each.outputs)
                    tried.insert(option);
                tried.insert(each.words.begin(), each.words.end());
            }
        for (const CLI::Option* option : declared.outputs())
            EXPECT_TRUE(tried.count(option->get_name()) > 0)
                << declared.subcommand->name() << ' ' << option->get_name();
        if (declared.outputs().empty()) continue;
        for (const CLI::Option* option : declared.subcommand->files().inputs()) {
            if (option->get_positional() || option->get_name() == "--transfer-from") continue;
            if (excludes_all(*option, declared.outputs())) continue;
            EXPECT_TRUE(tried.count(option->get_name()) > 0)
                << declared.subcommand->name() << ' ' << option->get_name();
        }
    }
}

// By its own name, by a symbolic link and by a hard one.
TEST_F(Outputs, NeverGoOntoAnInput) {
    std::string said;
    for (const Case& each : cases())
        for (const auto& [option, usual] : each.outputs)
            for (const std::string& read : each.reads) {
                const fs::path link = at("link" + fs::path(usual).extension().string());
                const auto now = [&] {
                    return fs::is_directory(at(read)) ? "" : content_of(at(read));
                };
                const std::string before = now();
                for (const char* by : {"itself", "symbolic", "hard"}) {
                    SCOPED_TRACE(fmt::format("{} {} {} {}", each.subcommand, option, read, by));
                    std::string path = at(read);
                    fs::remove(link);
                    if (*by == 's') fs::create_symlink(path, link);
                    if (*by == 'h') {
                        if (fs::is_directory(path)) continue;
                        fs::create_hard_link(path, link);
                    }
                    if (*by != 'i') path = link;
                    const Outcome outcome = refused(each, outputs(each, option, path));
                    EXPECT_EQ(outcome.code, 2);
                    EXPECT_EQ(outcome.out, "");
                    EXPECT_TRUE(now() == before);
                    EXPECT_THAT(outcome.err, testing::AnyOf(HasSubstr("is read; --force"),
                                                            HasSubstr("must end in"),
                                                            HasSubstr("is a file, not a folder"),
                                                            HasSubstr("is a folder, not a file")));
                    if (*by != 's' && usual.ends_with(".json"))
                        said += outcome.err.substr(0, outcome.err.find('\n') + 1);
                    fs::remove(link);
                }
            }
    expect_golden("outputs_onto_inputs.txt", said);
}

TEST_F(Outputs, GoOntoTheirOwnKindAlone) {
    write_samples();
    std::string said;
    for (const Case& each : cases()) {
        if (each.own.empty()) continue;  // of a folder
        const auto& [option, usual] = *each.outputs.rbegin();
        const auto with = [&](const std::string& sample) {
            fs::copy_file(at(sample), at(usual), fs::copy_options::overwrite_existing);
            return outputs(each, option, at(usual));
        };
        for (const std::string& sample : kSamples) {
            SCOPED_TRACE(fmt::format("{} {} {}", each.subcommand, usual, sample));
            if (sample == each.own) continue;
            const Outcome outcome = refused(each, with(sample));
            EXPECT_EQ(outcome.code, 2);
            EXPECT_EQ(outcome.out, "");
            EXPECT_THAT(outcome.err, HasSubstr("exists, and is no "));
            EXPECT_TRUE(content_of(at(usual)) == content_of(at(sample)));
            if (sample == "notes") said += outcome.err;
        }
        if (!each.can_be_run) continue;
        SCOPED_TRACE(each.subcommand);
        EXPECT_EQ(performed(each, with(each.own)), 0);
        EXPECT_FALSE(content_of(at(usual)) == content_of(at(each.own)));
        const std::string written = content_of(at(usual));
        Words forced = with("notes");
        forced.push_back("--force");
        EXPECT_EQ(performed(each, forced), 0);
        EXPECT_EQ(content_of(at(usual)).substr(0, 20), written.substr(0, 20));
        write(usual, "");  // as mktemp leaves it: there is nothing to lose
        EXPECT_EQ(performed(each, outputs(each, option, at(usual))), 0);
    }
    expect_golden("outputs_of_other_kinds.txt", said);
}

// Those that no option names, too.
TEST_F(Outputs, GoIntoNoFolderOfOthers) {
    const std::vector<Case> all = cases();
    const auto of = [&](const char* subcommand) {
        return *std::find_if(all.begin(), all.end(),
                             [&](const Case& each) { return each.subcommand == subcommand; });
    };
    std::string said;
    const auto refuses = [&](const Case& each, const Words& words, const std::string& why) {
        const Outcome outcome = refused(each, words);
        EXPECT_EQ(outcome.code, 2) << why;
        EXPECT_EQ(outcome.out, "") << why;
        EXPECT_THAT(outcome.err, HasSubstr(why));
        said += outcome.err;
    };
    const Case exports = of("export");
    write("another/config.json", shipped("models/llama2-7b.json"));
    write("another/model.safetensors", kNotes);
    refuses(exports, {"--hf", at("another")}, "another: holds another model; --force");
    write("weights/model.safetensors", kNotes);
    refuses(exports, {"--hf", at("weights")}, "weights: holds model.safetensors, which no");
    refuses(exports, {"--hf", at("parts")}, "parts: holds a100.json, which no export wrote");
    refuses(exports, {"--hf", at("ds.json")}, "ds.json: is a file, not a folder");
    for (const char* type : {"float32", "bfloat16"})  // an earlier one of the same model
        EXPECT_EQ(performed(exports, {"--hf", at("exported"), "--dtype", type}), 0) << type;
    write("exported/tokenizer.json", kNotes);
    refuses(exports, {"--hf", at("exported")}, "holds tokenizer.json, which no export wrote");
    EXPECT_EQ(performed(exports, {"--hf", at("exported"), "--force"}), 0);
    EXPECT_EQ(content_of(at("another/model.safetensors")), kNotes);

    const Case trains = of("train");
    write("records/rank-00000.json", "{}");
    refuses(trains, {"--flight-record", at("records")}, "holds rank-00000.json, which is no");
    const auto checkpoints = [&](const std::string& path) {
        return "run.checkpoint={\"path\": \"" + path + "\", \"every_steps\": 1}";
    };
    refuses(trains, {"--set", checkpoints(at("ds.json"))},
            "run.checkpoint.path ds.json: is a file, not a folder");
    write("theirs/step-100/model.pt", kNotes);
    refuses(trains, {"--set", checkpoints(at("theirs"))},
            "run.checkpoint.path theirs: holds step-100, which is no checkpoint of orrery");
    write("beside/flight-record", kNotes);
    refuses(trains, {"--set", checkpoints(at("beside/saved"))},
            "beside/flight-record: is a file, not a folder");
    refuses(trains, {"--flight-record", at("one.json"), "--trace", at("one.json")},
            "one.json: --trace is written there");
    expect_golden("outputs_into_folders.txt", said);
}

// What a user says twice is done, all of it or nothing.
TEST_F(Outputs, ReplaceAnInputWhereForced) {
    write("t.json", content_of(tiny()));
    write("tiny-profile.json", content_of(folder() + "tiny-profile.json"));
    const Case simulates{"simulate", {at("t.json")}, {}, "", {}};
    EXPECT_EQ(performed(simulates, {"--trace", at("t.json"), "--force"}), 0);
    EXPECT_TRUE(content_of(at("t.json")).starts_with("{\"orrery\""));
    fs::create_directory(at("folder.json"));
    EXPECT_THAT(refused(simulates, {"--trace", at("folder.json"), "--force"}).err,
                HasSubstr("folder.json: is a folder, not a file"));
}

// A link stays one, and what it leads to is replaced.
TEST_F(Outputs, GoThroughALink) {
    const std::string real = at("real.orrery"), link = at("link.orrery");
    ASSERT_EQ(run({"simulate", tiny(), "--trace", real}).code, 0);
    fs::create_symlink("real.orrery", link);
    const std::string before = content_of(real);
    const Outcome shorter =
        run({"simulate", tiny(), "--set", "training.sequence_length=512", "--trace", link});
    ASSERT_EQ(shorter.code, 0) << shorter.err;
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_FALSE(content_of(real) == before);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
