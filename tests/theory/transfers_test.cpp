// Transfers of a lowered schedule: each activation and gradient that crosses ranks is sent once and
// received once, in the same order on both sides; the steady state of 1F1B sends forward p−i−1
// ahead of the backward that it receives, in one exchange (Narayanan et al. 2021; Megatron-LM's
// send_forward_recv_backward).
#include <algorithm>
#include <map>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Action;
using plan::ActionKind;
using plan::Step;
using plan::Transfer;

plan::Plan pipeline(const std::string& schedule, std::int64_t p, std::int64_t m, std::int64_t v) {
    return plan_of({set("model.n_layer", p * v), set("layout.pipeline_parallel", p),
                    set("layout.virtual_pipeline", v), set("layout.global_batch_size", m),
                    "layout.schedule=" + schedule});
}

// The forward sends that are in one exchange with a backward receive, by micro-batch.
std::vector<std::pair<std::int32_t, std::int32_t>> traded(const plan::Program& program) {
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
    for (const Step& step : program.steps) {
        if (step.transfers.size() != 2) continue;
        const Action &a = step.transfers[0].action, &b = step.transfers[1].action;
        // The first backward may arrive apart: the peer has taken the next forward before it.
        if (a.kind == ActionKind::send_f && b.kind == ActionKind::recv_b && b.micro_batch > 0)
            pairs.emplace_back(a.micro_batch, b.micro_batch);
    }
    return pairs;
}

TEST(Exchanges, OfOneFOneBTradeForwardForBackward) {
    for (const std::int32_t p : {2, 4, 8})
        for (const std::int32_t m : {8, 13}) {
            const plan::Plan plan = pipeline("1f1b", p, m, 1);
            for (std::int32_t i = 0; i + 1 < p; ++i) {
                const std::int32_t ahead = p - i - 1;
                std::vector<std::pair<std::int32_t, std::int32_t>> expected;
                for (std::int32_t k = 1; k + ahead < m; ++k)
                    expected.emplace_back(k + ahead, k);
                EXPECT_EQ(traded(plan.programs[static_cast<std::size_t>(i)]), expected)
                    << "p " << p << " m " << m << " rank " << i;
            }
            EXPECT_TRUE(traded(plan.programs.back()).empty());
        }
}

TEST(Exchanges, OfGpipeAreNone) {
    const plan::Plan plan = pipeline("gpipe", 4, 8, 1);
    for (const plan::Program& program : plan.programs)
        for (const Step& step : program.steps)
            EXPECT_LE(step.transfers.size(), 1U);
}

TEST(Transfers, AreSentOnceAndReceivedOnceInOneOrder) {
    struct Case {
        const char* schedule;
        std::int64_t p, m, v;
    };
    for (const Case& c : {Case{"1f1b", 4, 6, 1}, Case{"gpipe", 3, 5, 1},
                          Case{"interleaved", 4, 8, 2}, Case{"interleaved", 2, 6, 3}}) {
        const plan::Plan plan = pipeline(c.schedule, c.p, c.m, c.v);
        // (sender, receiver) → what goes over, as (receiving stage, micro-batch, forward).
        using Message = std::tuple<std::int32_t, std::int32_t, bool>;
        std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Message>> sent, received;
        for (const plan::Program& program : plan.programs)
            for (const Step& step : program.steps)
                for (const Transfer& t : step.transfers) {
                    EXPECT_EQ(t.bytes, 32 * 512 * 2);  // s·b·h of 16 bits
                    const std::int32_t self = program.pipeline_rank;
                    const Action& a = t.action;
                    if (a.kind == ActionKind::send_f)
                        sent[{self, t.peer}].emplace_back(a.stage + 1, a.micro_batch, true);
                    if (a.kind == ActionKind::send_b)
                        sent[{self, t.peer}].emplace_back(a.stage - 1, a.micro_batch, false);
                    if (a.kind == ActionKind::recv_f)
                        received[{t.peer, self}].emplace_back(a.stage, a.micro_batch, true);
                    if (a.kind == ActionKind::recv_b)
                        received[{t.peer, self}].emplace_back(a.stage, a.micro_batch, false);
                }
        EXPECT_EQ(sent, received) << c.schedule;
        std::size_t messages = 0;
        for (auto& [pair, list] : sent) {
            messages += list.size();
            std::sort(list.begin(), list.end());
            EXPECT_EQ(std::adjacent_find(list.begin(), list.end()), list.end());
        }
        EXPECT_EQ(messages, static_cast<std::size_t>(2 * (c.p * c.v - 1) * c.m)) << c.schedule;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
