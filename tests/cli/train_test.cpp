// orrery train as its user meets it: the program orrery-run on the shipped scenario, in several
// layouts, with every way to fail.
#include <sys/wait.h>

#include <unistd.h>
#include <csignal>

#include <cmath>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/run/train_run.hpp"
#include "cli/run_subcommands.hpp"
#include "tests/cli/world.hpp"
#include "tests/sanitized.hpp"
#include "trace/accounts.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TempDir;

std::string shipped(const std::string& name) {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name;
}

// The program itself; `arguments` as in a shell.
Outcome train(const std::string& arguments) {
    const std::string base = TempDir() + fmt::format("train-{}", getpid());
    const std::string command =
        fmt::format("{} train {} >{}.out 2>{}.err", program("orrery-run"), arguments, base, base);
    const int status = std::system(command.c_str());
    Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(base + ".out"),
                    content_of(base + ".err")};
    std::filesystem::remove(base + ".out");
    std::filesystem::remove(base + ".err");
    return outcome;
}

Outcome train_tiny(const std::string& arguments) {
    return train(shipped("runs/tiny-gpt.json ") + arguments);
}

std::vector<json> events_of(const std::string& out) {
    std::vector<json> events;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
        events.push_back(json::parse(line));
    return events;
}

std::vector<double> losses_of(const std::vector<json>& events) {
    std::vector<double> losses;
    for (const json& event : events)
        if (event["event"] == "step") losses.push_back(event["loss"]);
    return losses;
}

// The file's plan is performed, whatever layout FILE has beside its run.
TEST(Train, PerformsAPlanFromAFile) {
    const std::string sets = "--set layout.schedule=gpipe --set layout.zero_stage=2";
    const std::string plan = TempDir() + "performed.plan";
    std::filesystem::remove(plan);
    ASSERT_EQ(run({"plan", shipped("runs/tiny-gpt.json"), "--set", "layout.schedule=gpipe", "--set",
                   "layout.zero_stage=2", "--output", plan})
                  .code,
              0);
    json open = json::parse(content_of(shipped("runs/tiny-gpt.json")), nullptr, true, true);
    for (const char* part : {"model", "cluster", "layout", "training", "description"})
        open.erase(part);
    open["run"]["data"] = shipped("data/sample.txt");
    const std::string file = written("run_alone.json", open.dump());
    const Outcome built = train_tiny("--json --steps 4 " + sets);
    ASSERT_EQ(built.code, 0) << built.err;
    for (const std::string& from : {shipped("runs/tiny-gpt.json"), file}) {
        const Outcome read = train(from + " --json --steps 4 --plan " + plan);
        ASSERT_EQ(read.code, 0) << read.err;
        EXPECT_EQ(losses_of(events_of(read.out)), losses_of(events_of(built.out)));
    }
    const Outcome refused = train_tiny("--steps 4 --set cluster.nodes=2 --plan " + plan);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("beside --plan only keys of run can be set"));
}

