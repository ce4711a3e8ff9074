// Bubble ÷ ideal with equal stages and free communication: (p−1)/m for GPipe (Huang et al. 2019)
// and 1F1B, (p−1)/(v·m) interleaved (Narayanan et al. 2021 §2.2). In integers: the step takes
// m·v·(F + B) + (p−1)·(F + B) where F and B are one chunk's. Of schedules whose backward runs in
// halves ZB-H1 idles (p−1)(F + I − W) (Qi et al. 2024), and all as long as their grids do.
#include <tuple>

#include "sim/engine/engine.hpp"
#include "tests/plan/schedule/timed_run.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "trace/accounts.hpp"
#include "trace/trace.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using sim::Picoseconds;

constexpr Picoseconds kForward = 1000;
constexpr Picoseconds kBackward = 2000;
constexpr Picoseconds kInput = 1000, kWeight = 1000;
constexpr plan::Units kHalves{kForward, kInput, kWeight};

// Only layers cost: embedding, head and optimizer would make stages unequal.
std::vector<Picoseconds> unit_durations(const plan::Plan& plan, const plan::Units& halves) {
    std::vector<Picoseconds> durations;
    for (const plan::Block& block : plan.blocks)
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const bool first = i == 0;
            if (first && block.name == "layer.forward")
                durations.push_back(kForward);
            else if (first && block.name == "layer.backward")
                durations.push_back(kBackward);
            else if (first && block.name == "layer.backward_input")
                durations.push_back(halves.input);
            else if (first && block.name == "layer.backward_weight")
                durations.push_back(halves.weight);
            else
                durations.push_back(0);
        }
    return durations;
}

struct Run {
    plan::Plan plan;
    std::vector<plan::LinkedProgram> linked;
    sim::EngineResult result;
    Picoseconds end = 0;
};

Run run(const std::string& schedule, std::int64_t p, std::int64_t m, std::int64_t v,
        Picoseconds transfer = 0, const plan::Units& halves = kHalves) {
    Run run;
    run.plan = plan_of({"model.n_embd=16", "model.n_head=2", "model.vocab_size=16",
                        "training.sequence_length=4", set("model.n_layer", p * v),
                        set("layout.pipeline_parallel", p), set("layout.virtual_pipeline", v),
                        set("layout.global_batch_size", m), "layout.schedule=" + schedule});
    const std::vector<Picoseconds> durations = unit_durations(run.plan, halves);
    sim::EngineInput input;
    input.plan = &run.plan;
    input.launch_queue = 1'000'000;
    for (const plan::Program& program : run.plan.programs) {
        input.linked.push_back(plan::link(run.plan, program));
        sim::EngineTrack track;
        track.program = program.pipeline_rank;
        track.durations = &durations;
        track.groups.fill(-1);
        for (std::int64_t peer = 0; peer < p; ++peer)
            track.pipeline_peers.push_back(static_cast<sim::TrackId>(peer));
        track.transfer_to_peer.assign(static_cast<std::size_t>(p), transfer);
        input.tracks.push_back(std::move(track));
    }
    run.result = run_engine(input);
    run.linked = std::move(input.linked);
    EXPECT_TRUE(run.result.stuck.empty());
    for (const auto& events : run.result.events)
        for (const trace::Event& event : events)
            run.end = std::max(run.end, event.end);
    return run;
}

Picoseconds step_time(const std::string& schedule, std::int64_t p, std::int64_t m, std::int64_t v) {
    return run(schedule, p, m, v).end;
}

// A result passes 2(pv − 1) times from stage to stage on its way. Where all ranks of the ring hand
// on at once, each both sends and receives, and a transfer waits for at most two others: in an odd
// ring for a third turn.
TEST(BubbleWithTransfers, GrowsByAtMostTheTurnsOfEachHop) {
    constexpr Picoseconds kTransfer = 10;
    for (const std::int64_t p : {3, 4, 8, 16})
        for (const std::int64_t v : {2, 4}) {
            const std::int64_t hops = 2 * (p * v - 1);
            const std::int64_t turns = p % 2 == 0 ? 2 : 3;
            const Picoseconds free = run("interleaved", p, p, v).end;
            const Picoseconds priced = run("interleaved", p, p, v, kTransfer).end;
            EXPECT_GE(priced - free, hops * kTransfer) << "p " << p << " v " << v;
            EXPECT_LE(priced - free, turns * hops * kTransfer) << "p " << p << " v " << v;
        }
}

TEST(BubbleOfHalves, IsThatOfZbH1) {
    for (const std::int64_t p : {1, 2, 3, 4, 8})
        for (const std::int64_t m : {p, p + 1, 2 * p, 3 * p + 1})
            EXPECT_EQ(step_time("zb-h1", p, m, 1),
                      m * (kForward + kInput + kWeight) + (p - 1) * (kForward + kInput - kWeight))
                << "p " << p << " m " << m;
}

