// orrery-run where it has kernels for GPUs: `gpu-check` as its first word holds them against the
// CPU's. In one program, since a folder for nodes then has their machine code once.
#include <string_view>

#include "cli/build_facts.hpp"
#include "cli/process.hpp"
#include "cli/run/run_performing.hpp"
#include "tests/gpu/program/kernels_check.hpp"

// Of the file that the build writes (cli/commit.cmake).
namespace orrery::cli {
extern const char* const kCommit;
}

int main(int argc, char** argv) {
    if (argc > 1 && argv[1] == std::string_view("gpu-check"))
        return orrery::runtime::gpu_check::check_program(argc - 1, argv + 1);
    orrery::cli::built_from(orrery::cli::kCommit);
    return orrery::cli::run_process(argc, argv, orrery::cli::run_performing);
}