TEST(Train, PrintsOneJsonObjectPerLine) {
    const Outcome outcome = train_tiny("--json --steps 6");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const std::vector<json> events = events_of(outcome.out);
    ASSERT_EQ(events.size(), 8u);  // start, six steps, end

    const json& start = events.front();
    EXPECT_EQ(start["event"], "start");
    EXPECT_EQ(start["ranks"], 8);
    EXPECT_EQ(start["steps"], 6);
    EXPECT_EQ(start["tokens_per_step"], 16 * 128);  // global_batch_size × sequence_length
    EXPECT_EQ(start["scenario"]["run"]["steps"], 20) << "the scenario's, whatever --steps";
    EXPECT_EQ(start["arena_bytes_by_rank"].size(), 8u);

    std::vector<double> times;
    for (std::size_t i = 1; i <= 6; ++i) {
        const json& step = events[i];
        EXPECT_EQ(step["event"], "step");
        EXPECT_EQ(step["step"], i);
        EXPECT_EQ(step["samples"], 16);
        EXPECT_EQ(step["consumed_samples"], 16 * i);
        EXPECT_GT(step["grad_norm"].get<double>(), 0);
        // 5 steps of warm-up to 3e-3.
        if (i <= 5) {
            EXPECT_DOUBLE_EQ(step["learning_rate"].get<double>(),
                             3e-3 * static_cast<double>(i) / 5);
        }
        times.push_back(step["time_s"]);
        EXPECT_DOUBLE_EQ(step["tokens_per_s"].get<double>(), 16 * 128 / times.back());
        EXPECT_FALSE(step.contains("loss_scale")) << "fp32 has none";
        // mfu × peak × time is the model's FLOPs of a step.
        EXPECT_NEAR(
            step["mfu"].get<double>() * start["peak_tflops"].get<double>() * 1e12 * times.back(),
            start["model_flops_per_step"].get<double>(), 1);
    }

    const json& end = events.back();
    EXPECT_EQ(end["event"], "end");
    EXPECT_EQ(end["interrupted"], false);
    EXPECT_EQ(end["first_loss"], events[1]["loss"]);
    EXPECT_EQ(end["last_loss"], events[6]["loss"]);
    // Three left after the warm-up; the one in the middle.
    std::sort(times.begin() + 3, times.end());
    EXPECT_EQ(end["step_time_s"].get<double>(), times[4]);
    EXPECT_EQ(end["arena_bytes_by_rank"], start["arena_bytes_by_rank"]);
    for (std::size_t rank = 0; rank < 8; ++rank) {
        EXPECT_LE(end["high_water_bytes_by_rank"][rank], end["arena_bytes_by_rank"][rank]);
        EXPECT_GT(end["high_water_bytes_by_rank"][rank], 0);
        EXPECT_GT(end["other_bytes_by_rank"][rank], 0);
    }
}

// Where a rank runs is no part of what it computes.
TEST(Train, BoundRanksTrainTheSameBits) {
    const Outcome free = train_tiny("--json --steps 4 --set run.bind=none");
    const Outcome bound = train_tiny("--json --steps 4 --set run.bind=numa");
    ASSERT_EQ(free.code, 0) << free.err;
    if (bound.code == 4 && bound.err.find("tells of no NUMA nodes") != std::string::npos)
        GTEST_SKIP() << "this kernel has no NUMA nodes";
    ASSERT_EQ(bound.code, 0) << bound.err;
    EXPECT_EQ(losses_of(events_of(bound.out)), losses_of(events_of(free.out)));
    const json of_free = events_of(free.out).front()["binding"];
    EXPECT_EQ(of_free["ranks"], json::array());
    EXPECT_EQ(of_free["why_none"], "run.bind is \"none\"");
    const json of_bound = events_of(bound.out).front()["binding"];
    EXPECT_EQ(of_bound["why_none"], nullptr);
    ASSERT_EQ(of_bound["ranks"].size(), 8U);
    for (std::size_t rank = 0; rank < 8; ++rank) {
        EXPECT_EQ(of_bound["ranks"][rank]["local_rank"], rank);
        EXPECT_NE(of_bound["ranks"][rank]["cores"], "");
        EXPECT_EQ(of_bound["ranks"][rank]["why_not"], nullptr);
    }
    const Outcome told = train_tiny("--steps 1 --set run.bind=numa");
    EXPECT_THAT(told.out, HasSubstr("\n  bound       rank"));
    EXPECT_EQ(train_tiny("--steps 1 --set run.bind=node").code, 3);
}

