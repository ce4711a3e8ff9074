// Where two resolved scenarios differ, key by key: what a person asks first when two steps do.
#pragma once

#include <string>
#include <vector>

namespace orrery::plan {

// A value of the resolved scenarios that is not the same in both.
struct KeyDifference {
    std::string pointer;  // JSON pointer: "/layout/recompute"
    std::string a;        // JSON text; empty where it is not there
    std::string b;
};

// In the order of the scenario; keys that only `b` has come last. Arrays are compared as a whole.
// The sources of numbers ("source", "description") are left out: they change no result.
std::vector<KeyDifference> differing_keys(const std::string& resolved_a,
                                          const std::string& resolved_b);

}  // namespace orrery::plan
