// --csv of every subcommand: that its tables hold each number of --json, and go where they may.
#include "cli/csv_output.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/completed_values.hpp"
#include "cli/run/run_performing.hpp"
#include "sim/cost/gemm_model.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

namespace fs = std::filesystem;

// --- A reader of RFC 4180, of which only the quoting is ours to write

using CsvRow = std::vector<std::string>;

std::vector<CsvRow> parsed(const std::string& text) {
    std::vector<CsvRow> rows;
    CsvRow row;
    std::string cell;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '"' && text.substr(i, 2) == "\"\"") {
            cell += text[++i];
        } else if (c == '"') {
            EXPECT_TRUE(quoted || cell.empty()) << "a quote within a cell: " << cell;
            quoted = !quoted;
        } else if (!quoted && (c == ',' || c == '\n')) {
            row.push_back(std::move(cell));
            cell.clear();
            if (c == ',') continue;
            rows.push_back(std::move(row));
            row.clear();
        } else {
            cell += c;
        }
    }
    EXPECT_TRUE(row.empty() && cell.empty() && !quoted) << "the last line does not end";
    for (const CsvRow& each : rows)
        EXPECT_EQ(each.size(), rows.front().size());
    return rows;
}

std::string text_of(const json& value) {
    if (value.is_null()) return "";
    return value.is_string() ? value.get<std::string>() : value.dump();
}

// --- What a table is

TEST(CsvText, TakesRowsApart) {
    const json answer = json::parse(R"({
        "step": {"time_s": 0.1, "scenario": {"model": 1}},
        "stages": [{"stage": 0, "at": "2F5 \"a, b\"", "inner": {"x": 1e-9}, "list": [1, 2]},
                   {"stage": 1, "interval_s": [0.25, 0.5], "at": null, "inner": {"fits": true}}],
        "groups": {"tensor": {"busy_s": 2}, "data": {"busy_s": 3, "sent": 7}},
        "links": [{"link": "up", "jobs": [{"name": "a"}, {"name": "b"}]},
                  {"link": "down", "jobs": []}],
        "parts": {"kernel": 4, "link": 5},
        "times_s": [6, 7.5]})");
    const std::vector<CsvTable> tables = {{"summary", "", "step.time_s", true},
                                          {"stages", "/stages", "stage,at"},
                                          {"groups", "/groups", "group,busy_s"},
                                          {"links", "/links", "link"},
                                          {"jobs", "/links/*/jobs", "link,name"},
                                          {"parts", "/parts", "part,share"},
                                          {"times", "/times_s", "times_s"},
                                          {"both", "/groups/data /groups/tensor", "of,sent", true},
                                          {"none", "/step/none", "a,b"}};
    std::vector<std::string> texts;
    for (const CsvTable& table : tables)
        texts.push_back(csv_text(tables, table, answer));
    EXPECT_THAT(texts, ElementsAre("step.time_s\n0.1\n",
                                   "stage,at,inner.x,list,interval_low_s,interval_high_s,"
                                   "inner.fits\n"
                                   "0,\"2F5 \"\"a, b\"\"\",1e-09,\"[1,2]\",,,\n"
                                   "1,,,,0.25,0.5,true\n",
                                   "group,busy_s,sent\ntensor,2,\ndata,3,7\n",  //
                                   "link\nup\ndown\n",                          //
                                   "link,name\nup,a\nup,b\n",                   //
                                   "part,share\nkernel,4\nlink,5\n",            //
                                   "times_s\n6\n7.5\n",                         //
                                   "of,sent,busy_s\ngroups/data,7,3\ngroups/tensor,,2\n", "a,b\n"));
}

// --- Every subcommand

struct Case {
    Words words;
    // A table, and of what in --json its rows are.
    std::string table, pointer;
    Words not_in_tables = {};  // pointers to numbers that are no part of any
};

class CsvOutputs : public testing::Test {
  protected:
    CsvOutputs() {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }

