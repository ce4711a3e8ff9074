// Ranks that are processes perform one run or none: whatever one of them was told otherwise, all
// end with exit code 2 before the first step, and say which rank, what, and both values.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/cli/launched_world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

struct Difference {
    const char* name;
    std::vector<std::string> words;  // of rank 1
    std::string said;                // of what differs
};

void PrintTo(const Difference& difference, std::ostream* out) {
    *out << difference.name;
}

class Agreement : public testing::TestWithParam<Difference> {
  protected:
    Agreement() {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        std::ofstream(folder_ + "/data.txt") << std::string(4000, 'a') << std::string(4000, 'b');
        std::ofstream(folder_ + "/other.txt") << std::string(4000, 'b') << std::string(4000, 'a');
        fs::copy_file(folder_ + "/data.txt", folder_ + "/copy.txt");
    }
    ~Agreement() override { fs::remove_all(folder_); }

    static Words words() {
        Words all = {program("orrery-run"), "train",
                     std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json", "--json"};
        for (const char* set :
             {"layout.data_parallel=2", "layout.tensor_parallel=1", "layout.pipeline_parallel=1",
              "layout.global_batch_size=8", "training.sequence_length=32", "run.steps=3",
              "run.data=data.txt", "run.checkpoint={\"path\": \"saved\", \"every_steps\": 3}"})
            all.insert(all.end(), {"--set", set});
        return all;
    }

    std::vector<Outcome> perform(const std::vector<std::string>& of_rank_1) const {
        const std::int64_t port = runtime::free_loopback_port();
        std::vector<std::unique_ptr<Running>> ranks;
        for (std::int64_t rank = 0; rank < 2; ++rank) {
            Words all = words();
            if (rank == 1) all.insert(all.end(), of_rank_1.begin(), of_rank_1.end());
            ranks.push_back(std::make_unique<Running>(all, torchruns_settings(rank, 2, port),
                                                      folder_,
                                                      fmt::format("{}/err.{}", folder_, rank)));
        }
        std::vector<Outcome> outcomes;
        for (const auto& rank : ranks)
            outcomes.push_back(rank->outcome());
        return outcomes;
    }

    std::string folder_ = testing::TempDir() + "agreement";
};

TEST_P(Agreement, IsRequiredOfEverythingThatTheRunDependsOn) {
    for (const Outcome& rank : perform(GetParam().words)) {
        EXPECT_EQ(rank.code, 2) << rank.err;
        EXPECT_THAT(rank.err, AllOf(HasSubstr("rank 1 on "), HasSubstr("differs from rank 0 on "),
                                    HasSubstr(GetParam().said)));
        EXPECT_THAT(rank.out, Not(HasSubstr("{\"event\":\"step\"")));
    }
    EXPECT_FALSE(fs::exists(folder_ + "/saved/step-00000003"));
}

Difference set(const char* name, const std::string& assignment, const std::string& said) {
    return {name, {"--set", assignment}, said};
}

INSTANTIATE_TEST_SUITE_P(
    All, Agreement,
    testing::Values(
        set("learning_rate", "training.optimizer.learning_rate=0.5",
            "/training/optimizer/learning_rate: 0.5 there"),
        set("weight_decay", "training.optimizer.weight_decay=0.25",
            "/training/optimizer/weight_decay: 0.25 there"),
        set("clip_norm", "training.optimizer.clip_norm=0.125",
            "/training/optimizer/clip_norm: 0.125 there"),
        set("seed", "training.seed=9", "/training/seed: 9 there, 1234 here"),
        set("attention_kernel", "training.attention_kernel=unfused",
            "attention_kernel/value: \"unfused\" there"),
        set("micro_batch", "layout.micro_batch_size=2", "/layout/micro_batch_size: 2 there"),
        set("warm_up", "training.schedule.warmup_steps=2", "/training/schedule/warmup_steps"),
        set("activation", "model.layer_norm_epsilon=0.001", "there"),
        set("zero_stage", "layout.zero_stage=1", "/layout/zero_stage: 1 there, 0 here"),
        set("data", "run.data=other.txt", "the content of run.data: "),
        set("last_step", "run.steps=4", "/run/steps: 4 there, 3 here"),
        set("every_steps", "run.checkpoint.every_steps=1", "/run/checkpoint/every_steps"),
        Difference{"steps_option", {"--steps", "2"}, "--steps: 2 there, 3 here"},
        Difference{"resume", {"--resume"}, "--resume: given there, not given here"}),
    [](const auto& tested) { return std::string(tested.param.name); });

// The same data may lie elsewhere on another machine.
TEST_F(Agreement, IsNotAskedOfWhereDataLie) {
    for (const Outcome& rank : perform({"--set", "run.data=copy.txt"}))
        EXPECT_EQ(rank.code, 0) << rank.err;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
