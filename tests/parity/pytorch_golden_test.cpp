// Before a run is compared with PyTorch's: that both start from the same weights and are shown the
// same data.
#include "tests/parity/pytorch_golden.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/sampler.hpp"
#include "tests/trace/native_container.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

class PytorchGolden : public testing::TestWithParam<std::string> {
  protected:
    const Golden golden_ = read_golden(GetParam());
};

TEST_P(PytorchGolden, StartsFromTheSameWeights) {
    for (const auto& [name, tensor] : golden_.tensors) {
        std::uint64_t size = 1;
        for (const std::int64_t extent : tensor.shape)
            size *= static_cast<std::uint64_t>(extent);
        std::vector<double> values;
        for (std::uint64_t i = 0; i < size; ++i)
            values.push_back(initial(golden_, name, i));
        const ThreeNumbers ours = three_numbers(name, values);
        // Every value is the same double; sums in another order differ by less than n·ε·Σ|xr|, and
        // Σ|xr| ≤ √n·√Σx².
        const double n = static_cast<double>(size);
        for (std::size_t i = 0; i < ours.size(); ++i)
            EXPECT_NEAR(ours[i], tensor.initial[i], n * 0x1p-52 * std::sqrt(n) * ours[0])
                << name << ' ' << i;
    }
}

TEST_P(PytorchGolden, ShowsTheSameData) {
    const trace::TestFolder folder;
    const std::string path = folder.file("data.txt");
    trace::put_file(path, data_file(golden_));
    const runtime::TokenSource source(path, plan::DataFormat::text, golden_.vocabulary);
    std::vector<std::int32_t> last(golden_.last_tokens.size());
    source.copy(source.tokens() - std::ssize(last), last);
    EXPECT_EQ(last, golden_.last_tokens);
    const runtime::Sampler sampler(golden_.seed, source, golden_.sequence_length);
    ASSERT_EQ(sampler.windows(), golden_.windows);
    std::vector<std::int64_t> shown;
    for (std::int64_t n = 0; n < golden_.steps * golden_.global_batch_size; ++n)
        shown.push_back(sampler.window(n));
    EXPECT_EQ(shown, golden_.windows_shown);
}

INSTANTIATE_TEST_SUITE_P(Families, PytorchGolden, testing::ValuesIn(golden_families()),
                         [](const auto& tested) { return tested.param; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
