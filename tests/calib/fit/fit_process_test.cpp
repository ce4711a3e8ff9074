// Memory of processes, from rows that follow a formula.
#include "calib/fit/fit_process.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

// 8 MB shared, 1 MB of each rank, 300 bytes of each op.
std::vector<ProcessRow> rows() {
    std::vector<ProcessRow> all;
    for (const std::int64_t ranks : {1, 2, 4, 8})
        for (const std::int64_t ops : {500, 4000, 9000})
            all.push_back({ranks, ops, 8'000'000 + 1'000'000 * ranks + 300 * ops});
    return all;
}

TEST(FitProcess, FindsWhatIsSharedWhatARankAddsAndWhatAnOpAdds) {
    const auto json = process_json(rows(), "made up");
    EXPECT_NEAR(json["shared_bytes"].get<double>(), 8e6, 8);
    EXPECT_NEAR(json["rank_bytes"].get<double>(), 1e6, 1);
    EXPECT_NEAR(json["op_bytes"].get<double>(), 300, 0);
    EXPECT_EQ(json["relative_sd"], 0.01);  // what fits exactly is not certain
}

TEST(FitProcess, StatesHowFarProcessesLieFromIt) {
    std::vector<ProcessRow> scattered = rows();
    for (std::size_t i = 0; i < scattered.size(); ++i)
        scattered[i].bytes += (i % 2 == 0 ? 1 : -1) * scattered[i].bytes / 20;
    const double deviation = process_json(scattered, "made up")["relative_sd"];
    EXPECT_GT(deviation, 0.03);
    EXPECT_LT(deviation, 0.06);
}

TEST(FitProcess, NeedsAsManyRowsAsNumbers) {
    EXPECT_THROW(process_json({{1, 100, 9'000'000}}, "made up"), FitError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
