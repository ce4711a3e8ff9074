#include "cli/progress.hpp"

#include <utility>

#include <fmt/format.h>

namespace orrery::cli {
namespace {

constexpr auto kSilent = std::chrono::seconds(2);
constexpr auto kRewritten = std::chrono::milliseconds(200);
constexpr auto kNextLine = std::chrono::seconds(10);

}  // namespace

Progress::Progress(const Console& console, std::string subcommand, std::string what)
    : console_(console),
      subcommand_(std::move(subcommand)),
      what_(std::move(what)),
      next_(Clock::now() + kSilent) {}

Progress::~Progress() {
    if (line_is_there_) console_.err << "\r\x1b[K" << std::flush;
}

void Progress::step() {
    ++steps_;
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    const std::string line = fmt::format("orrery {}: {}, {} so far", subcommand_, what_, steps_);
    if (console_.live) {
        console_.err << "\r\x1b[K" << line << std::flush;
        line_is_there_ = true;
        next_ = now + kRewritten;
    } else {
        console_.err << line << std::endl;
        next_ = now + kNextLine;
    }
}

}  // namespace orrery::cli
