#include "cli/launch_script.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kHead = "#!/bin/bash\n#SBATCH --job-name=";
constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

// A job's name is part of names of files, and of a line that no shell reads.
std::string job_name(const std::string& scenario) {
    std::string job = std::filesystem::path(scenario).stem().string();
    for (std::size_t at = 0; (at = job.find_first_not_of(kLetters, at)) != std::string::npos;)
        job[at] = '_';
    return job;
}

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t space = std::min(text.find(' ', from), text.size());
        if (space > from) words.push_back(text.substr(from, space - from));
        from = space + 1;
    }
    return words;
}

std::vector<std::string> launcher_words(const LaunchedRun& run, Launcher launcher) {
    switch (launcher) {
        case Launcher::threads:
        case Launcher::slurm:
            return {};
        case Launcher::srun:
            return {"srun", "--nodes", std::to_string(run.nodes()), "--ntasks",
                    std::to_string(run.ranks)};
        case Launcher::torchrun:
            return {"torchrun",         "--no-python",
                    "--nnodes",         std::to_string(run.nodes()),
                    "--nproc-per-node", std::to_string(run.ranks_per_node())};
        case Launcher::mpirun: {
            std::vector<std::string> words = {"mpirun", "-n", std::to_string(run.ranks)};
            if (run.hosts.empty()) return words;
            const std::string first = run.hosts.substr(0, run.hosts.find_first_of(",:"));
            // Where the first rank is, for ranks that speak over TCP.
            words.insert(words.end(), {"--host", run.hosts, "-x", "MASTER_ADDR=" + first});
            return words;
        }
    }
    ORRERY_CHECK(false, "a launcher without a command");
}

}  // namespace

std::int64_t LaunchedRun::ranks_per_node() const {
    return std::clamp<std::int64_t>(devices_per_node, 1, std::max<std::int64_t>(1, ranks));
}

std::vector<std::string> training_command(const LaunchedRun& run, Launcher launcher,
                                          const std::string& trace) {
    std::vector<std::string> command = launcher_words(run, launcher);
    command.insert(command.end(), {run.program, "train", run.scenario, "--json"});
    if (run.backend != "cpu") command.insert(command.end(), {"--backend", run.backend});
    if (run.steps > 0) command.insert(command.end(), {"--steps", std::to_string(run.steps)});
    if (run.resume) command.emplace_back("--resume");
    if (!trace.empty()) command.insert(command.end(), {"--trace", trace});
    return command;
}

std::string slurm_script(const LaunchedRun& run) {
    const std::string job = job_name(run.scenario);
    const std::int64_t per_node = run.ranks_per_node();
    std::string text = fmt::format("{}{}\n", kHead, job);
    const auto option = [&](const std::string& words) { text += "#SBATCH " + words + '\n'; };
    option(fmt::format("--nodes={}", run.nodes()));
    option(fmt::format("--ntasks={}", run.ranks));
    option(fmt::format("--ntasks-per-node={}", per_node));
    if (run.backend == "cuda") option(fmt::format("--gpus-per-node={}", per_node));
    option(fmt::format("--output={}-%j.log", job));
    text +=
        "# A minute before its time is up the run ends after its step, with a checkpoint where "
        "there are any.\n";
    option("--signal=USR1@60");
    for (const std::string& further : words_of(run.sbatch_options))
        option(further);
    LaunchedRun task = run;
    task.resume = run.resume || run.has_checkpoints;
    return text + fmt::format(
                      "\nset -euo pipefail\nsrun {} --trace \"{}-$SLURM_JOB_ID.orrery\" \\\n"
                      "    >\"{}-$SLURM_JOB_ID.jsonl\"\n",
                      shell_text(training_command(task, Launcher::slurm, "")), job, job);
}

bool is_slurm_script(const std::string& text) {
    return text.starts_with(kHead);
}

std::string shell_text(const std::vector<std::string>& command) {
    const std::string plain = std::string(kLetters) + "/=,:+@%";
    std::string text;
    for (const std::string& word : command) {
        if (!text.empty()) text += ' ';
        if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
            text += word;
            continue;
        }
        text += '\'';
        for (const char c : word)
            text += c == '\'' ? std::string("'\\''") : std::string(1, c);
        text += '\'';
    }
    return text;
}

}  // namespace orrery::cli
