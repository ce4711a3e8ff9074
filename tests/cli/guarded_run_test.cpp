// What must not ruin a run, or its checkpoints, in silence: a second run in the same folder, closed
// descriptors, signals, limits, data and checkpoints that change or vanish.
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/running_program.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::string text_of_file(const std::string& path) {
    return content_of(path);
}

class GuardedRun : public testing::Test {
  protected:
    GuardedRun() {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        std::string words;
        for (int i = 0; i < 3000; ++i)
            words += fmt::format("{} ", i * i);
        std::ofstream(data_) << words;
    }
    ~GuardedRun() override { fs::remove_all(folder_); }

    std::vector<std::string> train(const std::vector<std::string>& options,
                                   const std::vector<std::string>& more = {}) const {
        std::vector<std::string> all = {
            "train", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json", "--json"};
        std::vector<std::string> sets = {
            "layout.data_parallel=1",      "layout.tensor_parallel=2",
            "layout.pipeline_parallel=1",  "layout.global_batch_size=2",
            "training.sequence_length=32", "training.schedule.decay=constant",
            "run.data=" + data_,           "run.checkpoint.every_steps=5",
            "run.checkpoint.path=" + path_};
        sets.insert(sets.end(), more.begin(), more.end());
        for (const std::string& set : sets)
            all.insert(all.end(), {"--set", set});
        all.insert(all.end(), options.begin(), options.end());
        return all;
    }

    // By a shell, which may close descriptors or set limits `before`.
    Outcome perform(const std::string& name, const std::vector<std::string>& words,
                    const std::string& before = "", const std::string& redirections = "") const {
        std::string command = before + " " + program(name);
        for (const std::string& word : words)
            command += " '" + word + "'";
        const std::string base = folder_ + "/said";
        const std::string into =
            redirections.empty() ? fmt::format(">{0}.out 2>{0}.err", base) : redirections;
        const int status = std::system(fmt::format("( {} {} )", command, into).c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(base + ".out"),
                content_of(base + ".err")};
    }

    void remove_manifest(int step) const {
        fs::remove(fmt::format("{}/step-{:08}/manifest.json", path_, step));
    }

    std::string folder_ = testing::TempDir() + "guarded";
    std::string path_ = folder_ + "/saved";
    std::string data_ = folder_ + "/data.txt";
};

TEST_F(GuardedRun, ASecondRunInItsFolderIsRefusedByName) {
    RunningProgram first("orrery-run", train({"--steps", "100000000"}));
    while (const auto event = first.next_event())
        if ((*event)["event"] == "checkpoint") break;
    for (const bool resumes : {false, true}) {
        std::vector<std::string> words = train({"--steps", "7"});
        if (resumes) words.emplace_back("--resume");
        const Outcome second = perform("orrery-run", words);
        EXPECT_EQ(second.code, 8);
        EXPECT_THAT(second.err, AllOf(HasSubstr(path_),
                                      HasSubstr(fmt::format("process {} on ", first.process()))));
        EXPECT_FALSE(fs::exists(folder_ + "/flight-record")) << "nothing that is the first one's";
    }
    const Outcome supervised = perform("orrery-run", train({"--steps", "7", "--supervise"}));
    EXPECT_EQ(supervised.code, 8);
    EXPECT_THAT(supervised.err, HasSubstr(fmt::format("process {} on ", first.process())));
    kill(first.process(), SIGTERM);
    EXPECT_EQ(first.exit_code(), 130);
    EXPECT_EQ(perform("orrery-run", train({"--steps", "1"})).code, 0);
}

TEST_F(GuardedRun, ASupervisorHasTheFolderBetweenItsRuns) {
    RunningProgram supervisor("orrery-run", train({"--steps", "100000000", "--supervise"}));
    while (const auto event = supervisor.next_event())
        if ((*event)["event"] == "checkpoint") break;
    for (const char* option : {"--resume", "--supervise"}) {
        const Outcome other = perform("orrery-run", train({"--steps", "7", option}));
        EXPECT_EQ(other.code, 8) << option;
        EXPECT_THAT(other.err, HasSubstr(fmt::format("process {} on ", supervisor.process())));
    }
    kill(supervisor.process(), SIGTERM);
    EXPECT_EQ(supervisor.exit_code(), 130);
}

// Where 0, 1 or 2 is closed, the next file gets that number, and text for people lands in it.
TEST_F(GuardedRun, ClosedDescriptorsWriteNothingIntoFiles) {
    const std::string run = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json";
    const std::string out = folder_ + "/out";
    std::map<std::string, std::string> whole;
    for (int closed = 0; closed < 8; ++closed) {
        SCOPED_TRACE(fmt::format("closed {:03b}", closed));
        std::string redirections;
        redirections += (closed & 1) != 0 ? " <&-" : " </dev/null";
        redirections += (closed & 2) != 0 ? " >&-" : " >/dev/null";
        redirections += (closed & 4) != 0 ? " 2>&-" : " 2>/dev/null";
        fs::remove_all(path_);
        fs::remove_all(out);
        fs::create_directory(out);
        EXPECT_EQ(perform("orrery-run", train({"--steps", "10"}), "", redirections).code, 0);
        EXPECT_EQ(perform("orrery-run", train({"--steps", "10", "--resume"})).code, 0);
        EXPECT_EQ(
            perform("orrery-run", {"export", path_, "--hf", out + "/hf"}, "", redirections).code,
            0);
        EXPECT_EQ(
            perform("orrery", {"simulate", run, "--trace", out + "/t.orrery"}, "", redirections)
                .code,
            0);
        EXPECT_EQ(
            perform("orrery", {"convert", out + "/t.orrery", out + "/t.json"}, "", redirections)
                .code,
            0);
        const std::string source = ORRERY_SOURCE_DIR;
        EXPECT_EQ(perform("orrery",
                          {"import", source + "/tests/cli/imports/llama3-70b-slurm.sh", "--cluster",
                           "clusters/h100-sxm-256.json", "-o", out + "/imported.json"},
                          "", redirections)
                      .code,
                  0);
        EXPECT_EQ(
            perform("orrery",
                    {"fit", source + "/scenarios/profiles/sources/h100-96gb-sxm.datasheet.json",
                     "--output", out + "/profile.json"},
                    "", redirections)
                .code,
            0);
        std::map<std::string, std::string> written;
        for (const std::string& file :
             {out + "/t.orrery", out + "/t.json", out + "/imported.json", out + "/profile.json",
              out + "/hf/config.json", out + "/hf/model.safetensors",
              path_ + "/step-00000010/rank-00000.safetensors",
              path_ + "/step-00000010/rank-00001.safetensors"})
            written[file] = text_of_file(file);
        if (closed == 0) whole = written;
        for (const auto& [file, bytes] : written)
            EXPECT_TRUE(bytes == whole[file] && !bytes.empty()) << file;
    }
}

TEST_F(GuardedRun, EachSignalThatAsksForTheEndSavesFirst) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
        for (const bool supervised : {false, true}) {
            SCOPED_TRACE(fmt::format("signal {}, supervised {}", signal, supervised));
            fs::remove_all(path_);
            std::vector<std::string> words =
                train({"--steps", "100000000"}, {"run.checkpoint.every_steps=1000000"});
            if (supervised) words.emplace_back("--supervise");
            // Of nohup a run inherits, and keeps, that hangups are ignored.
            const auto inherited = std::signal(signal, SIG_DFL);
            RunningProgram run("orrery-run", words);
            std::signal(signal, inherited);
            std::int64_t last = 0, saved = -1;
            while (const auto event = run.next_event()) {
                if ((*event)["event"] != "step") continue;
                last = (*event)["step"];
                break;
            }
            kill(run.process(), signal);
            while (const auto event = run.next_event()) {
                if ((*event)["event"] == "step") last = (*event)["step"];
                if ((*event)["event"] == "checkpoint") saved = (*event)["step"];
            }
            EXPECT_EQ(run.exit_code(), 130);
            EXPECT_EQ(saved, last);
        }
}