    std::string at(const std::string& name) const { return folder_ + name; }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(at(name), std::ios::binary) << text;
        return at(name);
    }
    static std::string shipped(const std::string& name) {
        return std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name;
    }

    // A step as it was predicted, said to be measured.
    std::string measured() const {
        const std::string path = at("measured.orrery");
        EXPECT_EQ(run({"simulate", tiny(), "--unfolded", "--trace", path}).code, 0);
        trace::Trace trace = trace::read_trace(path);
        trace.origin = trace::Origin::measured;
        trace::write_trace(trace, path);
        return path;
    }

    // A rank of two whose last collective has not ended.
    std::string dump(int rank) const {
        const json entry = {{"process_group", {"0", "default_pg"}},
                            {"collective_seq_id", rank + 1},
                            {"p2p_seq_id", 0},
                            {"is_p2p", false},
                            {"profiling_name", "nccl:all_reduce"},
                            {"input_sizes", {{1024}}},
                            {"input_dtypes", {"Float"}},
                            {"output_sizes", {{1024}}},
                            {"output_dtypes", {"Float"}},
                            {"state", "started"}};
        const json group = {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1]"}};
        const json whole = {
            {"version", "2.5"}, {"pg_config", {{"0", group}}}, {"entries", {entry}}};
        return write(fmt::format("nccl_trace_rank_{}.json", rank), whole.dump());
    }

    // Times of products, and a datasheet that asks for their curve.
    Words fit() const {
        const std::string sheet =
            write("sheet.json",
                  R"({"tables": {"system": "tiny", "gemm": {"dtype": "bf16", "source": "x",
                                                            "sustained": 1}}, )" +
                      content_of(folder() + "tiny-profile.json").substr(1));
        sim::GemmCurve truth;
        truth.t0_us = 7;
        truth.rate_tflops = 250;
        truth.bandwidth_GBps = 3000;
        std::string rows = "system,dtype,m,n,k,time_us,source\n";
        for (double m = 512; m <= 8192; m *= 2)
            for (double n = 256; n <= 16384; n *= 4)
                for (double k = 256; k <= 16384; k *= 4)
                    rows += fmt::format("tiny,bf16,{},{},{},{},x\n", m, n, k,
                                        1e6 * sim::gemm_seconds(truth, {m, n, k}, 2));
        return {"fit", sheet, "--gemm", write("gemm.csv", rows), "--output", at("fitted.json")};
    }

    std::vector<Case> cases() const;

    // Of both programs, in this process.
    static Outcome run_any(const Words& words) {
        for (const auto& subcommand : performing_program().subcommands)
            if (subcommand->name() == words.front()) {
                std::ostringstream out, err;
                const int code = run_performing(words, {out, err});
                return {code, out.str(), err.str()};
            }
        return run(words);
    }

    std::string folder_ = testing::TempDir() + "csv_outputs/";
};

std::vector<Case> CsvOutputs::cases() const {
    const std::string trace = measured();
    const std::string published = content_of(shipped("published/torchtitan.json"));
    const json all = json::parse(published);
    const std::string records = write("records.json", json{all[0], all[1], all[2]}.dump());
    const std::string imported = write("recorded.json", R"({
        "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4,
                  "n_positions": 128, "vocab_size": 512, "tie_word_embeddings": false,
                  "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
        "cluster": "clusters/cpu-8.json",
        "layout": {"micro_batch_size": 2, "global_batch_size": 4, "data_parallel": 1},
        "training": {"sequence_length": 128, "precision": "fp32", "vocabulary_multiple": 1}})");
    return {
        {{"simulate", tiny(), "--set", "cluster.stragglers=megascale", "--draws", "4"},
         "stages",
         "/memory/stages"},
        {{"simulate", tiny(), "--costs", trace}, "prices", "/prices/kinds"},
        {{"explain", tiny()}, "what_ifs", "/what_if"},
        {{"search", tiny(), "--vary", "layout.zero_stage=0,1"}, "layouts", "/layouts"},
        // Its columns are the chart's metrics.
        {{"sweep", tiny(), "--vary", "layout.zero_stage=0,1"}, "points", "/points", {"/points"}},
        {{"size", shipped("runs/tiny-gpt.json"), "--tokens", "1e6", "--gpus", "8", "--set",
          "layout.tensor_parallel=auto", "--set", "layout.global_batch_size=8"},
         "options",
         "/options",
         {"/smallest", "/cheapest", "/fastest"}},
        {{"goodput", tiny(), "--runs", "20", "--timeline"}, "waterfall", "/waterfall"},
        {{"jobs", shipped("jobs/four-7b-on-64-nodes.json"), "--steps", "2"}, "links", "/links"},
        {{"jobs", shipped("jobs/four-7b-on-64-nodes.json"), "--steps", "2", "--place", "search",
          "--shift", "search"},
         "places",
         "/search/places"},
        {{"list", "clusters", "h100"}, "library", "/clusters"},
        {{"diff", tiny(), tiny(), "--set-b", "layout.pipeline_parallel=1"}, "busy", "/busy"},
        {{"compare", tiny(), trace}, "ops", "/ops"},
        {{"validate", records}, "rows", "/rows"},
        {{"constants", records, "--constant", "training.attention_factor=1:0.3"},
         "constants",
         "/constants"},
        {fit(), "families", "/families"},
        {{"launch", tiny(), "--for", "megatron", "--allow-unsupported"}, "notes", "/notes"},
        {{"import", folder() + "imports/gpt3-175b.sh", "--cluster",
          "clusters/a100-80gb-sxm-1024.json"},
         "mapped",
         "/mapped"},
        {{"import-trace",
          std::string(ORRERY_SOURCE_DIR) + "/tests/calib/compare/traces/gpt-1.json.gz",
          "--scenario", imported},
         "ranks",
         "/ranks"},
        {{"hang", dump(0), dump(1)}, "ranks", "/ranks"},
        {{"doctor"}, "network", "/network"},
        {{"calibrate", "--from-trace", trace, "--set",
          "cluster.profile=" + folder() + "tiny-profile.json"},
         "families",
         "/families",
         {"/step", "/ranks"}},
    };
}

