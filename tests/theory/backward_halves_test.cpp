// Backward in two halves (Qi et al. 2024, arXiv 2401.10241, table 1): the first half is for the
// input, the second for the weights. Of a layer the second one waits on 32·sbh bytes (16-bit,
// dropout, unfused attention), less than the 34·sbh + 5as²b that the forward pass leaves, so that
// ZB-H1 needs no more activation memory than 1F1B.
#include <algorithm>
#include <tuple>

#include "plan/schedule/schedule.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;
using plan::Role;
using plan::Tensor;

constexpr std::int64_t s = 32, b = 2, h = 512, a = 8;
constexpr std::int64_t sbh = s * b * h;

// Statistics of norms aside, as the paper has it.
std::int64_t bytes_of(const Block& block, Role role) {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : block.tensors)
        if (tensor.role == role && !tensor.name.ends_with("_stats")) bytes += tensor.bytes();
    return bytes;
}

plan::Plan halves(Sets sets) {
    sets.insert(sets.end(), {"training.attention_kernel=unfused", "training.dropout=0.1",
                             "training.dropout_masks=stored", "layout.pipeline_parallel=2",
                             "layout.schedule=zb-h1", set("layout.micro_batch_size", b)});
    return plan_of(sets);
}

TEST(BackwardHalves, WaitOnThirtyTwoPartsOfALayer) {
    const plan::Plan plan = halves({});
    const Block& forward = block_named(plan, "layer.forward");
    const Block& weight = block_named(plan, "layer.backward_weight");
    EXPECT_EQ(bytes_of(forward, Role::stash) + bytes_of(forward, Role::kept),
              34 * sbh + 5 * a * s * s * b);
    // Inputs of qkv, projection, fc1 and fc2: 1 + 1 + 1 + 4 of sbh elements.
    EXPECT_EQ(bytes_of(forward, Role::kept), 14 * sbh);
    // Gradients of their outputs: 3 + 1 + 4 + 1.
    EXPECT_EQ(bytes_of(weight, Role::deferred), 18 * sbh);
}

// Inputs are sharded, and gathered again by the second half; so are gradients of column-parallel
// outputs. Those of row-parallel ones are whole: the first half has gathered them.
TEST(BackwardHalves, WaitOnShardsUnderSequenceParallelism) {
    for (const std::int64_t t : {2, 4}) {
        const plan::Plan plan =
            halves({set("layout.tensor_parallel", t), "layout.sequence_parallel=true"});
        const Block& weight = block_named(plan, "layer.backward_weight");
        EXPECT_EQ(bytes_of(weight, Role::kept), 14 * sbh / t);
        EXPECT_EQ(bytes_of(weight, Role::deferred), 14 * sbh / t + 4 * sbh);
        EXPECT_EQ(count(weight, OpKind::all_gather, plan::GroupKind::tensor), 2);
    }
}

// What is made again is deferred with the gradients: the forward pass keeps the layer's input.
TEST(BackwardHalves, DeferWhatRecomputationMakes) {
    const plan::Plan plan = halves({"layout.recompute=full"});
    const Block& forward = block_named(plan, "layer.forward");
    EXPECT_EQ(bytes_of(forward, Role::stash), 2 * sbh);
    EXPECT_EQ(bytes_of(forward, Role::kept), 0);
    EXPECT_EQ(bytes_of(block_named(plan, "layer.backward_weight"), Role::deferred), 32 * sbh);
}