TEST_F(GuardedRun, ALimitOnFilesIsAnErrorOfStorage) {
    const Outcome outcome = perform("orrery-run", train({"--steps", "10"}), "ulimit -f 100;");
    EXPECT_EQ(outcome.code, 8);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(path_), HasSubstr("File too large")));
}

TEST_F(GuardedRun, OtherDataOfTheSameLengthAreNoticed) {
    ASSERT_EQ(perform("orrery-run", train({"--steps", "5"})).code, 0);
    std::string text = text_of_file(data_);
    std::reverse(text.begin(), text.end());
    const std::string other = folder_ + "/other.txt";
    std::ofstream(other) << text;
    const Outcome resumed =
        perform("orrery-run", train({"--steps", "6", "--resume"}, {"run.data=" + other}));
    EXPECT_EQ(resumed.code, 0);
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("warning"), HasSubstr(data_),
                                   HasSubstr("other content"), HasSubstr(other)));
    fs::copy_file(data_, folder_ + "/same.txt");
    const Outcome same = perform(
        "orrery-run", train({"--steps", "7", "--resume"}, {"run.data=" + folder_ + "/same.txt"}));
    EXPECT_THAT(same.err, HasSubstr("other content"));  // the step before was on the other
    fs::remove_all(path_);
    ASSERT_EQ(perform("orrery-run", train({"--steps", "5"})).code, 0);
    EXPECT_EQ(perform("orrery-run",
                      train({"--steps", "7", "--resume"}, {"run.data=" + folder_ + "/same.txt"}))
                  .err,
              "");
}

