// What runs beside what, by closed forms. Durations are set by hand and the engine walks the plan:
// - a product C and the gathering or summing G of its tokens, in k parts: max(C, G) + min(C, G)/k;
// - n buckets' parameters gathered in time G each before parts of time F each, one after another:
//   G + n·F where F ≥ G, else n·G + F, instead of n·(G + F);
// - transfers with a stream for each peer: none waits for one with another peer;
// - transfers that a rank waits for: nothing is computed before all issued earlier have ended.
#include <algorithm>
#include <functional>

#include "plan/ops/matrix.hpp"
#include "sim/engine/engine.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::OpKind;
using sim::Picoseconds;

using Price = std::function<Picoseconds(const plan::Block&, const plan::Op&)>;

struct Walked {
    plan::Plan plan;
    sim::EngineInput input;
    sim::EngineResult result;

    Picoseconds end() const {
        Picoseconds last = 0;
        for (const auto& events : result.events)
            for (const auto& event : events)
                last = std::max(last, event.end);
        return last;
    }
};

// One rank of each pipeline stage, its collectives with nobody.
void run(Walked& of, const Price& price, Picoseconds transfer) {
    std::vector<Picoseconds> durations;
    for (const plan::Block& block : of.plan.blocks)
        for (const plan::Op& op : block.ops)
            durations.push_back(price(block, op));
    of.input.plan = &of.plan;
    of.input.launch_queue = 1'000'000;
    const std::size_t ranks = of.plan.programs.size();
    for (const plan::Program& program : of.plan.programs) {
        of.input.linked.push_back(plan::link(of.plan, program));
        sim::EngineTrack track;
        track.program = program.pipeline_rank;
        track.durations = &durations;
        track.groups.fill(-1);
        for (std::size_t peer = 0; peer < ranks; ++peer) {
            track.pipeline_peers.push_back(static_cast<std::int32_t>(peer));
            track.transfer_to_peer.push_back(transfer);
        }
        of.input.tracks.push_back(std::move(track));
    }
    of.result = run_engine(of.input);
    EXPECT_TRUE(of.result.stuck.empty());
}

Picoseconds time_of(const Sets& sets, const Price& price, const char* text = kGpt) {
    Walked of{plan_of(sets, text), {}, {}};
    run(of, price, 0);
    return of.end();
}

// Of the forward pass of a one-layer model, where only this collective and this product take time.
Picoseconds layer_time(std::int64_t parts, OpKind kind, const std::string& product, Picoseconds c,
                       Picoseconds g) {
    const Sets sets = {"model.n_layer=1", "layout.tensor_parallel=2",
                       "layout.sequence_parallel=true", "layout.global_batch_size=1",
                       set("training.tensor_overlap_parts", parts)};
    std::int64_t found = 0;
    const Picoseconds time = time_of(sets, [&](const plan::Block& block, const plan::Op& op) {
        if (block.name != "layer.forward") return Picoseconds{0};
        const bool communicates = op.kind() == kind && op.label.rfind(product, 0) == 0;
        if (!communicates && !(op.kind() == OpKind::gemm && op.label == product))
            return Picoseconds{0};
        ++found;
        return (communicates ? g : c) / parts;
    });
    EXPECT_EQ(found, 2 * parts);
    return time;
}

TEST(TensorOverlap, HidesAllButOnePartOfTheShorter) {
    for (const std::int64_t parts : {1, 2, 4, 8})
        for (const Picoseconds c : {8000, 16000, 40000})
            for (const Picoseconds g : {800, 16000, 24000})
                for (const auto& [kind, product] : {std::pair{OpKind::all_gather, "qkv"},
                                                    {OpKind::all_gather, "fc1"},
                                                    {OpKind::reduce_scatter, "projection"},
                                                    {OpKind::reduce_scatter, "fc2"}})
                    EXPECT_EQ(layer_time(parts, kind, product, c, g),
                              std::max(c, g) + std::min(c, g) / parts)
                        << product << " in " << parts << " parts, " << c << " and " << g;
}

