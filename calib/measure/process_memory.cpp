#include "calib/measure/process_memory.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/ir/link.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::measure {
namespace {

namespace fs = std::filesystem;
using Sets = std::vector<std::string>;

// Few and many ops, one rank and several, of each kind of parallelism; a wider model.
std::vector<Sets> runs() {
    const auto layout = [](int tensor, int pipeline, int data, const char* more) {
        Sets sets{fmt::format("layout.tensor_parallel={}", tensor),
                  fmt::format("layout.pipeline_parallel={}", pipeline),
                  fmt::format("layout.data_parallel={}", data), "run.threads_per_rank=1"};
        if (*more != '\0') sets.emplace_back(more);
        return sets;
    };
    return {layout(1, 1, 1, ""),
            layout(1, 1, 1, "layout.micro_batch_size=4"),
            layout(1, 1, 1, "layout.global_batch_size=64"),
            layout(1, 1, 1, "model.n_layer=12"),
            layout(1, 1, 1, "model.n_embd=256"),
            layout(1, 1, 2, ""),
            layout(2, 1, 1, ""),
            layout(1, 2, 1, ""),
            layout(1, 1, 2, "layout.zero_stage=3"),
            layout(1, 1, 4, ""),
            layout(2, 2, 1, ""),
            layout(1, 1, 8, ""),
            layout(2, 2, 2, "")};
}

// A folder that goes with the object.
class OwnFolder {
  public:
    OwnFolder() {
        std::string name = (fs::temp_directory_path() / "orrery-calibrate-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw fit::FitError(fmt::format("{}: {}", name, std::strerror(errno)));
        path_ = name;
    }
    ~OwnFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    OwnFolder(const OwnFolder&) = delete;
    OwnFolder& operator=(const OwnFolder&) = delete;

    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

// The standard output of this program with other arguments; throws where it fails.
std::string output_of(const std::vector<std::string>& arguments, const fs::path& folder) {
    const std::string output = folder / "output";
    const std::string errors = folder / "errors";
    std::vector<std::string> texts{"orrery-run"};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& text : texts)
        pointers.push_back(text.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), kCreate, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), kCreate, 0600);
    pid_t child = 0;
    const int fault =
        posix_spawn(&child, "/proc/self/exe", &files, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    int status = 0;
    if (fault == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    if (fault != 0 || status != 0)
        throw fit::FitError(fmt::format("orrery {}: {}", fmt::join(arguments, " "),
                                        fault != 0 ? std::strerror(fault) : "failed"));
    std::ifstream file(output);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::int64_t ops_of(const std::string& file, const Sets& sets, const std::string& scenarios_dir) {
    const plan::ReadResult read = plan::read_scenario(file, sets, scenarios_dir);
    if (!read.scenario) throw fit::FitError(plan::format_text(read.errors));
    const plan::Plan plan = plan::build_plan(*read.scenario);
    std::int64_t ops = 0;
    for (plan::Rank rank = 0; rank < plan.mesh.ranks(); ++rank)
        ops += static_cast<std::int64_t>(plan::link(plan, plan.program_of(rank)).size());
    return ops;
}

}  // namespace

std::vector<fit::ProcessRow> measure_processes(const std::string& train,
                                               const std::string& scenarios_dir, bool few) {
    const std::string file = fs::path(scenarios_dir) / "runs" / "tiny-gpt.json";
    const OwnFolder folder;
    std::vector<fit::ProcessRow> rows;
    std::vector<Sets> all = runs();
    if (few)  // few and many ops, few and many ranks
        all = {all[0], all[2], all[5], all[7], all[10]};
    for (const Sets& sets : all) {
        std::vector<std::string> arguments{train, file, "--steps", "2", "--json"};
        for (const std::string& set : sets)
            arguments.insert(arguments.end(), {"--set", set});
        const std::string lines = output_of(arguments, folder.path());
        const auto last = lines.rfind('\n', lines.size() - 2) + 1;
        const auto bytes = nlohmann::json::parse(lines.substr(last))
                               .at("other_bytes_by_rank")
                               .get<std::vector<std::int64_t>>();
        rows.push_back({static_cast<std::int64_t>(bytes.size()), ops_of(file, sets, scenarios_dir),
                        std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})});
    }
    return rows;
}

}  // namespace orrery::measure
