#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "cli/build_facts.hpp"
#include "cli/process.hpp"
#include "cli/run_cli.hpp"
#include "cli/run_subcommands.hpp"

// Of the file that the build writes (cli/commit.cmake).
namespace orrery::cli {
extern const char* const kCommit;
}

namespace {

// An installed program has no wrapper around it that starts orrery-run for the subcommands of that.
// Returns where this is none of them, or orrery-run does not lie beside this program.
void become_orrery_run(int argc, char** argv) {
    const std::string_view word = argv[argc > 2 && argv[1] == std::string_view("help") ? 2 : 1];
    for (const orrery::cli::RunSubcommand& subcommand : orrery::cli::kRunSubcommands) {
        if (word != subcommand.name) continue;
        std::error_code failed;
        const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
        if (!failed) execv((self.parent_path() / "orrery-run").c_str(), argv);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) become_orrery_run(argc, argv);
    orrery::cli::built_from(orrery::cli::kCommit);
    return orrery::cli::run_process(argc, argv, orrery::cli::run_cli);
}
