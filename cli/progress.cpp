#include "cli/progress.hpp"

#include <utility>

#include <fmt/format.h>

namespace orrery::cli {
namespace {

constexpr auto kSilent = std::chrono::seconds(2);
constexpr auto kRewritten = std::chrono::milliseconds(200);
constexpr auto kNextLine = std::chrono::seconds(10);
constexpr double kTelling = 0.05;  // of the whole: before, what all will take is anybody's guess

}  // namespace

Progress::Progress(const Console& console, std::string subcommand, std::string what)
    : console_(console),
      subcommand_(std::move(subcommand)),
      what_(std::move(what)),
      begin_(Clock::now()),
      next_(begin_ + kSilent) {}

Progress::~Progress() {
    if (line_is_there_) console_.err << "\r\x1b[K" << std::flush;
}

void Progress::step() {
    ++steps_;
    if (Clock::now() >= next_) say(fmt::format("{} so far", steps_));
}

void Progress::at(double done) {
    const Clock::time_point now = Clock::now();
    if (now < next_ || done <= 0) return;
    const std::chrono::duration<double> taken = now - begin_;
    std::string state = fmt::format("{:.0f} %", 100 * done);
    if (done >= kTelling)
        state += fmt::format(", about {:.0f} s left", taken.count() * (1 - done) / done);
    say(state);
}

void Progress::say(const std::string& state) {
    const Clock::time_point now = Clock::now();
    const std::string line = fmt::format("orrery {}: {}, {}", subcommand_, what_, state);
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
