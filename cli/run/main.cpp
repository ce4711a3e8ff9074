// orrery-run, the program that performs plans.
#include "cli/process.hpp"
#include "cli/run/run_performing.hpp"

int main(int argc, char** argv) {
    return orrery::cli::run_process(argc, argv, orrery::cli::run_performing);
}
