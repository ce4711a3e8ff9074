// Steps that end before the statistics of all stages are known, and are validated in the next one:
// whatever comes of that, a run ends with what waiting for them would have made, to the last bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kSteps = 5;
const std::string kKey = "layout.optimizer_post_validation=true";

std::vector<NamedLayout> post_validated_layouts() {
    const std::string pp2 = "pipeline_parallel=2", pp4 = "pipeline_parallel=4",
                      tp2 = "tensor_parallel=2", dp2 = "data_parallel=2",
                      two = "virtual_pipeline=2";
    return {
        layout("zb_2p", {pp4, "schedule=zb-2p"}),
        layout("zb_2p_tensor_data_zero_1",
               {pp2, tp2, dp2, "schedule=zb-2p", "zero_stage=1", "sequence_parallel=true"}),
        layout("zb_v", {pp2, two, "schedule=zb-v"}),
        layout("zb_v_tensor_zero_1", {pp2, two, tp2, dp2, "schedule=zb-v", "zero_stage=1"}),
        layout("zb_h1_zero_2", {pp2, dp2, "schedule=zb-h1", "zero_stage=2"}),
        layout("one_f_one_b", {pp4}),
        layout("one_f_one_b_tensor", {pp2, tp2}),
        layout("one_f_one_b_zero_3", {pp2, dp2, "zero_stage=3"}),
        layout("one_f_one_b_hybrid", {pp2, "data_parallel=4", "zero_stage=1", "zero_group_size=2"}),
        layout("gathered_ahead",
               {pp2, dp2, "zero_stage=1", "training.overlap_parameter_gather=true"}),
        layout("gpipe_context", {pp2, "context_parallel=2", "schedule=gpipe"}),
        layout("interleaved_zero_1", {pp2, two, dp2, "schedule=interleaved", "zero_stage=1"})};
}

Trained train_sets(Sets sets, const Sets& more, const RunOptions& options) {
    sets.insert(sets.end(), more.begin(), more.end());
    return train(scenario(kLlama, sets), options);
}

RunOptions few_steps() {
    RunOptions options;
    options.steps = kSteps;
    return options;
}

Sets with_key(Sets sets) {
    sets.push_back(kKey);
    return sets;
}

// Gradients that overflowed are not numbers, and equal nothing.
void expect_same_updates(const Trained& a, const Trained& b) {
    EXPECT_EQ(a.losses, b.losses);
    EXPECT_EQ(a.skipped, b.skipped);
    EXPECT_EQ(a.parameters, b.parameters);
    ASSERT_EQ(a.norms.size(), b.norms.size());
    for (std::size_t i = 0; i < a.norms.size(); ++i)
        if (a.skipped[i] == runtime::Skipped::no) {
            EXPECT_EQ(a.norms[i], b.norms[i]) << i;
        }
}

// fp16 whose loss scale begins so high that the first steps overflow: their updates are not taken,
// and the scale falls.
constexpr const char* kOverflowing =
    R"(training.loss_scale={"initial": 2097152, "growth_interval": 4, "hysteresis": 1})";
constexpr std::int64_t kOverflowSteps = 10;

void expect_some_overflow(const Trained& run) {
    const auto overflows =
        std::count(run.skipped.begin(), run.skipped.end(), runtime::Skipped::overflow);
    EXPECT_GT(overflows, 0);
    EXPECT_LT(overflows, kOverflowSteps - 2);
}

// Norms of a run that clips nothing are told, so that a clip_norm can lie among them.
std::string clip_norm(double norm) {
    return "training.optimizer.clip_norm=" + std::to_string(norm);
}

double middle(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2] * 0.9999;
}

class PostValidated : public testing::TestWithParam<NamedLayout> {};

// A norm that clips nothing, each step, and some steps.
TEST_P(PostValidated, TrainsWhatWaitingDoes) {
    const Sets fp32 = {"training.precision=fp32"};
    const Trained free = train_sets(GetParam().sets, {fp32[0], clip_norm(1e6)}, few_steps());
    expect_same_bits(train_sets(with_key(GetParam().sets), {fp32[0], clip_norm(1e6)}, few_steps()),
                     free);
    for (const double clip : {1e-3, middle(free.norms)}) {
        const Sets more = {fp32[0], clip_norm(clip)};
        const Trained expected = train_sets(GetParam().sets, more, few_steps());
        EXPECT_NE(expected.parameters, free.parameters) << "nothing is clipped";
        const Trained run = train_sets(with_key(GetParam().sets), more, few_steps());
        expect_same_bits(run, expected);
        for (const runtime::RankMemory& memory : run.result.memory)
            EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
    }
}

