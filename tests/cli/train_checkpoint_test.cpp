// Runs that are stopped, killed and gone on with, as their user meets them.
#include <sys/wait.h>

#include <unistd.h>
#include <csignal>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

const std::vector<std::string> kSmall = {
    "layout.data_parallel=1",           "layout.tensor_parallel=2",
    "layout.pipeline_parallel=1",       "layout.global_batch_size=4",
    "training.sequence_length=32",      "run.steps=12",
    "training.schedule.decay=constant", "training.schedule.warmup_steps=0"};

class Saved : public testing::Test {
  protected:
    Saved() { fs::remove_all(path_); }
    ~Saved() override { fs::remove_all(path_); }

    // Of orrery-run; `more` are further --set.
    std::vector<std::string> arguments(const std::vector<std::string>& options,
                                       const std::vector<std::string>& more = {}) const {
        std::vector<std::string> all = {
            "train", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json"};
        std::vector<std::string> sets = kSmall;
        sets.push_back("run.checkpoint.path=" + path_);
        sets.push_back("run.checkpoint.every_steps=2");
        sets.insert(sets.end(), more.begin(), more.end());
        for (const std::string& set : sets)
            all.insert(all.end(), {"--set", set});
        all.insert(all.end(), options.begin(), options.end());
        return all;
    }

    Outcome perform(const std::vector<std::string>& arguments) const {
        std::string command = program("orrery-run");
        for (const std::string& argument : arguments)
            command += " '" + argument + "'";
        const std::string base = testing::TempDir() + "saved";
        const int status =
            std::system(fmt::format("{} >{}.out 2>{}.err", command, base, base).c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(base + ".out"),
                content_of(base + ".err")};
    }

    // What a run has printed that is killed so long after so many lines; the last of them may have
    // been cut off.
    static std::string killed_after(int lines, int delay_ms, std::vector<std::string> words) {
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        const std::string binary = program("orrery-run");
        const pid_t pid = fork();
        if (pid == 0) {
            dup2(ends[1], STDOUT_FILENO);
            std::vector<char*> argv = {const_cast<char*>("orrery-run")};
            for (std::string& word : words)
                argv.push_back(word.data());
            argv.push_back(nullptr);
            execv(binary.c_str(), argv.data());
            _exit(127);
        }
        close(ends[1]);
        FILE* const out = fdopen(ends[0], "r");
        std::string text;
        char part[65536];
        for (int seen = 0; std::fgets(part, sizeof part, out) != nullptr;) {
            text += part;
            if (text.back() != '\n' || ++seen != lines) continue;
            usleep(static_cast<useconds_t>(delay_ms) * 1000);
            kill(pid, SIGKILL);
        }
        std::fclose(out);
        waitpid(pid, nullptr, 0);
        text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
        return text;
    }

    static std::vector<json> events_named(const std::string& out, const std::string& name) {
        std::vector<json> events;
        std::istringstream lines(out);
        for (std::string line; std::getline(lines, line);)
            if (json event = json::parse(line); event["event"] == name)
                events.push_back(std::move(event));
        return events;
    }
    static std::vector<double> losses(const std::string& out) {
        std::vector<double> all;
        for (const json& event : events_named(out, "step"))
            all.push_back(event["loss"]);
        return all;
    }

    std::string path_ = testing::TempDir() + "saved-run";
};

TEST_F(Saved, GoesOnWhereItEnded) {
    const Outcome whole = perform(arguments({"--json", "--steps", "7"}));
    ASSERT_EQ(whole.code, 0) << whole.err;
    const std::vector<json> saved = events_named(whole.out, "checkpoint");
    ASSERT_EQ(saved.size(), 4U);  // after steps 2, 4, 6 and the last
    for (std::size_t i = 0; i < saved.size(); ++i) {
        EXPECT_EQ(saved[i]["step"], std::min<std::size_t>(2 * i + 2, 7));
        EXPECT_GE(saved[i]["write_s"].get<double>(), 0);
        EXPECT_GE(saved[i]["stall_s"].get<double>(), 0);
        EXPECT_TRUE(fs::exists(saved[i]["path"].get<std::string>() + "/manifest.json"));
    }
    fs::remove_all(path_ + "/step-00000007");
    fs::remove_all(path_ + "/step-00000006");
    const std::string traced = testing::TempDir() + "resumed.orrery";
    const Outcome rest =
        perform(arguments({"--json", "--steps", "7", "--resume", "--trace", traced}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(rest.err, "");
    const json resumed = events_named(rest.out, "resume").at(0);
    EXPECT_EQ(resumed["step"], 4);
    EXPECT_EQ(resumed["consumed_samples"], 16);
    // What compare holds predictions against: the same as was told, of two checkpoints the slower.
    const std::vector<json> again = events_named(rest.out, "checkpoint");
    ASSERT_EQ(again.size(), 2U);
    const trace::StorageFacts facts = trace::read_trace(traced).facts.storage;
    EXPECT_EQ(*facts.load_s, resumed["load_s"].get<double>());
    EXPECT_EQ(*facts.load_bytes, saved[1]["bytes"].get<double>());
    EXPECT_EQ(*facts.load_bytes, resumed["bytes"].get<double>());
    EXPECT_EQ(*facts.save_bytes, again[0]["bytes"].get<double>());
    EXPECT_EQ(*facts.save_write_s,
              std::max(again[0]["write_s"].get<double>(), again[1]["write_s"].get<double>()));
    const std::vector<double> all = losses(whole.out);
    EXPECT_EQ(losses(rest.out), std::vector(all.begin() + 4, all.end()));
    const Outcome nothing_left = perform(arguments({"--json", "--steps", "7", "--resume"}));
    EXPECT_EQ(nothing_left.code, 0) << nothing_left.err;
    EXPECT_EQ(events_named(nothing_left.out, "end").at(0)["step"], 7);
    const Outcome text = perform(arguments({"--steps", "8", "--resume"}, {"training.seed=5"}));
    EXPECT_EQ(text.code, 0);
    EXPECT_THAT(text.out, HasSubstr("resumed     after step 7, from " + path_));
    EXPECT_THAT(text.err, HasSubstr("warning: the checkpoint is of a run with training.seed 1234, "
                                    "this one's is 5"));
    EXPECT_THAT(text.err, HasSubstr("saved " + path_ + "/step-00000008: "));
}

TEST_F(Saved, StartsFreshWhereThereIsNothing) {
    const Outcome outcome = perform(arguments({"--json", "--steps", "1", "--resume"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(losses(outcome.out).size(), 1U);
    EXPECT_EQ(perform({"train", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json",
                       "--resume"})
                  .code,
              2);
    const Outcome again = perform(arguments({"--steps", "1"}));
    EXPECT_THAT(again.err, HasSubstr("has checkpoints of an earlier run"));
    EXPECT_TRUE(fs::exists(path_ + "/earlier-1/step-00000001"));
}

TEST_F(Saved, WhatIsDamagedIs5AndWhatCannotBeWrittenIs8) {
    ASSERT_EQ(perform(arguments({"--steps", "2"})).code, 0);
    const std::string shard = path_ + "/step-00000002/rank-00001.safetensors";
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('!');
    file.close();
    const Outcome damaged = perform(arguments({"--json", "--resume"}));
    EXPECT_EQ(damaged.code, 5);
    EXPECT_THAT(damaged.err, HasSubstr("orrery train: " + shard + ": tensor "));
    EXPECT_THAT(damaged.err, HasSubstr(" is not as it was written"));
    EXPECT_EQ(events_named(damaged.out, "error").size(), 1U);
    const Outcome closed = perform(arguments({}, {"run.checkpoint.path=/proc/saved"}));
    EXPECT_EQ(closed.code, 8);
    EXPECT_THAT(closed.err, HasSubstr("orrery train: /proc/saved: "));
    const Outcome full = perform(arguments({}, {"run.checkpoint.path=/dev/full"}));
    EXPECT_EQ(full.code, 8);
}

TEST_F(Saved, AsOftenAsIsMeasured) {
    const Outcome outcome = perform(arguments(
        {"--json", "--steps", "9"},
        {"run.checkpoint.every_steps=auto", "run.checkpoint.mean_time_between_failures_h=0.5"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<json> saved = events_named(outcome.out, "checkpoint");
    ASSERT_GE(saved.size(), 2U);
    EXPECT_EQ(saved.front()["step"], 4) << "to be measured";
    EXPECT_EQ(saved.back()["step"], 9);
    const std::vector<json> chosen = events_named(outcome.out, "interval");
    ASSERT_GE(chosen.size(), 1U);
    EXPECT_GE(chosen[0]["every_steps"], 1);
    EXPECT_EQ(chosen[0]["stall_s"], saved[0]["stall_s"]);
    EXPECT_EQ(chosen[0]["write_s"], saved[0]["write_s"]);
    EXPECT_EQ(chosen[0]["mean_time_between_failures_h"], 0.5);
    EXPECT_LE(chosen[0]["stall_share"], 0.035);
    const Outcome text = perform(arguments({"--steps", "5"}, {"run.checkpoint.every_steps=auto"}));
    EXPECT_THAT(text.err, HasSubstr(" from here on: a save stops training for "));
}

// Killed at any time, again and again, a run ends as the one that nobody touched.
TEST_F(Saved, SurvivesBeingKilled) {
    const std::string last = "12";
    const Outcome whole =
        perform(arguments({"--json", "--steps", last}, {"run.checkpoint.every_steps=1"}));
    ASSERT_EQ(whole.code, 0) << whole.err;
    fs::remove_all(path_);
    std::vector<double> seen(13, -1);
    int delay_ms = 0;
    for (const int lines : {4, 6, 3, 5}) {  // the first two say how it begins
        const std::string text = killed_after(
            lines, delay_ms,
            arguments({"--json", "--resume", "--steps", last}, {"run.checkpoint.every_steps=1"}));
        delay_ms += 7;
        for (const json& event : events_named(text, "step"))
            seen[event["step"].get<std::size_t>()] = event["loss"];
        if (!fs::exists(path_)) continue;
        for (const auto& entry : fs::directory_iterator(path_)) {
            const std::string name = entry.path().filename();
            if (name.find('.') != std::string::npos) continue;  // unfinished
            EXPECT_GE(seen[std::stoul(name.substr(5))], 0) << name << " before its line";
        }
    }
    const Outcome rest = perform(
        arguments({"--json", "--resume", "--steps", last}, {"run.checkpoint.every_steps=1"}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    for (const json& event : events_named(rest.out, "step"))
        seen[event["step"].get<std::size_t>()] = event["loss"];
    seen.erase(seen.begin());
    EXPECT_EQ(seen, losses(whole.out));
    for (const auto& entry : fs::directory_iterator(path_))
        EXPECT_TRUE(entry.path().filename().string().starts_with("step-") ||
                    entry.path().filename() == "run.lock")
            << entry.path();
}

TEST_F(Saved, IsExportedToHuggingFaceAndTakenFromThere) {
    ASSERT_EQ(perform(arguments({"--steps", "3"})).code, 0);
    const std::string folder = testing::TempDir() + "exported";
    const Outcome exported = perform({"export", path_, "--hf", folder});
    ASSERT_EQ(exported.code, 0) << exported.err;
    const json config = json::parse(content_of(folder + "/config.json"));
    EXPECT_EQ(config["architectures"][0], "GPT2LMHeadModel");
    EXPECT_EQ(config["n_embd"], 64);
    // The same samples: of data that are a single window.
    const std::string data = testing::TempDir() + "window.txt";
    std::ofstream(data) << std::string(33, 'x');
    const Outcome resumed =
        perform(arguments({"--json", "--resume", "--steps", "4"}, {"run.data=" + data}));
    const Outcome begun = perform(arguments(
        {"--json", "--steps", "1"}, {"run.data=" + data, "run.init_from=" + folder,
                                     "run.checkpoint.path=" + testing::TempDir() + "elsewhere"}));
    ASSERT_EQ(begun.code, 0) << begun.err;
    EXPECT_EQ(losses(begun.out), losses(resumed.out));
    const Outcome other = perform(
        arguments({"--steps", "1"}, {"run.init_from=" + folder, "model.layer_norm_epsilon=1e-6"}));
    EXPECT_EQ(other.code, 5);
    EXPECT_THAT(other.err, HasSubstr("is of another model: layer_norm_epsilon is 1e-05, the "
                                     "scenario's 1e-06"));
    const Outcome wider =
        perform(arguments({"--steps", "1"}, {"run.init_from=" + folder, "model.n_inner=128"}));
    EXPECT_EQ(wider.code, 5);
    EXPECT_THAT(wider.err, HasSubstr("mlp.c_fc"));
    EXPECT_EQ(perform(arguments({}, {"run.init_from=/nowhere"})).code, 5);
    EXPECT_EQ(perform({"export", "/nowhere", "--hf", folder}).code, 5);
}

// Weights that adapters are merged with compute what the two did apart: the next step's loss is the
// same, but for rounding. And adapters that are new change nothing of the weights they are beside.
TEST_F(Saved, AdaptersAreMergedWhereTheyAreExported) {
    const std::string folder = testing::TempDir() + "merged",
                      window = testing::TempDir() + "one.txt";
    const std::string elsewhere = "run.checkpoint.path=" + testing::TempDir() + "merged-run";
    const std::vector<std::string> lora = {"training.lora.rank=4", "training.precision=fp32",
                                           "training.optimizer.learning_rate=0.01"};
    const auto with = [](std::vector<std::string> sets, const std::vector<std::string>& more) {
        sets.insert(sets.end(), more.begin(), more.end());
        return sets;
    };
    ASSERT_EQ(perform(arguments({"--steps", "4"}, lora)).code, 0);
    const Outcome exported = perform({"export", path_, "--hf", folder});
    ASSERT_EQ(exported.code, 0) << exported.err;
    std::ofstream(window) << std::string(33, 'x');  // every sample is the same
    const auto resumed = losses(perform(arguments({"--json", "--resume", "--steps", "5"},
                                                  with(lora, {"run.data=" + window})))
                                    .out);
    const std::vector<std::string> from_there = {"run.data=" + window, "run.init_from=" + folder,
                                                 "training.precision=fp32", elsewhere};
    const auto merged = losses(perform(arguments({"--json", "--steps", "1"}, from_there)).out);
    ASSERT_EQ(merged.size(), 1u);
    ASSERT_EQ(resumed.size(), 1u);
    EXPECT_NEAR(merged[0], resumed[0], 1e-5 * resumed[0]);
    const auto untouched = losses(perform(arguments({"--json", "--steps", "1"},
                                                    with(lora, {"run.data=" + window, elsewhere})))
                                      .out);
    ASSERT_EQ(untouched.size(), 1u);
    EXPECT_GT(std::abs(untouched[0] - merged[0]), 1e-3) << "nothing was learned to merge";
    const auto adapted_anew = losses(
        perform(arguments({"--json", "--steps", "1"}, with(from_there, {"training.lora.rank=2"})))
            .out);
    EXPECT_EQ(adapted_anew, merged);
    const Outcome whole =
        perform(arguments({"--resume", "--steps", "5"}, {"training.precision=fp32"}));
    EXPECT_EQ(whole.code, 5);
    EXPECT_THAT(whole.err, HasSubstr("is frozen, the scenario's trained"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
