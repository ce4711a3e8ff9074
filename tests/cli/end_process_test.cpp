// The end of a process whose rank is held by its driver.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/run/train_ranks.hpp"
#include "plan/exit_code.hpp"
#include "runtime/streams/issued_ops.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

TEST(EndOfAProcess, SaysWhereTheRankIsHeldAndLeavesItsRecord) {
    const std::string folder = testing::TempDir() + "held-rank";
    std::filesystem::remove_all(folder);
    const SayOfRun say = [](const std::string& line) { std::cerr << line << '\n'; };
    runtime::FlightRecords records(folder, say);
    runtime::FlightRecorder recorder(plan::Mesh{}, 0);
    records.add(recorder);
    plan::Op op;
    op.spec = plan::spec_of(plan::OpKind::gemm);
    op.label = "fc1";
    runtime::BoundOp bound;
    bound.op = &op;
    runtime::IssuedOps issued(recorder);
    issued.begin(bound, 3);
    EXPECT_EXIT(end_process(0, &records, say, "rank 1 ended the run: it has died"),
                testing::ExitedWithCode(kExitDevice),
                "rank 0 was busy with gemm fc1: rank 1 ended the run: it has died\n"
                "flight record: .*/held-rank/rank-00000.json");
    std::ifstream file(folder + "/rank-00000.json");
    const auto record = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(record.is_object());
    EXPECT_EQ(record.at("reason"), "rank 1 ended the run: it has died");
    EXPECT_EQ(record.at("ops").at(0).at("label"), "fc1");
    records.remove(recorder);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