// ln 256 is the loss of even odds, and random weights are worse than that; the norm's σ of the
// logits, √64 · 0.1, adds half its square on average.
TEST(Train, LayoutsLearnTheSame) {
    const std::string one =
        "--set layout.tensor_parallel=1 --set layout.pipeline_parallel=1 "
        "--set layout.data_parallel=1";
    // Sanitizers slow a step a hundredfold, and learning is not what they look at.
    const std::size_t steps = sanitized() ? 2 : 8;
    const std::size_t all = sanitized() ? steps : 20;
    const std::vector<double> alone =
        losses_of(events_of(train_tiny(fmt::format("{} --json --steps {}", one, all)).out));
    ASSERT_EQ(alone.size(), all);
    EXPECT_NEAR(alone.front(), std::log(256) + 0.8 * 0.8 / 2, 0.2);
    if (!sanitized()) {
        EXPECT_LT(alone.back(), 0.7 * alone.front());
    }
    for (std::size_t i = 1; i < alone.size(); ++i)
        EXPECT_LT(alone[i], alone[i - 1] + 0.1) << "a spike at step " << i + 1;
    for (const char* layout : {"",
                               "--set layout.tensor_parallel=8 --set layout.sequence_parallel=true "
                               "--set layout.pipeline_parallel=1 --check-memory",
                               "--set layout.tensor_parallel=1 --set layout.pipeline_parallel=4 "
                               "--set layout.zero_stage=1 --set layout.recompute=full"}) {
        const Outcome outcome = train_tiny(fmt::format("{} --json --steps {}", layout, steps));
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        const std::vector<double> losses = losses_of(events_of(outcome.out));
        ASSERT_EQ(losses.size(), steps) << layout;
        // fp32 sums in another order; the differences grow slowly from 2^-24.
        for (std::size_t i = 0; i < losses.size(); ++i)
            EXPECT_NEAR(losses[i], alone[i], 1e-3) << layout << ", step " << i + 1;
    }
}

TEST(Train, PrintsWhatItDoesToPeople) {
    const unsigned cores = std::thread::hardware_concurrency();  // fewer than threads of 8 ranks
    const Outcome outcome =
        train_tiny(fmt::format("--steps 2 --set run.threads_per_rank={}", cores));
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("training tiny-gpt on 8 CPU ranks\n"));
    EXPECT_THAT(outcome.out, HasSubstr("tensor 2 x pipeline 2 x data 2"));
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("{} per rank", cores)));
    EXPECT_THAT(outcome.out, HasSubstr("ranks will take turns"));
    EXPECT_THAT(outcome.out, HasSubstr("done: 2 steps of 2\n"));
    EXPECT_THAT(outcome.err, HasSubstr("step 1/2   loss 5."));
    EXPECT_THAT(outcome.err, HasSubstr("step 2/2   loss 5."));
    EXPECT_EQ(outcome.err.find('\r'), std::string::npos) << "a file is no terminal";
}

void expect_events_in_order(const trace::Trace& trace) {
    for (const trace::Track& track : trace.tracks) {
        const trace::ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
        ASSERT_EQ(track.events.size(), program.op.size()) << "an event for every op";
        std::array<trace::Picoseconds, plan::kStreams> ended{};
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const trace::Event event = track.events[i];
            EXPECT_LE(0, event.ready);
            EXPECT_LE(event.ready, event.start);
            EXPECT_LE(event.start, event.end);
            EXPECT_LE(event.end, trace.step_end);
            auto& last = ended[plan::index_of(trace.op_of(track, i).stream)];
            EXPECT_GE(event.end, last) << "a stream performs its ops one after the other";
            last = event.end;
        }
        trace::Picoseconds sum = 0;
        for (const trace::Picoseconds part : trace::accounts_of(trace, track))
            sum += part;
        EXPECT_EQ(sum, trace.step_end - trace.step_start) << "accounts of rank " << track.rank;
    }
}

