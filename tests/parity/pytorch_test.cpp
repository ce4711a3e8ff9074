// Training against PyTorch: losses and gradient norms of five steps, the gradient of every
// parameter in the first step and every parameter after the last, for each family, on one rank and
// on eight.
//
// In fp64 both sides compute the same formulas and differ by rounding alone: ε = 1.1e-16, over sums
// of some hundred terms and a dozen layers of operations some 1e-13; AdamW divides by the root of
// its second moment and brings the errors of small gradients to the size of large ones. 1e-10 is
// far above either and far below what any other convention would change. In fp32, ε = 6e-8: 5e-6.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/data/sampler.hpp"
#include "tests/parity/pytorch_golden.hpp"
#include "tests/parity/run.hpp"
#include "tests/trace/native_container.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

constexpr double kDoubles = 1e-10, kFloats = 5e-6;

plan::Scenario scenario_of(const Golden& golden, const std::string& precision, const Sets& sets) {
    const std::string text = fmt::format(
        R"({{"model": {}, "cluster": "clusters/cpu-8.json",
             "layout": {{"global_batch_size": {}}},
             "training": {{"sequence_length": {}, "precision": "{}", "optimizer": {},
                           "schedule": {{"decay": "constant"}}, "framework": "orrery"}}}})",
        golden.model_json, golden.global_batch_size, golden.sequence_length, precision,
        golden.optimizer_json);
    return scenario(text.c_str(), sets);
}

Trained trained(const Golden& golden, const std::string& precision, const Sets& sets) {
    const trace::TestFolder folder;
    trace::put_file(folder.file("data.txt"), data_file(golden));
    const runtime::TokenSource source(folder.file("data.txt"), plan::DataFormat::text,
                                      golden.vocabulary);
    const runtime::Sampler sampler(golden.seed, source, golden.sequence_length);
    RunOptions options;
    options.steps = golden.steps;
    options.samples = [&](std::int64_t n, auto tokens, auto targets) {
        sampler.sample(n, tokens, targets);
    };
    options.first_weights = [&](const plan::Parameter&, const std::string& name,
                                std::int64_t element) {
        return initial(golden, name, static_cast<std::uint64_t>(element));
    };
    return train(scenario_of(golden, precision, sets), options);
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  double relative, const char* what) {
    ASSERT_EQ(found.size(), expected.size()) << what;
    for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], relative * expected[i]) << what << " of step " << i + 1;
}

// What is relative to ‖x‖ for the tensor is ‖r‖ ≤ √n times that for its product with a ray.
void expect_close(const Whole& found, const Golden& golden, ThreeNumbers GoldenTensor::*expected,
                  const char* what) {
    ASSERT_EQ(found.size(), golden.tensors.size()) << what;
    for (const auto& [name, tensor] : golden.tensors) {
        SCOPED_TRACE(name + ", " + what);
        ASSERT_EQ(found.count(name), 1U);
        const std::vector<double>& values = found.at(name);
        std::size_t size = 1;
        for (const std::int64_t extent : tensor.shape)
            size *= static_cast<std::size_t>(extent);
        ASSERT_EQ(values.size(), size);
        const ThreeNumbers ours = three_numbers(name, values);
        const ThreeNumbers& theirs = tensor.*expected;
        const double off = kDoubles * theirs[0];
        EXPECT_NEAR(ours[0], theirs[0], off);
        for (const std::size_t ray : {1, 2})
            EXPECT_NEAR(ours[ray], theirs[ray], off * std::sqrt(static_cast<double>(size)));
    }
}

void expect_pytorchs(const Golden& golden, const Trained& run) {
    expect_close(run.losses, golden.fp64.losses, kDoubles, "loss");
    expect_close(run.further_losses, golden.fp64.further_losses, kDoubles, "further loss");
    expect_close(run.norms, golden.fp64.gradient_norms, kDoubles, "gradient norm");
    expect_close(run.gradients, golden, &GoldenTensor::gradient, "gradient of the first step");
    expect_close(run.parameters, golden, &GoldenTensor::final, "after the last step");
}

class Pytorch : public testing::TestWithParam<std::string> {
  protected:
    const Golden golden_ = read_golden(GetParam());
};

TEST_P(Pytorch, AgreesInDoubles) {
    expect_pytorchs(
        golden_, trained(golden_, "fp64", {"layout.data_parallel=1", "layout.micro_batch_size=2"}));
}

TEST_P(Pytorch, AgreesInFloats) {
    const Trained run = trained(golden_, "fp32", {"layout.data_parallel=1"});
    expect_close(run.losses, golden_.fp64.losses, kFloats, "loss");
    expect_close(run.norms, golden_.fp64.gradient_norms, kFloats, "gradient norm");
}

TEST_P(Pytorch, AgreesOverEightRanks) {
    Sets sets = {"layout.pipeline_parallel=2", "layout.zero_stage=1"};
    // One head of keys and values cannot be shared out.
    if (GetParam() != "falcon") sets.emplace_back("layout.tensor_parallel=2");
    if (GetParam() == "gemma3") sets.emplace_back("layout.layers_per_stage=[2,1]");
    if (golden_.model_json.find("num_experts_per_tok") != std::string::npos)
        sets.insert(sets.end(), {"layout.sequence_parallel=true", "layout.expert_parallel=4",
                                 "layout.expert_row_bound=8"});
    expect_pytorchs(golden_, trained(golden_, "fp64", sets));
}

INSTANTIATE_TEST_SUITE_P(Families, Pytorch, testing::ValuesIn(golden_families()),
                         [](const auto& tested) { return tested.param; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