TEST_F(GuardedRun, DataThatAreRewrittenInPlaceEndIt) {
    RunningProgram run("orrery-run", train({"--steps", "100000000"}));
    while (const auto event = run.next_event())
        if ((*event)["event"] == "checkpoint") break;
    {
        std::fstream file(data_, std::ios::in | std::ios::out);
        file << std::string(4000, 'z');
    }
    std::string said;
    while (const auto event = run.next_event())
        if ((*event)["event"] == "error") said = (*event)["message"];
    EXPECT_EQ(run.exit_code(), 5);
    EXPECT_THAT(said, AllOf(HasSubstr(data_), HasSubstr("wrote into it")));
}

TEST_F(GuardedRun, DataThatAreCutOffEndItWithARecord) {
    std::ofstream(data_, std::ios::app) << std::string(100'000, 'x');  // of many pages
    RunningProgram run("orrery-run",
                       train({"--steps", "100000000", "--flight-record", folder_ + "/flight"}));
    while (const auto event = run.next_event())
        if ((*event)["event"] == "checkpoint") break;
    fs::resize_file(data_, 0);
    std::string said;
    while (const auto event = run.next_event())
        if ((*event)["event"] == "error") said = (*event)["message"];
    EXPECT_EQ(run.exit_code(), 5);
    EXPECT_THAT(said, AllOf(HasSubstr(data_), HasSubstr("and has 0 now")));
    EXPECT_TRUE(fs::exists(folder_ + "/flight/rank-00000.json"));
}

// A run that keeps one removes the newest while others open it.
TEST_F(GuardedRun, AnExportBesideItTakesTheNextOneInsteadOfSpeakingOfDamage) {
    RunningProgram running(
        "orrery-run",
        train({"--steps", "100000000"}, {"run.checkpoint.every_steps=1", "run.checkpoint.keep=1"}));
    while (const auto event = running.next_event())
        if ((*event)["event"] == "checkpoint") break;
    std::thread reader([&] {  // or the pipe fills and the run waits
        while (running.next_event()) {
        }
    });
    for (int i = 0; i < 20; ++i) {
        const Outcome exported = perform("orrery-run", {"export", path_, "--hf", folder_ + "/hf"});
        EXPECT_EQ(exported.code, 0) << exported.err;
    }
    kill(running.process(), SIGTERM);
    reader.join();
    EXPECT_EQ(running.exit_code(), 130);
}

TEST_F(GuardedRun, WhatTheMachineRefusesIsSaidInWords) {
    if (sanitized()) GTEST_SKIP() << "AddressSanitizer needs more room than any limit leaves";
    const Outcome no_memory = perform("orrery-run", train({"--steps", "1"}), "ulimit -v 200000;");
    EXPECT_EQ(no_memory.code, 6) << no_memory.err;
    EXPECT_THAT(no_memory.err, HasSubstr("the machine gave no "));
    const Outcome no_folder =
        perform("orrery-run", train({"--steps", "1"}, {"run.checkpoint.path=relative"}),
                fmt::format("mkdir {0}/gone; cd {0}/gone; rmdir ../gone;", folder_));
    EXPECT_EQ(no_folder.code, 8) << no_folder.err;
    EXPECT_THAT(no_folder.err, Not(HasSubstr("internal error")));
}

TEST_F(GuardedRun, ACheckpointThatLostItsManifestIsNotPassedOver) {
    ASSERT_EQ(perform("orrery-run", train({"--steps", "10"})).code, 0);
    remove_manifest(10);
    const Outcome resumed = perform("orrery-run", train({"--steps", "12", "--resume"}));
    EXPECT_EQ(resumed.code, 5);
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("step-00000010/manifest.json"),
                                   HasSubstr("older ones are of step 5: --resume-step N")));
    remove_manifest(5);
    EXPECT_EQ(perform("orrery-run", train({"--steps", "12", "--resume"})).code, 5);
}