TEST(Train, WritesTheLastStepAsATrace) {
    const std::string path = TempDir() + fmt::format("measured-{}.orrery", getpid());
    const Outcome outcome = train_tiny("--json --steps 2 --trace " + path);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const trace::Trace trace = trace::read_trace(path);
    EXPECT_EQ(trace.origin, trace::Origin::measured);
    ASSERT_EQ(trace.tracks.size(), 8u);
    expect_events_in_order(trace);

    const std::vector<json> events = events_of(outcome.out);
    EXPECT_EQ(trace.facts.backend, "cpu");
    EXPECT_EQ(json(trace.facts.arena_bytes), events.back()["arena_bytes_by_rank"]);
    EXPECT_EQ(json(trace.facts.step_times_s), json::array({events[2]["time_s"]}));
    EXPECT_EQ(*trace.facts.storage.data_wait_s, events[2]["data_wait_s"].get<double>());
    EXPECT_FALSE(trace.facts.storage.save_bytes.has_value());

    EXPECT_EQ(run({"convert", path, TempDir() + fmt::format("measured-{}.json", getpid())}).code,
              0);
    const std::string predicted = TempDir() + fmt::format("predicted-{}.orrery", getpid());
    EXPECT_EQ(run({"simulate", shipped("runs/tiny-gpt.json"), "--trace", predicted}).code, 0);
    const Outcome compared = run({"compare", predicted, path, "--json"});
    EXPECT_EQ(compared.code, 0) << compared.err;
    const json memory = json::parse(compared.out)["memory"];
    EXPECT_EQ(memory["predicted_peak_bytes"], memory["measured_peak_bytes"]);
}

TEST(Train, GrowingBatchesAreReported) {
    const Outcome outcome = train_tiny(
        "--json --steps 3 --set training.batch_ramp.start_batch_size=8 "
        "--set training.batch_ramp.increment=8 --set training.batch_ramp.over_samples=8");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<json> events = events_of(outcome.out);
    EXPECT_EQ(events[1]["samples"], 8);
    EXPECT_EQ(events[2]["samples"], 16);
    EXPECT_EQ(events[3]["consumed_samples"], 8 + 16 + 16);
    // Of two whole steps, fewer than 4, the last.
    EXPECT_EQ(events[4]["step_time_s"], events[3]["time_s"]);
}

TEST(Train, OverflowOfTheLossScaleSkipsTheStep) {
    const Outcome outcome = train_tiny(
        "--json --steps 2 --set training.precision=fp16 --set training.loss_scale.initial=1e30 "
        "--set training.loss_scale.hysteresis=1");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<json> events = events_of(outcome.out);
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[1]["event"], "skip");
    EXPECT_EQ(events[1]["reason"], "overflow");
    EXPECT_EQ(events[1]["loss_scale"].get<double>(), static_cast<double>(1e30F));
    EXPECT_EQ(events[2]["loss_scale"].get<double>(), static_cast<double>(1e30F / 2));
}

// The first update throws the model off.
TEST(Train, ASpikeOfTheLossSkipsTheStep) {
    const std::string spike =
        "--steps 3 --set training.optimizer.learning_rate=10 "
        "--set training.loss_spike.skip_above=1.5 --set training.loss_spike.window=1";
    const Outcome outcome = train_tiny("--json " + spike);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<json> events = events_of(outcome.out);
    ASSERT_EQ(events.size(), 5u);
    EXPECT_EQ(events[1]["event"], "step");
    for (std::size_t step : {2U, 3U}) {
        EXPECT_GT(events[step]["loss"], 1.5 * events[1]["loss"].get<double>());
        EXPECT_EQ(events[step]["event"], "skip");
        EXPECT_EQ(events[step]["reason"], "loss spike");
    }
    EXPECT_THAT(train_tiny(spike).err, HasSubstr("not taken: the loss spiked"));
}

