// Runs the program in this process, on the scenario of this folder or on the text of a test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/run_cli.hpp"

namespace orrery::cli {

struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
};

inline Outcome run(const std::vector<std::string>& args) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = run_cli(args, {out, err});
    return {code, out.str(), err.str()};
}

inline std::string folder() {
    return std::string(ORRERY_SOURCE_DIR) + "/tests/cli/";
}
inline std::string tiny() {
    return folder() + "tiny.json";
}
inline std::string tiny_experts() {
    return folder() + "tiny-experts.json";
}

// A program of this build: it lies beside the tests.
inline std::string program(const std::string& name) {
    return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name);
}

inline std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string written(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

// `text` with every `from` replaced.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

// Holds `actual` against tests/golden/cli/<name>; ORRERY_REGENERATE=1 rewrites that file. The
// tree's place is left out of it.
inline void expect_golden(const std::string& name, const std::string& actual) {
    const std::string path = std::string(ORRERY_SOURCE_DIR) + "/tests/golden/cli/" + name;
    const std::string text = replaced(actual, folder(), "");
    const char* wish = std::getenv("ORRERY_REGENERATE");
    if (wish != nullptr && std::string(wish) == "1") {
        std::ofstream file(path, std::ios::binary);
        file << text;
        ASSERT_TRUE(file.flush()) << path;
        return;
    }
    EXPECT_EQ(content_of(path), text) << path << "; ORRERY_REGENERATE=1 writes it anew";
}

}  // namespace orrery::cli
