// What stacks copy between the buffers that they gather into, or reduce from, and the tensors of
// parts (training.sharded_buffers): FSDP2 every gathered part and every gradient, on the stream of
// compute; FSDP1 gradients alone; DeepSpeed under ZeRO-3 both, beside compute.
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Op;
using plan::OpKind;
using plan::Stream;

constexpr std::int64_t kMicroBatches = 3;

Sets sharded(std::int64_t stage, const std::string& buffers, const Sets& more = {}) {
    Sets sets = {"layout.data_parallel=2", "layout.micro_batch_size=1",
                 set("layout.global_batch_size", 2 * kMicroBatches),
                 set("layout.zero_stage", stage), "training.sharded_buffers=" + buffers};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

// Elements that a step copies on a stream.
std::int64_t copied(const plan::Plan& plan, Stream stream) {
    std::int64_t elements = 0;
    for (const Op* op : executed_ops(plan))
        if (op->kind() == OpKind::cast && op->stream == stream) elements += op->size(0);
    return elements;
}

// Each micro-batch: parameters for forward and again for backward, gradients once.
TEST(ShardedBuffers, AreCopiedAsTheStackDoes) {
    struct Case {
        const char* buffers;
        std::int64_t stage;
        std::int64_t on_compute, beside;  // of the model
    };
    for (const Case& c :
         {Case{"in_place", 3, 0, 0}, Case{"flat", 3, 1, 0}, Case{"flat", 2, 1, 0},
          Case{"copied", 3, 3, 0}, Case{"copied", 2, 1, 0}, Case{"bucketed", 3, 0, 3},
          Case{"bucketed", 2, 1, 0}, Case{"copied", 1, 0, 0}, Case{"copied", 0, 0, 0}}) {
        const plan::Plan plan = plan_of(sharded(c.stage, c.buffers));
        const std::int64_t model = kMicroBatches * plan.conserved.parameters;
        SCOPED_TRACE(std::string(c.buffers) + " " + std::to_string(c.stage));
        EXPECT_EQ(copied(plan, Stream::compute), c.on_compute * model);
        EXPECT_EQ(copied(plan, Stream::data_comm), c.beside * model);
    }
}

TEST(ShardedBuffers, AreCopiedOnceWhereParametersStayForBackward) {
    const plan::Plan plan = plan_of(sharded(3, "copied", {"layout.reshard_after_forward=false"}));
    EXPECT_EQ(copied(plan, Stream::compute), kMicroBatches * 2 * plan.conserved.parameters);
}

// Of the largest part, parameters of 2 bytes and sums of 4. In place two slots of each. FSDP2: two
// parts gathered and one copied out; gradients as they are computed, and one part's on its way.
// FSDP1: gradients as they are computed, and two parts' on their way.
TEST(ShardedBuffers, TakeTheMemoryOfBothSides) {
    const std::int64_t h = scenario().model.hidden;
    const std::int64_t layer = 12 * h * h + 13 * h;
    const auto rings = [](const std::string& buffers) {
        const plan::Plan plan = plan_of(sharded(3, buffers, {"training.gradient_dtype=fp32"}));
        std::int64_t bytes = 0;
        const plan::Program& program = plan.programs.front();
        for (const auto* ring : {&program.parameter_ring, &program.gradient_ring})
            for (const std::int32_t slot : *ring)
                bytes += program.residents[static_cast<std::size_t>(slot)].bytes;
        return bytes;
    };
    EXPECT_EQ(rings("in_place"), (2 * 2 + 2 * 4) * layer);
    EXPECT_EQ(rings("copied"), (2 * 2 + 2 + 2 + 4) * layer);
    EXPECT_EQ(rings("flat"), (2 * 2 + 2 + 2 * 4) * layer);
    EXPECT_EQ(rings("bucketed"), (2 + 2 * 2 + 2 * 2 + 2 * 4) * layer);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