// Parts change neither what is multiplied nor what is sent.
TEST(TensorOverlap, KeepsProductsAndBytes) {
    const Sets sets = {"layout.tensor_parallel=4", "layout.sequence_parallel=true",
                       "layout.micro_batch_size=2"};
    for (const char* text : {kGpt, kLlama}) {
        const plan::Plan whole = plan_of(sets, text);
        Sets split = sets;
        split.push_back("training.tensor_overlap_parts=4");
        const plan::Plan parts = plan_of(split, text);
        EXPECT_EQ(parts.conserved, whole.conserved);
        for (const char* name : {"layer.forward", "layer.backward"}) {
            const plan::Block& a = block_named(whole, name);
            const plan::Block& b = block_named(parts, name);
            double flops[2] = {}, moved[2] = {};
            std::int64_t sent[2] = {};
            for (int i = 0; i < 2; ++i) {
                const plan::Block& block = i == 0 ? a : b;
                for (const plan::Op& op : block.ops) {
                    flops[i] += plan::flops(op);
                    if (is_communication(op.kind())) sent[i] += ring_elements(op);
                    if (op.parts > 1 || op.kind() != OpKind::gemm) continue;
                    moved[i] += plan::bytes_moved(block, op);
                }
            }
            EXPECT_EQ(flops[0], flops[1]) << name;
            EXPECT_EQ(sent[0], sent[1]) << name;
        }
        // Two gathers and two sums forward; backward two of each, and of two inputs again, which
        // only weight gradients read.
        EXPECT_EQ(count(block_named(parts, "layer.forward"), OpKind::all_gather, GroupKind::tensor),
                  4 * 2);
        EXPECT_EQ(
            count(block_named(parts, "layer.forward"), OpKind::reduce_scatter, GroupKind::tensor),
            4 * 2);
        EXPECT_EQ(
            count(block_named(parts, "layer.backward"), OpKind::all_gather, GroupKind::tensor),
            4 * 2 + 2);
        EXPECT_EQ(
            count(block_named(parts, "layer.backward"), OpKind::reduce_scatter, GroupKind::tensor),
            4 * 2);
    }
}

TEST(ParameterGather, RunsBesideTheFirstForwardPass) {
    const Sets late = {"layout.data_parallel=2", "layout.zero_stage=1",
                       "training.gradient_bucket_mb=1e-6", "layout.global_batch_size=2"};
    Sets ahead = late;
    ahead.push_back("training.overlap_parameter_gather=true");
    const plan::Plan plan = plan_of(ahead);
    const auto n = static_cast<Picoseconds>(plan.programs.front().buckets.size());
    ASSERT_EQ(plan.programs.front().stages.front().parts.size(), static_cast<std::size_t>(n));
    for (const Picoseconds f : {500, 1000, 3000})
        for (const Picoseconds g : {500, 1000, 3000}) {
            const Price price = [&](const plan::Block& block, const plan::Op& op) {
                if (block.name == "gather.bucket") return g;
                const bool first = &op == &block.ops.front();
                return first && block.name.find(".forward") != std::string::npos ? f : 0;
            };
            EXPECT_EQ(time_of(late, price), n * (f + g));
            EXPECT_EQ(time_of(ahead, price), f >= g ? g + n * f : n * g + f);
        }
}

TEST(ParameterGather, GathersEachBucketOnceAStep) {
    const Sets layout = {"layout.data_parallel=2",    "layout.pipeline_parallel=2",
                         "layout.virtual_pipeline=2", "layout.schedule=interleaved",
                         "layout.zero_stage=2",       "layout.global_batch_size=8"};
    Sets ahead = layout;
    ahead.push_back("training.overlap_parameter_gather=true");
    auto gathers = [](const plan::Plan& plan, std::size_t rank) {
        std::vector<std::int64_t> elements;
        for (const plan::Op* op : executed_ops(plan, rank))
            if (op->kind() == OpKind::all_gather && op->group == GroupKind::data)
                elements.push_back(op->size(0));
        std::sort(elements.begin(), elements.end());
        return elements;
    };
    for (std::size_t rank = 0; rank < 2; ++rank) {
        const auto late = gathers(plan_of(layout), rank);
        EXPECT_FALSE(late.empty());
        EXPECT_EQ(gathers(plan_of(ahead), rank), late);
    }
}

// Two stages, m micro-batches, forward F, backward B without the head's weight gradient H, which is
// the last stage's: F + m·(F + B + H) + B; deferred, the first stage's last B runs beside the m·H.
TEST(DeferredHead, FillsTheDrain) {
    constexpr Picoseconds kF = 1000, kB = 2000;
    for (const std::int64_t m : {1, 3, 8})
        for (const Picoseconds h : {100, 500, 4000}) {
            const Sets layout = {"layout.pipeline_parallel=2", "model.n_layer=2",
                                 set("layout.global_batch_size", m)};
            Sets deferred = layout;
            deferred.push_back("training.defer_embedding_gradient=true");
            const Price price = [&](const plan::Block& block, const plan::Op& op) -> Picoseconds {
                if (op.is<plan::Gemm>() && block.name.rfind("head.", 0) == 0 &&
                    op.as<plan::Gemm>().product == plan::GemmProduct::weight_gradient)
                    return h;
                if (&op != &block.ops.front()) return 0;
                if (block.name == "layer.forward") return kF;
                return block.name == "layer.backward" ? kB : 0;
            };
            const Picoseconds last_stage = kF + m * (kF + kB);
            EXPECT_EQ(time_of(layout, price), last_stage + m * h + kB);
            EXPECT_EQ(time_of(deferred, price), last_stage + std::max(kB, m * h));
        }
}

// How many ops of forward and backward passes begin while a transfer that their rank issued before
// is under way.
std::int64_t begun_during_transfers(const Walked& of) {
    std::int64_t begun = 0;
    for (std::size_t r = 0; r < of.result.events.size(); ++r) {
        const plan::LinkedProgram& linked = of.input.linked[r];
        const plan::Program& program = of.plan.programs[r];
        Picoseconds transfers_end = 0;
        for (std::size_t id = 0; id < linked.size(); ++id) {
            const plan::Step& step = program.steps[linked.step[id]];
            const auto& event = of.result.events[r][id];
            if (step.procedure < 0)
                transfers_end = std::max(transfers_end, event.end);
            else if (plan::is_compute(step.action.kind) && event.start < transfers_end)
                ++begun;
        }
    }
    return begun;
}

