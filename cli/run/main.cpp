// orrery-run, the program that performs plans.
#include "cli/build_facts.hpp"
#include "cli/process.hpp"
#include "cli/run/run_performing.hpp"

// Of the file that the build writes (cli/commit.cmake).
namespace orrery::cli {
extern const char* const kCommit;
}

int main(int argc, char** argv) {
    orrery::cli::built_from(orrery::cli::kCommit);
    return orrery::cli::run_process(argc, argv, orrery::cli::run_performing);
}