void expect_refusal(const std::string& arguments, int code, const std::string& message) {
    const Outcome text = train_tiny(arguments);
    EXPECT_EQ(text.code, code) << arguments;
    EXPECT_EQ(text.out, "") << arguments;
    EXPECT_THAT(text.err, HasSubstr(message)) << arguments;
    const Outcome lines = train_tiny(arguments + " --json");
    EXPECT_EQ(lines.code, code) << arguments;
    EXPECT_EQ(lines.err, text.err) << arguments;
    const std::vector<json> events = events_of(lines.out);
    ASSERT_EQ(events.size(), 1u) << arguments;
    EXPECT_EQ(events[0]["event"], "error");
    EXPECT_TRUE(events[0]["message"].is_string());
}

TEST(Train, InvalidScenariosAre3WithAllErrors) {
    const std::string both = "--set layout.tensor_paralel=2 --set training.precision=int8";
    expect_refusal(both, 3, "2 errors; nothing was run.");
    EXPECT_EQ(events_of(train_tiny(both + " --json").out)[0]["errors"].size(), 2u);
    expect_refusal("--set layout.expert_parallel=2", 3, "error[S038]");
}

TEST(Train, ScenariosThatCannotBeTrainedAre3) {
    expect_refusal("--set run={}", 3, "error[T001]: there is nothing to train on");
    expect_refusal("--set run={}", 3, "--set run.data=data/sample.txt");
    expect_refusal("--set run={} --set training.schedule.decay=constant", 3,
                   "error[T002]: the run has no last step");
    expect_refusal("--set training.loss_logits=gathered", 3, "error[T105]");
    expect_refusal("--set training.cuda_graphs=per_layer", 3,
                   "error[T107]: a CPU rank issues nothing that CUDA graphs could hold");
    expect_refusal("--set training.precision=bf16 --set training.optimizer.exp_avg_dtype=fp8", 3,
                   "error[T108]");
}

TEST(Train, UnreadableDataAre5) {
    expect_refusal("--set run.data=nowhere.txt", 5, "nowhere.txt");
    const std::string path = written("train-short.txt", "too short");
    expect_refusal("--set run.data=" + path, 5, path);
    EXPECT_EQ(train("/no/such/file.json").code, 5);
}

// A token that the vocabulary lacks is found when it is read: by then the run has begun.
TEST(Train, ATokenOutsideTheVocabularyEndsTheRunWith5) {
    const std::string path = written("train-tokens.bin", std::string(4096, '\xff'));
    const Outcome outcome = train_tiny("--json --set run.data=" + path + " --flight-record " +
                                       testing::TempDir() + "records");
    EXPECT_EQ(outcome.code, 5) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("orrery train: " + path));
    const std::vector<json> events = events_of(outcome.out);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0]["event"], "start");
    EXPECT_EQ(events[1]["event"], "error");
    EXPECT_THAT(events[1]["message"].get<std::string>(), HasSubstr(path));
}

TEST(Train, ArenasLargerThanTheMachineAre4) {
    const Outcome outcome = train(shipped("runs/llama3.1-405b-h100x16384.json") +
                                  " --set run.data=data/sample.txt --set run.steps=1");
    EXPECT_EQ(outcome.code, 4) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("this machine has"));
}

TEST(Train, UsageIs2) {
    EXPECT_EQ(train("").code, 2);
    EXPECT_EQ(train_tiny("--steps 0").code, 2);
    EXPECT_EQ(train_tiny("--steps many").code, 2);
    EXPECT_EQ(train_tiny("--trace step.txt").code, 2);
    EXPECT_EQ(train_tiny("--set layout").code, 2);
    const Outcome misspelt = train_tiny("--jsn");
    EXPECT_EQ(misspelt.code, 2);
    EXPECT_THAT(misspelt.err, HasSubstr("did you mean '--json'?"));
}