// Each op of a whole backward pass is in one of the halves.
TEST(BackwardHalves, AreTheWhole) {
    using Key = std::tuple<OpKind, std::int64_t, double, std::string, plan::GroupKind>;
    auto keys = [](const plan::Plan& plan, const std::string& part) {
        std::vector<Key> found;
        for (const Block& block : plan.blocks)
            if (block.name.starts_with(part + ".backward"))
                for (const Op& op : block.ops)
                    found.emplace_back(op.kind(), op.size(0), flops(op), op.label, op.group);
        std::sort(found.begin(), found.end());
        return found;
    };
    for (const Sets& layout :
         {Sets{}, Sets{"layout.tensor_parallel=2"},
          Sets{"layout.tensor_parallel=2", "layout.sequence_parallel=true"},
          Sets{"layout.recompute=full"},
          Sets{"layout.recompute=selective", "training.attention_kernel=unfused"}}) {
        Sets sets = layout;
        sets.insert(sets.end(), {"layout.pipeline_parallel=2", "layout.schedule=1f1b"});
        const plan::Plan whole = plan_of(sets);
        sets.back() = "layout.schedule=zb-h1";
        const plan::Plan split = plan_of(sets);
        for (const char* part : {"embedding", "positions", "layer", "final_norm", "head"})
            EXPECT_EQ(keys(split, part), keys(whole, part)) << part;
        EXPECT_GT(block_named(split, "layer.backward_weight").ops.size(), 3U);
        EXPECT_GT(block_named(split, "head.backward_weight").ops.size(), 0U);
    }
}

// Whatever the order, the same work.
TEST(BackwardHalves, ConserveWhatIsExecuted) {
    for (const Sets& layout : {Sets{}, Sets{"layout.recompute=full"},
                               Sets{"layout.recompute=every_k", "layout.recompute_every=2"},
                               Sets{"layout.tensor_parallel=2", "layout.sequence_parallel=true"}}) {
        Sets sets = layout;
        sets.insert(sets.end(), {"model.n_layer=8", "layout.pipeline_parallel=2",
                                 "layout.virtual_pipeline=1", "layout.schedule=1f1b"});
        const plan::Conserved whole = plan_of(sets).conserved;
        for (const char* schedule : {"zb-h1", "zb-2p", "zb-v", "v-half", "dualpipe-v"}) {
            sets.back() = std::string("layout.schedule=") + schedule;
            const bool v = plan::find_schedule(schedule)->chunks == plan::Chunks::two;
            sets[sets.size() - 2] = set("layout.virtual_pipeline", v ? 2 : 1);
            EXPECT_EQ(plan_of(sets).conserved, whole) << schedule;
        }
    }
}

// The most residents of a name alive during one step.
std::int32_t most_alive(const plan::Program& program, const std::string& name) {
    std::vector<std::int32_t> change(program.steps.size() + 1, 0);
    for (const plan::Resident& resident : program.residents) {
        if (!resident.name.starts_with(name)) continue;
        ++change[static_cast<std::size_t>(resident.first_step)];
        --change[static_cast<std::size_t>(resident.last_step) + 1];
    }
    std::int32_t alive = 0, most = 0;
    for (const std::int32_t c : change)
        most = std::max(most, alive += c);
    return most;
}

// ZB-H1 has min(m, p) micro-batches in flight on every rank; what the first half alone reads is
// there for as many as 1F1B has, min(m, p − i).
TEST(BackwardHalves, KeepMicroBatchesInFlight) {
    for (const std::int32_t p : {1, 2, 4, 7})
        for (const std::int32_t m : {1, 3, 8, 20}) {
            const plan::Plan plan =
                plan_of({"model.n_embd=16", "model.n_head=2", "model.vocab_size=16",
                         "training.sequence_length=4", set("model.n_layer", p),
                         set("layout.pipeline_parallel", p), set("layout.global_batch_size", m),
                         "layout.schedule=zb-h1"});
            for (std::int32_t i = 0; i < p; ++i) {
                const plan::Program& program = plan.programs[static_cast<std::size_t>(i)];
                EXPECT_EQ(most_alive(program, "kept "), std::min(m, p))
                    << p << ' ' << m << ' ' << i;
                EXPECT_EQ(most_alive(program, "stash "), std::min(m, p - i))
                    << p << ' ' << m << ' ' << i;
                EXPECT_EQ(most_alive(program, "deferred "), std::min(m, i + 1))
                    << p << ' ' << m << ' ' << i;
            }
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