TEST_P(PostValidated, TakesBackStepsThatOverflow) {
    const Sets more = {"training.precision=fp16", kOverflowing};
    RunOptions options = few_steps();
    options.steps = kOverflowSteps;
    const Trained expected = train_sets(GetParam().sets, more, options);
    expect_some_overflow(expected);
    expect_same_updates(train_sets(with_key(GetParam().sets), more, options), expected);
}

TEST_P(PostValidated, KeepsToItsTensorsUnderAnyTiming) {
    const Sets more = {"training.precision=bf16", clip_norm(1e-3)};
    const Trained expected = train_sets(GetParam().sets, more, few_steps());
    RunOptions delayed = few_steps();
    delayed.cpu.poison = true;
    delayed.cpu.delay_seed = 1;
    expect_same_bits(train_sets(with_key(GetParam().sets), more, delayed), expected);
    RunOptions watched = few_steps();
    watched.cpu.guard = true;
    watched.cpu.poison = true;
    expect_same_bits(train_sets(with_key(GetParam().sets), more, watched), expected);
}

INSTANTIATE_TEST_SUITE_P(All, PostValidated, testing::ValuesIn(post_validated_layouts()),
                         [](const auto& tested) { return tested.param.name; });

// fp16 without clipping has overflow alone to hand on.
TEST(PostValidation, OfOverflowAlone) {
    const Sets sets = {"layout.pipeline_parallel=2", "layout.schedule=zb-2p"};
    const Sets more = {"training.precision=fp16", kOverflowing, clip_norm(0)};
    RunOptions options = few_steps();
    options.steps = kOverflowSteps;
    const Trained expected = train_sets(sets, more, options);
    expect_some_overflow(expected);
    expect_same_updates(train_sets(with_key(sets), more, options), expected);
}

// A batch that grows is another plan: the step before it is validated first.
TEST(PostValidation, OfABatchThatGrows) {
    const Sets sets = {
        "layout.pipeline_parallel=2",
        R"(training.batch_ramp={"start_batch_size": 4, "increment": 4, "over_samples": 8})"};
    const Sets more = {"training.precision=fp32", clip_norm(1e-3)};
    expect_same_bits(train_sets(with_key(sets), more, few_steps()),
                     train_sets(sets, more, few_steps()));
}

plan::Procedure& procedure_named(plan::Program& program, const std::string& name) {
    return *std::find_if(program.procedures.begin(), program.procedures.end(),
                         [&](const plan::Procedure& p) { return p.name == name; });
}

// Each fault in the plan shows in what is trained.
void expect_found(const std::function<void(plan::Plan&)>& fault) {
    const Sets sets = {"layout.pipeline_parallel=2", "layout.schedule=zb-2p"};
    const Sets more = {"training.precision=fp32", clip_norm(1e-3)};
    const Trained expected = train_sets(sets, more, few_steps());
    RunOptions faulty = few_steps();
    faulty.change_plan = fault;
    EXPECT_NE(train_sets(with_key(sets), more, faulty).parameters, expected.parameters);
}

TEST(PostValidationMutation, AStageThatIsLeftOutOfTheSumIsFound) {
    expect_found([](plan::Plan& plan) {
        plan::BlockUse& use = procedure_named(plan.programs[1], "sum").uses.front();
        use.block = procedure_named(plan.programs[0], "sum").uses.front().block;
        use.slots.pop_back();  // of what the stage before has handed on
    });
}

TEST(PostValidationMutation, StatesThatAreNotPutBackAreFound) {
    for (const std::size_t rank : {0U, 1U})
        expect_found([rank](plan::Plan& plan) {
            plan::Procedure& amend = procedure_named(plan.programs[rank], "amend");
            amend.uses.erase(amend.uses.begin());
        });
}

TEST(PostValidationMutation, AnAmendmentThatDoesNotReadTheNormIsFound) {
    expect_found([](plan::Plan& plan) {
        const plan::BlockUse speculative =
            procedure_named(plan.programs[0], "optimizer").uses.back();
        procedure_named(plan.programs[0], "amend").uses.back() = speculative;
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
