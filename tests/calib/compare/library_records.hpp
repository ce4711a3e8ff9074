// The library's rules and records, and records of a test's own validated as a file's are.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/compare/validate.hpp"

namespace orrery::compare {

inline const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

inline nlohmann::json json_of(const std::string& path) {
    std::ifstream file(kLibrary + path);
    return nlohmann::json::parse(file);
}

inline const nlohmann::json& rules() {
    static const nlohmann::json rules = json_of("/validation/rules.json");
    return rules;
}

// By way of a file that only the running test has.
inline Validation validate(const nlohmann::json& records) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string path =
        ::testing::TempDir() + test->test_suite_name() + "_" + test->name() + ".json";
    std::ofstream(path) << records.dump();
    const Validation validation = validate_records({path}, kLibrary);
    std::remove(path.c_str());
    return validation;
}

}  // namespace orrery::compare