// Plan and engine add nothing to what the order of actions says.
TEST(BubbleOfHalves, IsThatOfTheGrid) {
    for (const std::string schedule : {"zb-h1", "zb-2p", "zb-v", "v-half", "dualpipe-v"})
        for (const std::int32_t p : {2, 3, 4})
            for (const std::int32_t m : {2 * p, 3 * p + 1}) {
                const plan::ScheduleKind& kind = *plan::find_schedule(schedule);
                const std::int32_t v = kind.chunks == plan::Chunks::two ? 2 : 1;
                const Picoseconds expected =
                    plan::TimedGrid(kind.order({p, v, m}), p * v, m).run(kHalves).makespan();
                EXPECT_EQ(step_time(schedule, p, m, v), expected)
                    << schedule << " p " << p << " m " << m;
            }
}

// Where halves take what they do not in lowering's units, transfers still wait for no action that
// comes later than the one they are for: each of a rank's 2m costs a few transfers at most.
TEST(BubbleOfHalves, IsThatOfTheGridWhateverTheHalvesTake) {
    constexpr plan::Units kUnlike{kForward, 1300, 800};
    constexpr std::int32_t m = 24;
    for (const std::string schedule : {"zb-h1", "zb-2p"})
        for (const std::int32_t p : {2, 4, 8}) {
            const Picoseconds expected =
                plan::TimedGrid(plan::find_schedule(schedule)->order({p, 1, m}), p, m)
                    .run(kUnlike)
                    .makespan();
            const Picoseconds end = run(schedule, p, m, 1, 1, kUnlike).end;
            EXPECT_GE(end, expected) << schedule << " p " << p;
            EXPECT_LE(end, expected + 4 * (m + p)) << schedule << " p " << p;
        }
}

// The run as a trace, with what accounts need of it.
trace::Trace trace_of(const Run& run) {
    trace::Trace trace;
    trace.step_end = run.end;
    for (const plan::Op* op : all_ops(run.plan))
        trace.ops.push_back({"", op->label, op->kind(), op->phase, op->stream, op->group});
    for (std::size_t t = 0; t < run.linked.size(); ++t) {
        trace::ProgramOps program;
        program.pipeline_rank = static_cast<std::int32_t>(t);
        program.op = run.linked[t].op;
        program.step = run.linked[t].step;
        trace.programs.push_back(std::move(program));
        trace.tracks.push_back(
            {static_cast<std::int64_t>(t), {}, static_cast<std::int32_t>(t), run.result.events[t]});
    }
    return trace;
}

// Every p ≤ 16 and m ≤ 64 (interleaved: m in groups of p) for one schedule, p and v.
using Case = std::tuple<std::string, std::int64_t, std::int64_t>;
class Bubble : public testing::TestWithParam<Case> {};

TEST_P(Bubble, IsThatOfTheSchedule) {
    const auto& [schedule, p, v] = GetParam();
    const std::int64_t group = v > 1 ? p : 1;
    for (std::int64_t m = group; m <= 64; m += group) {
        const Picoseconds ideal = m * v * (kForward + kBackward);
        const Picoseconds bubble = step_time(schedule, p, m, v) - ideal;
        // bubble ÷ ideal = (p − 1) ÷ (v·m)
        EXPECT_EQ(bubble * v * m, (p - 1) * ideal) << m << " micro-batches";
    }
}

std::vector<Case> cases() {
    std::vector<Case> all;
    for (std::int64_t p = 1; p <= 16; ++p) {
        for (const char* schedule : {"gpipe", "1f1b"})
            all.emplace_back(schedule, p, 1);
        for (const std::int64_t v : {2, 3, 4})
            if (p > 1) all.emplace_back("interleaved", p, v);
    }
    return all;
}

std::string case_name(const testing::TestParamInfo<Case>& param) {
    const auto& [schedule, p, v] = param.param;
    return "s" + schedule + "_p" + std::to_string(p) + "_v" + std::to_string(v);
}

INSTANTIATE_TEST_SUITE_P(Grid, Bubble, testing::ValuesIn(cases()), case_name);

// Where nothing else costs time, every rank idles only for its pipeline: (p−1)·(F + B) each.
TEST(BubbleAccount, HoldsAllThatARankIdles) {
    constexpr std::int64_t p = 4;
    constexpr std::int64_t m = 8;
    const std::pair<const char*, std::int64_t> few[] = {
        {"1f1b", 1}, {"gpipe", 1}, {"interleaved", 2}};
    for (const auto& [schedule, v] : few) {
        const trace::Trace trace = trace_of(run(schedule, p, m, v));
        for (const trace::Track& track : trace.tracks) {
            trace::Accounts expected{};
            expected[static_cast<std::size_t>(trace::Account::compute)] =
                m * v * (kForward + kBackward);
            expected[static_cast<std::size_t>(trace::Account::bubble)] =
                (p - 1) * (kForward + kBackward);
            EXPECT_EQ(accounts_of(trace, track), expected) << schedule << " rank " << track.rank;
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
