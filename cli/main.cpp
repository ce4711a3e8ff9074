#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/run_cli.hpp"

namespace {

// A failed check has printed its message and aborts; to a caller it is exit code 1, not a signal.
extern "C" void exit_of_abort(int) {
    _exit(orrery::cli::kExitInternal);
}

// Exits instead of dying by the signal, so that every caller sees 130, not only shells.
extern "C" void exit_of_interrupt(int) {
    _exit(orrery::cli::kExitInterrupted);
}

// https://no-color.org: any value that is not empty.
bool wants_colour() {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    if (no_color != nullptr && *no_color != '\0') return false;
    if (term == nullptr || std::string(term) == "dumb") return false;
    return isatty(STDOUT_FILENO) != 0;
}

int terminal_columns() {
    constexpr int kLeast = 40;
    constexpr int kMost = 1000;
    int columns = 100;
    winsize size{};
    if (const char* text = std::getenv("COLUMNS")) {
        columns = std::atoi(text);
    } else if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        columns = size.ws_col;
    }
    return columns < kLeast || columns > kMost ? 100 : columns;
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGABRT, exit_of_abort);
    if (std::signal(SIGINT, exit_of_interrupt) == SIG_IGN)
        std::signal(SIGINT, SIG_IGN);  // a job in the background of a script
    std::signal(SIGPIPE, SIG_DFL);     // `orrery … | head` ends quietly
    std::ios::sync_with_stdio(false);
    const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
    return orrery::cli::run_cli(args, {std::cout, std::cerr, wants_colour(), terminal_columns()});
}
