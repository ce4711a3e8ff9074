// Size of gradient buckets: max(a fixed size, a size per data-parallel rank), Megatron Core's
// max(40 million, 1 million × ranks) parameters. A bucket takes parts of its stage, from the last,
// until it has reached the size.
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

// Of h = 512: 12h² + 13h parameters, whose gradients have 4 bytes.
constexpr double kLayerMb = 4 * (12 * 512.0 * 512 + 13 * 512) / 1e6;

std::vector<std::int64_t> layers_by_bucket(const Sets& sets) {
    const plan::Plan plan = plan_of(sets);
    const plan::Program& program = plan.programs.front();
    std::vector<std::int64_t> layers(program.buckets.size());
    for (const plan::StagePart& part : program.stages.front().parts)
        if (part.layer >= 0) ++layers[static_cast<std::size_t>(part.bucket)];
    layers.erase(std::remove(layers.begin(), layers.end(), 0), layers.end());
    return layers;
}

// The final norm and the head (0.26 MB) share the first bucket with a layer, and the rest of the
// embedding the last.
TEST(BucketSize, GrowsWithTheDataRanksBeyondTheFixedSize) {
    const Sets per_rank = {set("training.gradient_bucket_mb_per_rank", 12),
                           "training.gradient_bucket_mb=1"};
    ASSERT_GT(kLayerMb, 12);
    ASSERT_LT(kLayerMb, 2 * 12);
    const auto with_data = [&](std::int64_t data) {
        Sets sets = per_rank;
        sets.push_back(set("layout.data_parallel", data));
        return layers_by_bucket(sets);
    };
    EXPECT_EQ(with_data(1), (std::vector<std::int64_t>{1, 1, 1, 1}))
        << "12 MB: one layer is enough";
    EXPECT_EQ(with_data(2), (std::vector<std::int64_t>{2, 2})) << "24 MB: two layers are";
    EXPECT_EQ(with_data(4), (std::vector<std::int64_t>{4})) << "48 MB: four layers are";
}

TEST(BucketSize, IsTheFixedSizeWhereThatIsLarger) {
    EXPECT_EQ(layers_by_bucket({set("training.gradient_bucket_mb_per_rank", 12),
                                "training.gradient_bucket_mb=24", "layout.data_parallel=1"}),
              (std::vector<std::int64_t>{2, 2}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
