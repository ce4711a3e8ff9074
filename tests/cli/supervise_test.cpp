// orrery train --supervise as its user meets it: processes that are killed, stopped, interrupted,
// and checkpoints that are damaged.
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/launched_world.hpp"
#include "tests/cli/running_program.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class Supervise : public testing::Test {
  protected:
    Supervise() { fs::remove_all(path_); }
    ~Supervise() override { fs::remove_all(path_); }

    std::vector<std::string> words(const std::vector<std::string>& options,
                                   const std::vector<std::string>& sets = {},
                                   const std::string& path = "") const {
        std::vector<std::string> all = {
            "train", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json", "--json"};
        std::vector<std::string> settings = {
            "layout.data_parallel=1",       "layout.tensor_parallel=2",
            "layout.pipeline_parallel=1",   "layout.global_batch_size=2",
            "training.sequence_length=32",  "training.schedule.decay=constant",
            "run.checkpoint.every_steps=1", "run.checkpoint.path=" + (path.empty() ? path_ : path)};
        settings.insert(settings.end(), sets.begin(), sets.end());
        for (const std::string& set : settings)
            all.insert(all.end(), {"--set", set});
        all.insert(all.end(), options.begin(), options.end());
        return all;
    }

    // All that a run says, by the name of the event.
    struct Said {
        int code = -1;
        std::vector<json> events;
        std::string err;

        std::vector<json> named(const std::string& name) const {
            std::vector<json> found;
            for (const json& event : events)
                if (event["event"] == name) found.push_back(event);
            return found;
        }
        // By step; one that was taken again must have had the same loss.
        std::map<int, double> losses() const {
            std::map<int, double> all;
            for (const json& event : named("step")) {
                const double loss = event["loss"];
                const auto [at, is_new] = all.emplace(event["step"].get<int>(), loss);
                EXPECT_EQ(at->second, loss) << "step " << at->first;
            }
            return all;
        }
    };

    // `seen` is called with each event as it comes.
    static Said perform(const std::vector<std::string>& words,
                        const std::function<void(RunningProgram&, const json&)>& seen = nullptr) {
        RunningProgram program("orrery-run", words);
        Said said;
        while (auto event = program.next_event()) {
            if (seen) seen(program, *event);
            said.events.push_back(std::move(*event));
        }
        said.code = program.exit_code();
        said.err = program.err();
        return said;
    }

    // The last checkpoint's bytes, shard by shard.
    static std::string shards(const std::string& path, int step) {
        std::string all;
        for (int rank = 0; rank < 2; ++rank)
            all +=
                content_of(fmt::format("{}/step-{:08}/rank-{:05}.safetensors", path, step, rank));
        return all;
    }

    std::string path_ = testing::TempDir() + "supervised";
};

// Killed again and again, also while it saves: each time after other lines and so many
// microseconds.
TEST_F(Supervise, EndsAsTheRunThatNobodyTouched) {
    const int kills = sanitized() ? 2 : 6, steps = 3 * kills + 4;
    const std::string last = std::to_string(steps), whole_path = path_ + "-whole";
    const Said whole = perform(words({"--steps", last}, {}, whole_path));
    ASSERT_EQ(whole.code, 0) << whole.err;
    pid_t process = 0;
    int killed = 0, lines = 0;
    const Said said =
        perform(words({"--steps", last, "--supervise"}), [&](RunningProgram&, const json& event) {
            if (event["event"] == "attempt") process = event["process"];
            if (event["event"] == "attempt") lines = 0;
            if (event["event"] != "step" || ++lines != 2 + killed % 2 || killed == kills) return;
            std::this_thread::sleep_for(std::chrono::microseconds(1500 * killed));
            kill(process, SIGKILL);
            ++killed;
        });
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(killed, kills);
    EXPECT_EQ(said.named("restart").size(), static_cast<std::size_t>(kills));
    EXPECT_EQ(said.named("attempt").size(), static_cast<std::size_t>(kills) + 1);
    EXPECT_EQ(said.losses(), whole.losses());
    EXPECT_EQ(shards(path_, steps), shards(whole_path, steps)) << "weights and moments";
    EXPECT_GT(shards(path_, steps).size(), 1000U);
    EXPECT_THAT(said.err, HasSubstr("orrery train: supervisor: from the start to step "));
    EXPECT_THAT(said.err, HasSubstr(", then signal 9; it is started again"));
    fs::remove_all(whole_path);
}