// Numbers as they are written, each as often as it stands there.
void add_numbers(const json& value, std::multiset<std::string>& to) {
    if (value.is_number()) to.insert(value.dump());
    if (value.is_structured())
        for (const auto& [key, member] : value.items())
            if (key != "scenario") add_numbers(member, to);
}

void expect_rows(const std::vector<CsvRow>& rows, const json& expected) {
    ASSERT_EQ(rows.size(), expected.size() + 1);
    std::size_t row = 0;
    for (const json& each : expected) {
        ++row;
        for (const auto& [key, value] : each.items()) {
            const auto column = std::find(rows[0].begin(), rows[0].end(), key);
            if (!value.is_primitive() || column == rows[0].end()) continue;
            const std::string& cell =
                rows[row].at(static_cast<std::size_t>(column - rows[0].begin()));
            if (value.is_number())
                EXPECT_EQ(json::parse(cell).get<double>(), value.get<double>()) << key;
            else
                EXPECT_EQ(cell, text_of(value)) << key;
        }
    }
}

TEST_F(CsvOutputs, HoldEveryNumberOfTheJson) {
    for (const Case& each : cases()) {
        SCOPED_TRACE(fmt::format("{}", fmt::join(each.words, " ")));
        const std::string folder = at("tables");
        fs::remove_all(folder);
        Words words = each.words;
        words.insert(words.end(), {"--json", "--csv", folder});
        const Outcome outcome = run_any(words);
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        json answer = json::parse(outcome.out);

        std::multiset<std::string> in_tables, in_json;
        std::set<std::string> names;
        for (const auto& entry : fs::directory_iterator(folder)) {
            SCOPED_TRACE(entry.path());
            names.insert(entry.path().stem());
            const std::vector<CsvRow> rows = parsed(content_of(entry.path()));
            ASSERT_FALSE(rows.empty());
            for (std::size_t row = 1; row < rows.size(); ++row)
                for (const std::string& cell : rows[row]) {
                    const json value = json::parse(cell, nullptr, false);
                    // What is an array of rows is a table.
                    EXPECT_FALSE(value.is_array() && !value.empty() && value[0].is_object())
                        << cell;
                    if (!value.is_discarded()) add_numbers(value, in_tables);
                }
        }
        ASSERT_EQ(names.count(each.table), 1u);
        expect_rows(parsed(content_of(fmt::format("{}/{}.csv", folder, each.table))),
                    answer.at(json::json_pointer(each.pointer)));

        for (const std::string& pointer : each.not_in_tables)
            answer[json::json_pointer(pointer)] = nullptr;
        add_numbers(answer, in_json);
        std::vector<std::string> missing;
        std::set_difference(in_json.begin(), in_json.end(), in_tables.begin(), in_tables.end(),
                            std::back_inserter(missing));
        EXPECT_THAT(missing, ElementsAre());
    }
}

// Rows carry their source, so that a mean by source is one over them.
TEST_F(CsvOutputs, OfValidateSayHowFarOffSourcesAre) {
    json records = json::array();
    for (const char* file : {"published/torchtitan.json", "published/zero-bubble.json"})
        for (int row = 0; row < 2; ++row)
            records.push_back(
                json::parse(content_of(shipped(file)))[static_cast<std::size_t>(row)]);
    const Outcome outcome =
        run({"validate", write("two.json", records.dump()), "--json", "--csv", at("tables/")});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::map<std::string, std::vector<double>> errors;
    const json answer = json::parse(outcome.out);
    for (const json& row : answer["rows"])
        errors[row["source"]].push_back(std::abs(row["error_pct"].get<double>()));
    ASSERT_EQ(errors.size(), 2u);
    const std::vector<CsvRow> sources = parsed(content_of(at("tables/sources.csv")));
    ASSERT_EQ(sources.size(), errors.size() + 1);
    EXPECT_THAT(CsvRow(sources[0].begin(), sources[0].begin() + 3),
                ElementsAre("source", "n", "mean_abs_error_pct"));
    for (std::size_t i = 1; i < sources.size(); ++i) {
        const std::vector<double>& of = errors.at(sources[i][0]);
        EXPECT_EQ(sources[i][1], std::to_string(of.size()));
        EXPECT_NEAR(std::stod(sources[i][2]),
                    std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size()),
                    1e-9);
    }
}

