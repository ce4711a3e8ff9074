// Where models, clusters and profiles are looked for: beside an installed program, else in the
// source tree.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/scenario_input.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

TEST(LibraryFolder, IsBesideAnInstalledProgram) {
    const std::filesystem::path prefix = testing::TempDir() + "installed";
    std::filesystem::create_directories(prefix / "bin");
    const std::string source_tree = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    EXPECT_EQ(library_folder(prefix / "bin/orrery"), source_tree);
    std::filesystem::create_directories(prefix / "share/orrery/scenarios");
    EXPECT_EQ(library_folder(prefix / "bin/orrery"), prefix / "share/orrery/scenarios");
    EXPECT_EQ(library_folder(""), source_tree);
    EXPECT_EQ(library_folder(), source_tree) << "of this test";
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
