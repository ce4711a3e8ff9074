// Gradients of attention in any order need room that those in one order do not: sums of dq in fp32,
// 4·b·s·a·d bytes, a sum for each row, 4·b·s·a, and where a heads share k < a of keys, gradients of
// keys and values of each head in 16 bits before they are added up, 2·b·s·a·(d + dv); lines of 256
// bytes, and 4 KiB beside. It is of one layer at a time.
#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kSequence = 32, kHidden = 512, kHeads = 8, kHeadDim = kHidden / kHeads;
const char* const kAnyOrder = "training.deterministic=false";

Sets with(Sets sets, const std::string& more) {
    sets.push_back(more);
    return sets;
}

// Bytes that attention's backward pass of a layer writes besides the gradient of packed rows.
std::int64_t room_of(const plan::Plan& plan) {
    std::int64_t bytes = 0;
    const plan::Block& block = block_named(plan, "layer.backward");
    for (const plan::Op& op : block.ops)
        if (op.is<plan::AttentionBackward>())
            for (std::size_t i = 1; i < op.writes.size(); ++i)
                bytes += block.tensors[static_cast<std::size_t>(op.writes[i])].bytes();
    return bytes;
}

std::int64_t live_at_peak(const plan::Plan& plan) {
    return plan::memory_peak(plan, plan.programs[0]).live;
}

TEST(AttentionInAnyOrder, HasRoomForWhatItSums) {
    struct Case {
        Sets sets;
        const char* model;
        std::int64_t rows;  // of a rank's sequences
        std::int64_t heads;
        bool shares;
    };
    const std::string two = "layout.micro_batch_size=2", tensor = "layout.tensor_parallel=4";
    for (const Case& c : std::initializer_list<Case>{{{}, kGpt, kSequence, kHeads, false},
                                                     {{}, kLlama, kSequence, kHeads, true},
                                                     {{two}, kLlama, 2 * kSequence, kHeads, true},
                                                     {{tensor}, kLlama, kSequence, 2, true}}) {
        const plan::Plan one_order = plan_of(c.sets, c.model);
        const plan::Plan any_order = plan_of(with(c.sets, kAnyOrder), c.model);
        EXPECT_EQ(room_of(one_order), 0);
        const std::int64_t elements = c.rows * c.heads;  // a multiple of a line's 64
        const std::int64_t of_heads = c.shares ? 2 * elements * 2 * kHeadDim : 0;
        EXPECT_EQ(room_of(any_order), 4 * elements * kHeadDim + 4 * elements + of_heads + 4096);
        EXPECT_LE(live_at_peak(any_order), live_at_peak(one_order) + room_of(any_order));
    }
}

// What no kernel of any order does has none.
TEST(AttentionInAnyOrder, HasNoneWhereItIsNotSummedSo) {
    for (const Sets& sets :
         {Sets{"training.precision=fp32"}, Sets{"training.dropout=0.1"},
          Sets{"training.attention_kernel=unfused"}, Sets{"layout.context_parallel=2"}})
        EXPECT_EQ(room_of(plan_of(with(sets, kAnyOrder), kLlama)), 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
