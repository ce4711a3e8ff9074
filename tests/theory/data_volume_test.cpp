// What data parallelism sends per rank and step, in elements, over N ranks on a ring: DDP and
// ZeRO-1 2Φ·(N−1)/N whatever m; ZeRO-2 (m+1)Φ·(N−1)/N, as each micro-batch is reduced into shards;
// ZeRO-3 3mΦ·(N−1)/N, as forward and backward gather (Rajbhandari et al. 2020, §7; arithmetic).
#include <tuple>

#include "sim/network/algorithms.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::Op;

// In units of (N − 1) ÷ N elements.
std::int64_t sent_over_data(const plan::Plan& plan) {
    std::int64_t elements = 0;
    for (const Op* op : executed_ops(plan))
        if (is_communication(op->kind()) && op->group == GroupKind::data)
            elements += ring_elements(*op);
    return elements;
}

class DataVolume : public testing::TestWithParam<std::tuple<int, std::int64_t, std::int64_t>> {};

TEST_P(DataVolume, IsThatOfTheZeroStage) {
    const auto [zero, data, m] = GetParam();
    for (const char* overlap : {"true", "false"}) {
        const plan::Plan plan =
            plan_of({set("layout.zero_stage", zero), set("layout.data_parallel", data),
                     set("layout.global_batch_size", data * m),
                     std::string("training.overlap_gradient_reduce=") + overlap});
        const std::int64_t phi = plan.conserved.parameters;  // every part divides by N
        ASSERT_EQ(plan.micro_batches, m);
        const std::int64_t expected[] = {2 * phi, 2 * phi, (m + 1) * phi, 3 * m * phi};
        EXPECT_EQ(sent_over_data(plan), expected[zero]) << "overlap " << overlap;
    }
}

INSTANTIATE_TEST_SUITE_P(Grid, DataVolume,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(2, 8),
                                          testing::Values(1, 2, 5)));

TEST(DataVolumeInBytes, IsTheRingsShareOfTheBuffer) {
    const plan::Plan plan = plan_of({"layout.zero_stage=1", "layout.data_parallel=4"});
    double bytes = 0;
    for (const Op* op : executed_ops(plan))
        if (is_communication(op->kind()) && op->group == GroupKind::data)
            bytes += sim::bytes_sent_per_rank(op->kind(),
                                              static_cast<double>(plan::message_bytes(*op)), 4);
    // Gradients are summed in fp32, parameters gathered in bf16: 4 and 2 bytes.
    EXPECT_DOUBLE_EQ(bytes, 3.0 / 4 * (4 + 2) * static_cast<double>(plan.conserved.parameters));
}

TEST(DataVolumeOfOneRank, IsNothing) {
    for (int zero : {0, 1, 2, 3})
        EXPECT_EQ(sent_over_data(plan_of({set("layout.zero_stage", zero)})), 0);
}

// Every gradient is reduced exactly once before the optimizer: each bucket whole, in one reduction.
TEST(DataVolumeOverTensorAndPipeline, ReducesEachRanksOwnParameters) {
    const plan::Plan plan = plan_of(
        {"layout.tensor_parallel=2", "layout.pipeline_parallel=2", "layout.data_parallel=2"});
    for (std::size_t rank = 0; rank < plan.programs.size(); ++rank) {
        std::int64_t reduced = 0;
        for (const Op* op : executed_ops(plan, rank))
            if (op->kind() == plan::OpKind::all_reduce && op->group == GroupKind::data)
                reduced += op->size(0);
        EXPECT_EQ(4 * reduced, resident_bytes(plan.programs[rank], plan::MemoryCategory::gradients))
            << rank;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
