// Ranks that are about to perform different runs: each of them is told so, whoever is quickest to
// leave.
#include "runtime/train/agreement.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/comm/processes/process_plane.hpp"
#include "tests/runtime/comm/worlds.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// What each rank of a run of four is told. One that leaves ends the run for those that still wait.
std::vector<std::string> told(std::int64_t odd) {
    std::vector<std::string> all(4);
    plan::Mesh mesh;
    mesh.data = 4;
    try {
        run_over_tcp(
            mesh, std::chrono::minutes(1), [&](plan::Rank rank, Communicator& communicator) {
                ProcessPlane plane(communicator, [] {});
                std::string& mine = all[static_cast<std::size_t>(rank)];
                try {
                    require_agreement(
                        plane, {{"/a", "1"}, {"/training/seed", rank == odd ? "9" : "1234"}});
                } catch (const std::exception& error) {
                    mine = error.what();
                    throw;
                }
            });
    } catch (const DisagreementError&) {
    }
    return all;
}

TEST(AgreementOfRanks, TellsEveryRankBeforeOneLeaves) {
    for (int again = 0; again < 25; ++again)
        for (const std::int64_t odd : {1, 2, 3})
            for (const std::string& said : told(odd)) {
                EXPECT_EQ(said.find("rank " + std::to_string(odd) + " on "), 0u) << said;
                EXPECT_NE(said.find("/training/seed: 9 there, 1234 here"), std::string::npos)
                    << said;
                EXPECT_EQ(said.find("cannot go on"), std::string::npos) << said;
            }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