// Exchanges that began when one with another rank had ended, which was before them in their stream.
int held_back_by_another_peer(const Walked& of) {
    int held = 0;
    for (std::size_t r = 0; r < of.plan.programs.size(); ++r) {
        const plan::Program& program = of.plan.programs[r];
        const plan::LinkedProgram& linked = of.input.linked[r];
        std::vector<plan::Stream> stream_of;
        for (const plan::Block& block : of.plan.blocks)
            for (const plan::Op& op : block.ops)
                stream_of.push_back(op.stream);
        const auto transfers = [&](std::size_t id) -> const std::vector<plan::Transfer>& {
            return program.steps[linked.step[id]].transfers;
        };
        for (std::size_t id = 0; id < linked.size(); ++id) {
            const std::int32_t before = of.result.events[r][id].blocker;
            if (transfers(id).empty() || before < 0 ||
                stream_of[linked.op[id]] != stream_of[linked.op[static_cast<std::size_t>(before)]])
                continue;
            const auto& others = transfers(static_cast<std::size_t>(before));
            if (!others.empty() && others.front().peer != transfers(id).front().peer) ++held;
        }
    }
    return held;
}

TEST(TransferStreams, NoTransferWaitsForOneWithAnotherPeer) {
    const Price price = [](const plan::Block& block, const plan::Op& op) -> Picoseconds {
        if (&op != &block.ops.front()) return 0;
        if (block.name == "layer.forward") return 1000;
        return block.name == "layer.backward" ? 2000 : 0;
    };
    const std::vector<Sets> layouts = {
        {"layout.pipeline_parallel=4", "layout.global_batch_size=8"},
        {"layout.pipeline_parallel=4", "layout.global_batch_size=8", "model.n_layer=8",
         "layout.virtual_pipeline=2", "layout.schedule=interleaved"},
        {"layout.pipeline_parallel=3", "layout.global_batch_size=9", "model.n_layer=6",
         "layout.virtual_pipeline=2", "layout.schedule=interleaved"},
        {"layout.pipeline_parallel=4", "layout.global_batch_size=8", "model.n_layer=8",
         "layout.virtual_pipeline=2", "layout.schedule=zb-v"}};
    for (Sets layout : layouts) {
        layout.push_back("training.transfer_streams=one");
        Walked shared{plan_of(layout), {}, {}};
        run(shared, price, 600);
        layout.back() = "training.transfer_streams=per_peer";
        Walked apart{plan_of(layout), {}, {}};
        run(apart, price, 600);
        EXPECT_GT(held_back_by_another_peer(shared), 0) << layout.front();
        EXPECT_EQ(held_back_by_another_peer(apart), 0) << layout.front();
        EXPECT_LE(apart.end(), shared.end()) << layout.front();
    }
}

// In a ring each pair of ranks agrees which of the two comes before the other, neighbours as one
// expects; pairs meet on a stream of one name at one end, of the other name at the other.
TEST(TransferStreams, OfTwoRanksOneLiesBeforeTheOther) {
    for (std::int32_t ranks = 2; ranks <= 9; ++ranks)
        for (std::int32_t a = 0; a < ranks; ++a) {
            for (std::int32_t b = 0; b < a; ++b)
                EXPECT_NE(plan::lies_before(a, b, ranks), plan::lies_before(b, a, ranks));
            if (ranks == 2) continue;
            EXPECT_FALSE(plan::lies_before(a, (a + 1) % ranks, ranks));
        }
}

TEST(TransferOverlap, NothingIsComputedWhileARankWaitsForItsTransfers) {
    const Price price = [](const plan::Block& block, const plan::Op& op) -> Picoseconds {
        if (&op != &block.ops.front()) return 0;
        if (block.name == "layer.forward") return 1000;
        return block.name == "layer.backward" ? 2000 : 0;
    };
    const Sets plain = {"layout.pipeline_parallel=4", "layout.global_batch_size=8"};
    const Sets interleaved = {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
                              "layout.schedule=interleaved", "layout.global_batch_size=8"};
    for (const Sets& layout : {plain, interleaved}) {
        Picoseconds end[3] = {};
        int kind = 0;
        for (const char* overlap : {"always", "interleaved", "never"}) {
            Sets sets = layout;
            sets.push_back(std::string("training.overlap_pipeline_transfers=") + overlap);
            Walked of{plan_of(sets), {}, {}};
            run(of, price, 300);
            const bool overlaps = kind == 0 || (kind == 1 && of.plan.schedule == "interleaved");
            EXPECT_EQ(begun_during_transfers(of) > 0, overlaps) << overlap;
            end[kind++] = of.end();
        }
        EXPECT_LT(end[0], end[2]);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
