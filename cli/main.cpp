#include "cli/process.hpp"
#include "cli/run_cli.hpp"

int main(int argc, char** argv) {
    return orrery::cli::run_process(argc, argv, orrery::cli::run_cli);
}