TEST_F(Supervise, ARunThatStandsStillIsStartedAgain) {
    bool stopped = false;
    pid_t process = 0;
    const Said said =
        perform(words({"--steps", "5", "--supervise"}, {"run.health.stalled_after_s=1"}),
                [&](RunningProgram&, const json& event) {
                    if (event["event"] == "attempt") process = event["process"];
                    if (event["event"] != "step" || event["step"] != 3 || stopped) return;
                    stopped = true;
                    kill(process, SIGSTOP);
                });
    EXPECT_EQ(said.code, 0) << said.err;
    ASSERT_GE(said.named("restart").size(), 1U) << said.err;
    EXPECT_THAT(said.named("restart")[0]["why"], HasSubstr(", then nothing for "));
    EXPECT_EQ(said.losses().size(), 5U);
    EXPECT_TRUE(ends_soon(process));
}

// Its weights are lost in the same step whenever it is started.
TEST_F(Supervise, StopsWithADiagnosisWhereRestartsLeadNowhere) {
    const Said said =
        perform(words({"--steps", "9", "--supervise"},
                      {"training.optimizer.learning_rate=1e30", "run.checkpoint.every_steps=5"}));
    EXPECT_EQ(said.code, 7) << said.err;
    EXPECT_EQ(said.named("attempt").size(), 4U) << "the first and three restarts";
    ASSERT_EQ(said.named("health").size(), 4U);
    EXPECT_EQ(said.named("health")[0]["ailment"], "not finite");
    ASSERT_EQ(said.named("give_up").size(), 1U);
    EXPECT_EQ(said.named("give_up")[0]["exit_code"], 7);
    EXPECT_THAT(said.err, HasSubstr("gives up: 3 restarts in a row made no progress\n"));
    EXPECT_THAT(said.err, HasSubstr("The same each time"));
    EXPECT_FALSE(fs::exists(path_ + "/step-00000005"));
}

TEST_F(Supervise, ADamagedCheckpointIsLeftForTheOneBefore) {
    const Said whole = perform(words({"--steps", "8"}));
    ASSERT_EQ(whole.code, 0) << whole.err;
    for (const int step : {7, 8})
        fs::remove_all(fmt::format("{}/step-{:08}", path_, step));
    const std::string newest = path_ + "/step-00000006/rank-00001.safetensors";
    {
        std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-3, std::ios::end);
        file.put('!');
    }
    const Said refused = perform(words({"--steps", "8", "--resume"}));
    EXPECT_EQ(refused.code, 5);
    EXPECT_EQ(refused.named("error").at(0)["damaged_checkpoint"], 6);
    EXPECT_THAT(refused.err, HasSubstr("; older ones are of step 5, 4, 3, 2, 1: --resume-step N "
                                       "goes on from one"));
    const Said missing = perform(words({"--steps", "8", "--resume-step", "7"}));
    EXPECT_EQ(missing.code, 5);
    EXPECT_THAT(missing.err, HasSubstr("step-00000007: there is no such checkpoint"));

    const Said said = perform(words({"--steps", "8", "--supervise"}, {"run.checkpoint.keep=2"}));
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.err, HasSubstr("the checkpoint of step 6 is damaged; goes on from that of "
                                    "step 5; it is started again"));
    EXPECT_EQ(said.named("resume").at(0)["step"], 5);
    const std::map<int, double> all = whole.losses(), rest = said.losses();
    EXPECT_EQ(rest.size(), 3U);
    for (const auto& [step, loss] : rest)
        EXPECT_EQ(loss, all.at(step)) << step;
    EXPECT_TRUE(fs::exists(path_ + "/earlier-1/step-00000006")) << "set aside, not lost";
    EXPECT_TRUE(fs::exists(path_ + "/step-00000008"));
    EXPECT_TRUE(fs::exists(path_ + "/step-00000007"));
    EXPECT_FALSE(fs::exists(path_ + "/step-00000005")) << "two are kept";
}

TEST_F(Supervise, GoesOnWithTheRanksThatAreLeft) {
    const std::string left = testing::TempDir() + "ranks-left";
    std::ofstream(left) << 2;
    pid_t process = 0;
    bool lost = false;
    const Said said = perform(words({"--steps", "6", "--supervise", "--ranks-left", "cat " + left},
                                    {R"(run.elastic_layouts=[{"tensor_parallel": 1}])"}),
                              [&](RunningProgram&, const json& event) {
                                  if (event["event"] == "attempt") process = event["process"];
                                  if (event["event"] != "checkpoint" || lost) return;
                                  lost = true;
                                  std::ofstream(left) << 1;
                                  kill(process, SIGKILL);
                              });
    EXPECT_EQ(said.code, 0) << said.err;
    const auto starts = said.named("start");
    ASSERT_EQ(starts.size(), 2U) << said.err;
    EXPECT_EQ(starts[0]["ranks"], 2);
    EXPECT_EQ(starts[1]["ranks"], 1);
    EXPECT_EQ(said.named("resume").size(), 1U);
    EXPECT_THAT(said.err, HasSubstr("with 1 ranks left it goes on in run.elastic_layouts[0] of 1 "
                                    "ranks"));
    EXPECT_EQ(said.named("end").at(0)["step"], 6);
}

