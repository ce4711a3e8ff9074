// Ops keep to the tensors that the plan has them write, in every layout; and faults that are
// planted are found, with the op's name.
#include <gmock/gmock.h>

#include "runtime/streams/arena_guard.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;
using plan::Tensor;
using testing::AllOf;
using testing::HasSubstr;

RunOptions guarded(std::int64_t steps) {
    RunOptions options;
    options.steps = steps;
    options.cpu.guard = true;
    options.cpu.poison = true;
    return options;
}

Trained train_sets(Sets sets, const RunOptions& options, const char* text = kGpt) {
    sets.push_back("training.precision=bf16");
    return train(scenario(text, sets), options);
}

class Guard : public testing::TestWithParam<NamedLayout> {};

// And change nothing by being watched. Two steps: the second finds what the first has left.
TEST_P(Guard, FindsEveryOpWithinItsTensors) {
    const bool llama = GetParam().name.starts_with("window");
    const char* const text = llama ? kLlama : kGpt;
    // All memory is looked at for each op, most of it weights.
    Sets sets = GetParam().sets;
    sets.insert(sets.begin(), llama ? "model.hidden_size=32" : "model.n_embd=32");
    RunOptions calm;
    calm.steps = 2;
    const Trained watched = train_sets(sets, guarded(2), text);
    const Trained expected = train_sets(sets, calm, text);
    EXPECT_EQ(watched.losses, expected.losses);
    EXPECT_EQ(watched.parameters, expected.parameters);
}

std::vector<NamedLayout> guarded_layouts() {
    std::vector<NamedLayout> all = all_layouts();
    for (const NamedLayout& layout : windowed_layouts())
        all.push_back(layout);
    all.push_back(layout("dropout", {"training.dropout=0.1", "tensor_parallel=2",
                                     "sequence_parallel=true", "pipeline_parallel=2"}));
    all.push_back(
        layout("unfused_dropout", {"training.dropout=0.1", "training.attention_kernel=unfused",
                                   "training.dropout_masks=stored", "recompute=selective"}));
    all.push_back(layout("loss_spike", {"training.loss_spike.skip_above=2", "data_parallel=2",
                                        "training.loss_spike.window=1"}));
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, Guard, testing::ValuesIn(guarded_layouts()),
                         [](const auto& tested) { return tested.param.name; });

// The first tensor of this name in a block whose name begins so.
Tensor& tensor_of(plan::Plan& plan, const std::string& block_name, const std::string& name) {
    for (Block& block : plan.blocks)
        for (Tensor& tensor : block.tensors)
            if (block.name.starts_with(block_name) && tensor.name == name) return tensor;
    throw std::logic_error("no tensor " + name);
}

std::string fault_of(const std::function<void(plan::Plan&)>& change_plan, const Sets& sets = {}) {
    RunOptions options = guarded(1);
    options.change_plan = change_plan;
    try {
        train_sets(sets, options);
    } catch (const runtime::MemoryFault& fault) {
        return fault.what();
    }
    return "";
}

// A kernel goes by the sizes of its op: where a tensor is planned smaller, it writes beyond it.
TEST(GuardMutation, AWriteBeyondATensorIsFound) {
    const auto narrow = [](const char* block, const char* name) {
        return [=](plan::Plan& plan) { --tensor_of(plan, block, name).dims[1]; };
    };
    EXPECT_THAT(fault_of(narrow("layer.forward", "context")),
                AllOf(HasSubstr("rank 0: layer.forward attention \"attention\", layer 0, "
                                "micro-batch 0 wrote byte "),
                      HasSubstr("which is in no tensor that it writes")));
    EXPECT_THAT(fault_of(narrow("head.forward", "sums"), {"layout.pipeline_parallel=2"}),
                HasSubstr("rank 1: head.forward cross_entropy_sum"));
}

TEST(GuardMutation, ATensorThatIsWrittenInPartIsFound) {
    EXPECT_THAT(
        fault_of([](plan::Plan& plan) {
            for (Block& block : plan.blocks)
                for (Op& op : block.ops)
                    if (block.name == "layer.forward" && op.kind() == OpKind::activation)
                        op.as<plan::Activate>().rows /= 2;
        }),
        AllOf(HasSubstr("rank 0: layer.forward activation"), HasSubstr("did not write element")));
}

TEST(GuardMutation, MemoryThatNoOpTouchesIsFound) {
    EXPECT_THAT(fault_of([](plan::Plan& plan) {
                    plan::Program& program = plan.programs[0];
                    plan::Resident spare;
                    spare.name = "spare";
                    spare.bytes = 512;
                    spare.offset = program.arena_bytes;
                    program.arena_bytes += spare.bytes;
                    spare.last_step = static_cast<std::int32_t>(program.steps.size()) - 1;
                    program.residents.push_back(spare);
                }),
                HasSubstr("no op touches bytes from 0 on of \"spare\", of 512"));
}

TEST(GuardMutation, TensorsBeyondTheArenaAreFound) {
    EXPECT_THAT(fault_of([](plan::Plan& plan) { plan.programs[0].arena_bytes -= 1024; }),
                HasSubstr("beyond an arena of"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
