// What the supervisor makes of its own arguments.
#include "cli/run/supervisor/supervise.hpp"

#include <gmock/gmock.h>

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;

TEST(ArgumentsOfRun, AreThoseWithoutTheSupervisors) {
    EXPECT_THAT(arguments_of_run({"train", "a.json", "--supervise", "--launch", "mpirun -n {ranks}",
                                  "--set", "run.steps=3", "--ranks-left=cat hosts", "--resume",
                                  "--resume-step", "4", "--json"}),
                ElementsAre("train", "a.json", "--set", "run.steps=3", "--json"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
