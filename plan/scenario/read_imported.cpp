// What a scenario that another tool's settings became says of itself: from what it came, and which
// settings had no counterpart. No prediction depends on it; every report repeats it.
#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

struct Imported {};
struct Approximation {};

const Keys<Approximation>& approximation_keys() {
    static const Keys<Approximation> keys = {
        passed_text<Approximation>("key", "The setting, as the other tool calls it").required(),
        own<Approximation>("value", KeyType::any, "What it was"),
        passed_text<Approximation>("why", "What became of it").required(),
    };
    return keys;
}

const Keys<Imported>& imported_table() {
    static const Keys<Imported> keys = {
        passed_text<Imported>("from", "The file, and the tool it is of").required(),
        own<Imported>("approximations", KeyType::list, "Settings that have no counterpart",
                      specs(approximation_keys()))
            .required(),
    };
    return keys;
}

void read_approximation(Reading& reading, const std::string& pointer) {
    const Json* entry = reading.document().find(pointer);
    if (!entry->is_object()) {
        reading.report("S006", pointer, "an approximation must be an object with key and why");
        return;
    }
    Approximation nothing;
    read_object(reading, pointer, "imported.approximations", approximation_keys(), nothing);
}

}  // namespace

std::vector<KeySpec> imported_keys() {
    return specs(imported_table());
}

void read_imported(Reading& reading) {
    Section section(reading, "/imported", "imported");
    if (!section.exists()) return;
    Imported nothing;
    read_keys(section, imported_table(), nothing);
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
