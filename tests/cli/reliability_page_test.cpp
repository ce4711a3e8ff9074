// docs/reliability.md names the test that shows each promise: every name is that of a test.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

const fs::path kSource = ORRERY_SOURCE_DIR;

// "Suite.Name" of every test below tests/.
std::set<std::string> tests_of_the_tree() {
    const std::regex declared(R"(TEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(kSource / "tests")) {
        if (entry.path().extension() != ".cpp") continue;
        const std::string text = content_of(entry.path());
        for (std::sregex_iterator match(text.begin(), text.end(), declared), end; match != end;
             ++match)
            names.insert((*match)[1].str() + "." + (*match)[2].str());
    }
    return names;
}

TEST(ReliabilityPage, NamesTestsThatThereAre) {
    const std::set<std::string> tests = tests_of_the_tree();
    const std::string page = content_of(kSource / "docs/reliability.md");
    const std::regex named(R"(`([A-Z]\w+\.[A-Z]\w+)`)");
    std::size_t count = 0;
    for (std::sregex_iterator match(page.begin(), page.end(), named), end; match != end; ++match) {
        EXPECT_TRUE(tests.count((*match)[1].str()) > 0) << (*match)[1].str();
        ++count;
    }
    EXPECT_GT(count, 30U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
