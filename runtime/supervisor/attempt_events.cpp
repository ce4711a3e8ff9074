#include "runtime/supervisor/attempt_events.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "plan/exit_code.hpp"

namespace orrery::runtime {
namespace {

using EventJson = nlohmann::json;

// Of an event of another version, or one that was cut off, what is missing is 0.
template <typename Number>
Number number_in(const EventJson& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_number() ? found->get<Number>() : Number{};
}

std::optional<std::int64_t> optional_in(const EventJson& event, const char* key) {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
}

}  // namespace

void AttemptEvents::read(std::string_view line) {
    const EventJson event = EventJson::parse(line, nullptr, false);
    if (!event.is_object()) return;
    const std::string name = event.value("event", "");
    if (name == "health") {
        if (event.value("ailment", "") == "stall") says_stall_ = event.value("begins", false);
        return;
    }
    heard_ = Clock::now();
    says_stall_ = false;
    if (name == "resume") {
        attempt_.resumed_from = number_in<std::int64_t>(event, "step");
    } else if (name == "step" || name == "skip") {
        attempt_.last_step = number_in<std::int64_t>(event, "step");
        limit_.stepped(number_in<double>(event, "time_s"));
    } else if (name == "checkpoint") {
        attempt_.newest_checkpoint = number_in<std::int64_t>(event, "step");
        limit_.saved(number_in<double>(event, "stall_s") + number_in<double>(event, "write_s"));
    } else if (name == "end") {
        attempt_.told_end = true;
    } else if (name == "error") {
        attempt_.message = event.value("message", "");
        attempt_.told_exit_code =
            event.contains("errors") ? kExitInvalidScenario : number_in<int>(event, "exit_code");
        attempt_.rank = optional_in(event, "rank");
        attempt_.damaged_checkpoint = optional_in(event, "damaged_checkpoint");
    }
}

AttemptEvents::Clock::time_point AttemptEvents::due() const {
    const double allowed = limit_.seconds();
    const std::chrono::duration<double> wait(allowed + std::min(allowed, kMostAfterTheRunItself_s));
    return heard_ + std::chrono::duration_cast<Clock::duration>(wait);
}

bool AttemptEvents::stalled(Clock::time_point now) const {
    return says_stall_ || now >= due();
}

}  // namespace orrery::runtime