TEST_F(Supervise, PassesASignalOnAndLeavesNoProcessBehind) {
    for (const int signal : {SIGTERM, SIGKILL}) {
        fs::remove_all(path_);
        pid_t process = 0;
        bool sent = false;
        const Said said = perform(
            words({"--steps", "1000000", "--supervise"}, {"run.checkpoint.every_steps=1000000"}),
            [&](RunningProgram& program, const json& event) {
                if (event["event"] == "attempt") process = event["process"];
                if (event["event"] != "step" || sent) return;
                sent = true;
                kill(program.process(), signal);
            });
        EXPECT_EQ(said.code, signal == SIGTERM ? 130 : 128 + SIGKILL) << said.err;
        EXPECT_TRUE(ends_soon(process)) << "signal " << signal;
        if (signal != SIGTERM) continue;
        EXPECT_EQ(said.named("end").at(0)["interrupted"], true);
        EXPECT_EQ(said.named("checkpoint").size(), 1U) << "of the last step";
    }
}

TEST_F(Supervise, StartsRanksThroughALauncher) {
    const std::string seen = testing::TempDir() + "launched";
    const std::string launch = fmt::format("sh -c 'echo {{ranks}} >{}; exec \"$@\"' sh", seen);
    const Said said = perform(words({"--steps", "1", "--supervise", "--launch", launch}));
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(content_of(seen), "2\n");
    EXPECT_EQ(said.named("end").size(), 1U);
}

TEST_F(Supervise, SurvivesTheLossOfARankThatIsAProcess) {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed here";
    for (const auto& [name, value] : kMpiSettings)
        setenv(name.c_str(), value.c_str(), 1);
    const std::string whole_path = path_ + "-whole";
    const int steps = sanitized() ? 10 : 30;  // it is killed long before the end
    const std::string last = std::to_string(steps);
    const Said whole = perform(words({"--steps", last}, {}, whole_path));
    pid_t process = 0;
    bool killed = false;
    std::map<std::int64_t, pid_t> ranks;
    const Said said = perform(
        words({"--steps", last, "--supervise", "--launch", "mpirun --oversubscribe -n {ranks}",
               "--flight-record", testing::TempDir() + "flight"}),
        [&](RunningProgram&, const json& event) {
            if (event["event"] == "attempt") process = event["process"];
            if (event["event"] != "checkpoint" || killed) return;
            killed = true;
            ranks = ranks_of_mpirun(process);
            ASSERT_EQ(ranks.size(), 2U);
            kill(ranks.at(1), SIGKILL);
        });
    for (const auto& [name, value] : kMpiSettings)
        unsetenv(name.c_str());
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.named("attempt").size(), 2U) << said.err;
    EXPECT_EQ(shards(path_, steps), shards(whole_path, steps))
        << "threads or processes, killed or not";
    for (const auto& [rank, pid] : ranks)
        EXPECT_TRUE(ends_soon(pid)) << "rank " << rank;
    fs::remove_all(whole_path);
}

TEST_F(Supervise, RefusesWhatNoRestartHelps) {
    const Said invalid = perform(words({"--supervise"}, {"layout.tensor_parallel=3"}));
    EXPECT_EQ(invalid.code, 3);
    EXPECT_EQ(invalid.named("attempt").size(), 0U);
    const Said elastic =
        perform(words({"--supervise"}, {R"(run.elastic_layouts=[{"tensor_parallel": 3}])"}));
    EXPECT_EQ(elastic.code, 3) << "before it is needed";
    EXPECT_THAT(elastic.err, HasSubstr("/run/elastic_layouts/0/tensor_parallel"));
    const Said data = perform(words({"--supervise"}, {"run.data=/nowhere"}));
    EXPECT_EQ(data.code, 5);
    EXPECT_EQ(data.named("attempt").size(), 1U);
    EXPECT_EQ(perform(words({"--launch", "env"})).code, 2);
    EXPECT_EQ(perform({"train", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json",
                       "--supervise", "--json"})
                  .code,
              2)
        << "nothing to go on from";
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
