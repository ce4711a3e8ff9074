// Layouts whose ranks are processes under mpirun: the losses and weights of ranks that are threads,
// to the last bit.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/random.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Tokens below 125, as nanoGPT writes them.
void write_tokens(const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    std::uint64_t token = 1;
    for (std::uint64_t i = 0; i < 4096; ++i) {
        token = (token * 5 + 3 + runtime::random_word({7, 0, 0}, i) % 3) % 125;
        const auto word = static_cast<std::uint16_t>(token);
        file.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
}

struct Saved {
    std::vector<double> losses;
    std::vector<std::string> hashes;  // of every tensor of every rank's shard
};

struct ProcessCase {
    const char* text;
    NamedLayout layout;
};
void PrintTo(const ProcessCase& tested, std::ostream* os) {
    *os << tested.layout.name;
}

class Processes : public testing::TestWithParam<ProcessCase> {
  protected:
    Processes() {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        write_tokens(folder_ + "/tokens.bin");
    }
    ~Processes() override { fs::remove_all(folder_); }

    // Trains three steps with `launcher` before the program, and reads what it has left.
    Saved train(const std::string& name, const std::string& launcher, const std::string& options) {
        json scenario = json::parse(GetParam().text);
        scenario["run"] = {{"data", "tokens.bin"},
                           {"format", "nanogpt"},
                           {"steps", 3},
                           {"checkpoint", {{"path", name}, {"every_steps", 3}}}};
        scenario["training"]["precision"] = "fp32";
        std::ofstream(folder_ + "/run.json") << scenario;
        const std::string program =
            fs::read_symlink("/proc/self/exe").replace_filename("orrery-run");
        std::string command = fmt::format("cd '{}' && {} '{}' train run.json --json {}", folder_,
                                          launcher, program, options);
        for (const std::string& set : GetParam().layout.sets)
            command += fmt::format(" --set '{}'", set);
        const int status = std::system((command + " >out 2>err").c_str());
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n"
                                                                   << text_of(folder_ + "/err");
        Saved saved;
        std::ifstream lines(folder_ + "/out");
        for (std::string line; std::getline(lines, line);) {
            const json event = json::parse(line);
            if (event["event"] == "step") saved.losses.push_back(event["loss"]);
            if (event["event"] != "checkpoint") continue;
            const std::string path = folder_ + "/" + event["path"].get<std::string>();
            const json manifest = json::parse(text_of(path + "/manifest.json"))["manifest"];
            for (const json& shard : manifest["shards"])
                for (const json& tensor : shard["tensors"])
                    saved.hashes.push_back(tensor["xxh3_128"]);
        }
        return saved;
    }

    std::string folder_ = testing::TempDir() + "processes";
};

TEST_P(Processes, ComputeWhatThreadsDo) {
    if (std::system("command -v mpirun >/dev/null") != 0)
        GTEST_SKIP() << "mpirun is not installed here";
    const std::int64_t ranks = scenario(GetParam().text, GetParam().layout.sets).layout.ranks();
    const Saved threads = train("of-threads", "", "--launcher none");
    ASSERT_EQ(threads.losses.size(), 3U);
    ASSERT_FALSE(threads.hashes.empty());
    const std::string mpirun = fmt::format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 "
        "mpirun -n {} --oversubscribe",
        ranks);
    // Over MPI where it is built in; every third over TCP as well.
    std::vector<std::string> transports = {"auto"};
    if (GetParam().layout.name.size() % 3 == 0) transports.push_back("tcp");
    for (const std::string& transport : transports) {
        const Saved processes =
            train("of-processes-" + transport, mpirun, "--transport " + transport);
        EXPECT_EQ(processes.losses, threads.losses) << transport;
        EXPECT_EQ(processes.hashes, threads.hashes) << transport;
    }
}

std::vector<ProcessCase> launched_layouts() {
    std::vector<std::string> names = {"tensor_4",
                                      "sequence_2",
                                      "data_2_small_buckets",
                                      "pipeline_4",
                                      "zero1_data_4",
                                      "zero2_sequence_2",
                                      "zero3_pipeline_2",
                                      "zero3_data_4_hybrid",
                                      "context_ring_4",
                                      "zb_h1_sequence",
                                      "sequence_interleaved_data",
                                      "context_exchanged_zero1"};
    if (sanitized()) names.resize(2);
    std::vector<ProcessCase> chosen;
    const auto choose = [&](const char* text, const std::vector<NamedLayout>& layouts,
                            const std::vector<std::string>& among) {
        for (const NamedLayout& each : layouts)
            if (std::find(among.begin(), among.end(), each.name) != among.end())
                chosen.push_back({text, each});
    };
    for (const auto& layouts : {all_layouts(), context_layouts(), zero_bubble_layouts()})
        choose(kGpt, layouts, names);
    const std::vector<std::string> of_experts = {"spread_4_tensor", "spread_2_split_2",
                                                 "zero1_spread_2_data_2"};
    choose(kMixtral, expert_layouts(), of_experts);
    EXPECT_EQ(chosen.size(), names.size() + of_experts.size());
    return chosen;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Processes, testing::ValuesIn(launched_layouts()),
                         [](const auto& tested) { return tested.param.layout.name; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