// What is new has --csv, or says here why it has not.
TEST_F(CsvOutputs, AreOfEverySubcommandThatPrintsTables) {
    const std::set<std::string> without = {// write what is no table
                                           "init", "report", "export",
                                           // an answer of many levels
                                           "plan",
                                           // whose --csv is PyTorch's
                                           "schedule",
                                           // says of streams, in passing, what compare has of them
                                           "convert",
                                           // print a line for each event, while it happens
                                           "train", "watch",
                                           // say what the program is, not what it found
                                           "schema", "commands", "completion", "man"};
    std::set<std::string> tried, expected;
    for (const Case& each : cases())
        tried.insert(each.words.front());
    for (const Program& program : {predicting_program(), performing_program()})
        for (const auto& subcommand : program.subcommands) {
            CLI::App app;
            subcommand->declare(app);
            if (without.count(subcommand->name()) > 0) continue;
            expected.insert(subcommand->name());
            for (const char* option : {"--json", "--csv"})
                EXPECT_NE(app.get_option_no_throw(option), nullptr) << subcommand->name();
        }
    EXPECT_EQ(tried, expected);
}

// The page lists the tables that commands have.
TEST_F(CsvOutputs, AreOnThePage) {
    const std::string page = content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/command-line.md");
    std::size_t commands = 0;
    for (const Program& program : {predicting_program(), performing_program()})
        for (const auto& subcommand : program.subcommands) {
            CLI::App app;
            subcommand->declare(app);
            CLI::Option* table = app.get_option_no_throw("--table");
            if (table == nullptr) continue;
            EXPECT_THAT(page,
                        HasSubstr(fmt::format("| `{}` | {} |\n", subcommand->name(),
                                              fmt::join(completed_values(*table).words, ", "))));
            ++commands;
        }
    EXPECT_GT(commands, 12u);
}

// --- Where they go

TEST_F(CsvOutputs, GoIntoAFileOneByOne) {
    const std::string file = at("stages.csv");
    const Words words = {"simulate", tiny(), "--csv", file};
    const Outcome unnamed = run(words);
    EXPECT_EQ(unnamed.code, 2);
    EXPECT_THAT(unnamed.err,
                HasSubstr("a file holds one table: --table says which, of summary, breakdown, "));
    EXPECT_FALSE(fs::exists(file));

    Words named = words;
    named.insert(named.end(), {"--table", "stages"});
    const Outcome outcome = run(named);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, run({"simulate", tiny()}).out);
    EXPECT_EQ(parsed(content_of(file)).size(), 3u);  // two stages
    EXPECT_EQ(run(named).code, 0);                   // onto its own
    named.back() = "breakdown";
    const Outcome other = run(named);
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, HasSubstr("stages.csv: exists, and is no table \"breakdown\" of orrery "
                                     "simulate; --force replaces it"));
    named.back() = "stags";
    EXPECT_EQ(run(named).code, 2);
    EXPECT_EQ(run({"simulate", tiny(), "--table", "stages"}).code, 2);
    EXPECT_THAT(run({"list", "models", "gpt2", "--csv", at("models.txt")}).err,
                HasSubstr("the name must end in .csv, or in / for a folder"));
    EXPECT_EQ(run({"list", "models", "gpt2", "--csv", at("models.csv")}).code, 0);
}

TEST_F(CsvOutputs, GoIntoAFolderBesideWhatIsThere) {
    write("notes", "what nobody has twice");
    const Words words = {"diff", tiny(), tiny(), "--csv", at("")};
    ASSERT_EQ(run(words).code, 0);
    ASSERT_EQ(run(words).code, 0);  // onto its own
    const std::string keys = content_of(at("keys.csv"));
    EXPECT_EQ(keys, "pointer,a,b\n");  // the same scenario twice
    write("keys.csv", "name,phone\n");
    const Outcome refused = run(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("keys.csv exists, and is no table \"keys\" of orrery diff; "
                                       "--force writes into it"));
    EXPECT_EQ(content_of(at("keys.csv")), "name,phone\n");
    Words forced = words;
    forced.push_back("--force");
    EXPECT_EQ(run(forced).code, 0);
    EXPECT_EQ(content_of(at("keys.csv")), keys);
    EXPECT_EQ(content_of(at("notes")), "what nobody has twice");

    const Outcome impossible =
        run({"diff", tiny(), tiny(), "--csv", "/proc/no such folder/tables/"});
    EXPECT_EQ(impossible.code, 8);
    EXPECT_THAT(impossible.err, HasSubstr("cannot be made"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
