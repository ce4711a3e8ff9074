// Imports of texts that a test writes, and what they say about one key.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::imports {

inline Wishes wishes(std::int64_t gpus = 0) {
    Wishes out;
    out.frameworks = {"megatron", "megatron-2021", "torchtitan", "deepspeed"};
    if (gpus > 0) out.gpus = gpus;
    return out;
}

// "layout.tensor_parallel" of the scenario as JSON text; "-" where it is not there.
inline std::string at(const Imported& imported, std::string key) {
    for (char& c : key)
        if (c == '.') c = '/';
    const Json::json_pointer pointer('/' + key);
    return imported.scenario.contains(pointer) ? imported.scenario[pointer].dump() : "-";
}

inline const Left* left(const std::vector<Left>& list, const std::string& key) {
    for (const Left& one : list)
        if (one.key == key) return &one;
    return nullptr;
}

inline bool missing(const Imported& imported, const std::string& to) {
    for (const Missing& one : imported.missing)
        if (one.to == to) return true;
    return false;
}

// One row of a table of settings: text that is added, and what becomes of it. "ignored" and
// "unsupported" in place of a key mean that list, `value` then a word of the reason.
struct Expectation {
    const char* text;
    const char* key;
    const char* value;
};

inline void expect(const Imported& imported, const Expectation& row, const std::string& name) {
    EXPECT_EQ(format_text(imported.errors), "") << row.text;
    const std::string key = row.key;
    if (key != "ignored" && key != "unsupported") {
        EXPECT_EQ(at(imported, key), row.value) << row.text;
        return;
    }
    const Left* found = left(key == "ignored" ? imported.ignored : imported.unsupported, name);
    ASSERT_NE(found, nullptr) << row.text;
    EXPECT_NE(found->why.find(row.value), std::string::npos) << row.text << ": " << found->why;
}

}  // namespace orrery::plan::imports
