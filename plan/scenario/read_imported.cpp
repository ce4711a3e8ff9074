// What a scenario that another tool's settings became says of itself: from what it came, and which
// settings had no counterpart. No prediction depends on it; every report repeats it.
#include <fmt/format.h>

#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

void read_approximation(Reading& reading, const std::string& pointer) {
    const Json* entry = reading.document().find(pointer);
    if (!entry->is_object()) {
        reading.report("S006", pointer, "an approximation must be an object with key and why");
        return;
    }
    Section section(reading, pointer, "imported.approximations");
    std::string key, why;
    section.text("key", key, Presence::required);
    section.known("value");
    section.text("why", why, Presence::required);
    section.finish();
}

}  // namespace

void read_imported(Reading& reading) {
    Section section(reading, "/imported", "imported");
    if (!section.exists()) return;
    std::string from;
    section.text("from", from, Presence::required);
    section.require("approximations");
    section.finish();
    const Json* list = section.find("approximations");
    if (list == nullptr) return;
    if (!list->is_array()) {
        section.wrong_type("approximations", "an array");
        return;
    }
    for (std::size_t i = 0; i < list->size(); ++i)
        read_approximation(reading, fmt::format("/imported/approximations/{}", i));
}

}  // namespace orrery::plan
