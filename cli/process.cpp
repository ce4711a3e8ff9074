#include "cli/process.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

// Where a descriptor of these is closed, the next file that is opened gets its number, and what is
// meant for people is written into it.
void open_standard_descriptors() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY) != descriptor)
            _exit(kExitInternal);  // and nobody to be told
}

// A failed check has printed its message and aborts; to a caller it is exit code 1, not a signal.
extern "C" void exit_of_abort(int) {
    _exit(kExitInternal);
}

// Exits instead of dying by the signal, so that every caller sees 130, not only shells.
extern "C" void exit_of_interrupt(int) {
    _exit(kExitInterrupted);
}

bool obeys_escapes(int descriptor) {
    const char* term = std::getenv("TERM");
    if (term == nullptr || std::string(term) == "dumb") return false;
    return isatty(descriptor) != 0;
}

// https://no-color.org: any value that is not empty.
bool wants_colour() {
    const char* no_color = std::getenv("NO_COLOR");
    if (no_color != nullptr && *no_color != '\0') return false;
    return obeys_escapes(STDOUT_FILENO);
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

int run_process(int argc, char** argv, int (*run)(const std::vector<std::string>&, Console)) {
    open_standard_descriptors();
    std::signal(SIGABRT, exit_of_abort);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a write that fails
    if (std::signal(SIGINT, exit_of_interrupt) == SIG_IGN)
        std::signal(SIGINT, SIG_IGN);  // a job in the background of a script
    std::signal(SIGPIPE, SIG_DFL);     // `orrery … | head` ends quietly
    std::ios::sync_with_stdio(false);
    const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
    return run(args, {std::cout, std::cerr, wants_colour(), terminal_columns(),
                      obeys_escapes(STDERR_FILENO)});
}

}  // namespace orrery::cli