// These programs are built without CUDA.
TEST(Train, ABackendThatIsNotThereIs6AndWhatItCannotDoIs3) {
    const Outcome missing = train_tiny("--backend cuda --steps 1");
    EXPECT_EQ(missing.code, 6);
    EXPECT_EQ(missing.err,
              "orrery train: this program was built without CUDA: ./orrery build cuda\n");
    const Outcome refused = train_tiny("--backend cuda --steps 1 --set training.precision=fp64");
    EXPECT_EQ(refused.code, 3);
    EXPECT_THAT(refused.err, HasSubstr("error[T101]"));
    EXPECT_EQ(train_tiny("--backend cuda --json").code, 6);
    EXPECT_EQ(train_tiny("--backend tpu").code, 2);
    EXPECT_EQ(train_tiny("--ranks-per-gpu 2").code, 2);
}

TEST(Train, APredictedTraceSaysHowLongCallsMayTake) {
    const std::string predicted = TempDir() + "expected.orrery";
    ASSERT_EQ(run({"simulate", shipped("runs/tiny-gpt.json"), "--trace", predicted}).code, 0);
    const Outcome outcome = train_tiny("--steps 1 --json --expect " + predicted);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(train_tiny("--steps 1 --expect /missing.orrery").code, 5);
    ASSERT_EQ(run({"simulate", shipped("runs/tiny-gpt.json"), "--trace", predicted, "--set",
                   "training.sequence_length=64"})
                  .code,
              0);
    const Outcome other = train_tiny("--steps 1 --expect " + predicted);
    EXPECT_EQ(other.code, 3);
    EXPECT_THAT(other.err, HasSubstr("/training/sequence_length: there 64, here "));
}

// Reads lines until one holds `text`.
bool read_until(FILE* stream, const std::string& text, std::string& all) {
    char line[65536];
    while (std::fgets(line, sizeof line, stream) != nullptr) {
        all += line;
        if (std::string(line).find(text) != std::string::npos) return true;
    }
    return false;
}

struct Child {
    pid_t pid = 0;
    FILE* out = nullptr;
};

Child start_long_run() {
    int pipe_ends[2];
    EXPECT_EQ(pipe(pipe_ends), 0);
    const std::string scenario = shipped("runs/tiny-gpt.json");
    const std::string binary = program("orrery-run");
    const std::string records = testing::TempDir() + "records";
    const pid_t pid = fork();
    if (pid == 0) {
        std::signal(SIGINT, SIG_DFL);  // a shell's background has it ignored, and runs keep that
        dup2(pipe_ends[1], STDOUT_FILENO);
        execl(binary.c_str(), binary.c_str(), "train", scenario.c_str(), "--json", "--steps",
              "1000000", "--flight-record", records.c_str(), nullptr);
        _exit(127);
    }
    close(pipe_ends[1]);
    return {pid, fdopen(pipe_ends[0], "r")};
}

int exit_code_of(const Child& child) {
    int status = 0;
    waitpid(child.pid, &status, 0);
    std::fclose(child.out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Train, AnInterruptEndsAfterTheStep) {
    for (const int signal : {SIGINT, SIGTERM}) {
        const Child child = start_long_run();
        std::string all;
        ASSERT_TRUE(read_until(child.out, "\"step\":2,", all));
        kill(child.pid, signal);
        ASSERT_TRUE(read_until(child.out, "\"event\":\"end\"", all));
        EXPECT_EQ(exit_code_of(child), 130);
        const std::vector<json> events = events_of(all);
        EXPECT_EQ(events.back()["interrupted"], true);
        EXPECT_EQ(events.back()["step"], events[events.size() - 2]["step"]);
    }
}

// What the wrapper starts orrery-run for, and what that has.
TEST(Train, TheWrapperKnowsTheSubcommandsOfTheSecondProgram) {
    std::string names;
    for (const RunSubcommand& subcommand : kRunSubcommands)
        names += (names.empty() ? "" : " ") + std::string(subcommand.name);
    EXPECT_THAT(content_of(std::string(ORRERY_SOURCE_DIR) + "/orrery"),
                HasSubstr("\nrun_subcommands=(" + names + ")\n"));
    EXPECT_THAT(run({"train", "x.json", "--json"}).err, HasSubstr("orrery-run"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