TEST_F(GuardedRun, APathThatCannotBeWrittenIsFoundBeforeTheFirstStep) {
    std::ofstream(folder_ + "/file") << "x";
    fs::create_symlink("loop", folder_ + "/loop");
    for (const std::string& path :
         {folder_ + "/file", std::string("/dev/null"), folder_ + "/loop",
          folder_ + "/" + std::string(300, 'n'), std::string("/proc/no")}) {
        const Outcome outcome =
            perform("orrery-run", train({"--steps", "3"}, {"run.checkpoint.path=" + path}));
        std::error_code ignored;  // a name that is too long is no file either
        const bool somebodys = fs::is_regular_file(path, ignored);
        EXPECT_EQ(outcome.code, somebodys ? 2 : 8) << path;
        EXPECT_THAT(outcome.out, Not(HasSubstr("\"step\"}"))) << path;
        EXPECT_THAT(outcome.err, HasSubstr(path.substr(0, 40)));
        EXPECT_THAT(outcome.out, Not(HasSubstr("{\"event\":\"step\"")));
    }
}

TEST_F(GuardedRun, ASupervisorMissesWhatItSawPublished) {
    pid_t process = 0;
    RunningProgram run("orrery-run", train({"--steps", "100000000", "--supervise"}));
    bool killed = false;
    std::string why;
    while (const auto event = run.next_event()) {
        if ((*event)["event"] == "attempt") process = (*event)["process"];
        if ((*event)["event"] == "give_up") why = (*event)["why"];
        if ((*event)["event"] != "checkpoint" || killed) continue;
        killed = true;
        kill(process, SIGSTOP);
        fs::rename(path_, path_ + "-moved");
        kill(process, SIGKILL);
    }
    EXPECT_EQ(run.exit_code(), 5);
    EXPECT_THAT(why, AllOf(HasSubstr("was published and is not there any more"),
                           HasSubstr("nor any other")));
}

TEST_F(GuardedRun, ALauncherThatHidesTheEndMakesNoSuccess) {
    const std::string launcher = folder_ + "/launcher";
    std::ofstream(launcher) << "#!/bin/sh\n\"$@\"\nexit 0\n";
    fs::permissions(launcher, fs::perms::owner_all);
    const Outcome outcome = perform(
        "orrery-run", train({"--steps", "5", "--supervise", "--launch", launcher},
                            {"training.optimizer.learning_rate=1e30", "training.precision=fp32"}));
    EXPECT_EQ(outcome.code, 7) << outcome.err;
}

TEST_F(GuardedRun, ACommandThatSaysNothingDoesNotHoldTheSupervisor) {
    RunningProgram run("orrery-run",
                       train({"--steps", "5", "--supervise", "--ranks-left", "sleep 600"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(run.process(), SIGTERM);
    EXPECT_EQ(run.exit_code(), 130);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
