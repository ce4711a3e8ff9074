// What CUDA graphs change of a step: the host issues a graph as it issues one op, the device takes
// a gap between its nodes, and graphs hold memory of their own.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "plan/assemble/build_plan.hpp"
#include "sim/cuda_graphs.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using theory::scenario;
using theory::set;
using theory::Sets;

constexpr std::int64_t kLayers = 4, kMicroBatches = 8;

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

Sets graphs(const std::string& scope, double node_us, const Sets& more = {}) {
    Sets sets = {"training.cuda_graphs.scope=" + scope,
                 "training.cuda_graphs.node_us=" + std::to_string(node_us)};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

double step_s(const Sets& sets) {
    return simulate(scenario(sets), profile(), {}, "").step.time_s;
}

// Ops of a block's kind in one step of one rank.
std::int64_t ops_of(const plan::Plan& plan, const std::string& block, std::int64_t uses) {
    return uses * static_cast<std::int64_t>(theory::block_named(plan, block).ops.size());
}

// A host that takes a millisecond for each op is all that the step waits for, but for its last op.
TEST(CudaGraphs, OfALayerAreIssuedAsOneOpEach) {
    const Sets slow_host = {"training.launch_us=1000", "training.launch_queue=1000000"};
    const plan::Plan plan = theory::plan_of();
    const std::int64_t passes = kLayers * kMicroBatches;
    const std::int64_t saved = ops_of(plan, "layer.forward", passes) - passes +
                               ops_of(plan, "layer.backward", passes) - passes;
    EXPECT_NEAR(step_s(slow_host) - step_s(graphs("per_layer", 0, slow_host)),
                1e-3 * static_cast<double>(saved), 1e-9);
}

TEST(CudaGraphs, OfAStepLeaveTheOptimizerToTheHost) {
    const Sets slow_host = {"training.launch_us=1000", "training.launch_queue=1000000"};
    const plan::Plan plan = theory::plan_of();
    std::int64_t of_passes = 0, all = 0;
    const plan::LinkedProgram linked = plan::link(plan, plan.programs.front());
    const std::vector<const plan::Op*> ops = theory::all_ops(plan);
    for (const std::uint32_t number : linked.op) {
        if (ops[number]->phase != plan::Phase::optimizer) ++of_passes;
        ++all;
    }
    ASSERT_LT(of_passes, all);
    // The optimizer's ops wait for the graph, which a host with nothing else to do has long issued.
    const double issued = 1e-3 * static_cast<double>(1 + all - of_passes);
    const double graphed = step_s(graphs("full_iteration", 0, slow_host));
    EXPECT_GE(graphed, issued);
    EXPECT_LT(graphed, issued + step_s({"training.launch_us=0"}));
}

const Sets kExperts = {
    R"(model={"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 512,
              "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 256,
              "vocab_size": 128, "num_local_experts": 8, "num_experts_per_tok": 2,
              "max_position_embeddings": 64})"};

plan::Scenario experts(const Sets& more) {
    Sets sets = kExperts;
    sets.insert(sets.end(), more.begin(), more.end());
    return scenario(sets);
}

// f(op, its number), of all blocks in turn.
template <typename F>
void for_ops(const plan::Plan& plan, const F& f) {
    std::size_t number = 0;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            f(op, number++);
}

// What follows from how many rows come to an expert is in no graph of a layer, unless there are as
// many for each.
TEST(CudaGraphs, OfALayerLeaveCountedRowsToTheHost) {
    const auto captured = [](const Sets& more, bool of_experts) {
        const plan::Scenario of = experts(more);
        const plan::Plan plan = plan::build_plan(of);
        const trace::GraphLaunches launches = graph_launches(plan, of, profile().hardware);
        std::int64_t count = 0;
        for_ops(plan, [&](const plan::Op& op, std::size_t number) {
            if (op.is<plan::GroupedGemm>() == of_experts &&
                launches.ops[number] != trace::InGraph::no)
                ++count;
        });
        return count;
    };
    const Sets layers = graphs("per_layer", 0);
    EXPECT_EQ(captured(layers, true), 0);
    EXPECT_GT(captured(layers, false), 0);
    Sets padded = layers;
    padded.insert(padded.end(),
                  {"training.routing.capacity_factor=1", "training.routing.capacity_of=rank",
                   "training.routing.pad_to_capacity=true"});
    EXPECT_GT(captured(padded, true), 0);
    EXPECT_GT(captured(graphs("full_iteration", 0), true), 0);
}

// Where rows are split by the host, a product of all experts is a launch for each.
TEST(CudaGraphs, ExpertsAreLaunchedOneByOneWhereTheHostSplitsRows) {
    const auto launches = [](const std::string& biases, const std::string& readings = "none",
                             bool cpu = false) {
        const plan::Scenario of =
            experts({"training.expert_biases=" + biases, "training.count_readings=" + readings});
        const plan::Plan plan = plan::build_plan(of);
        Hardware hardware = profile().hardware;
        hardware.cpu = cpu;
        const trace::GraphLaunches each = graph_launches(plan, of, hardware);
        std::int64_t sum = 0;
        for_ops(plan, [&](const plan::Op& op, std::size_t number) {
            const Picoseconds takes = each.of(number, 1);
            const bool product = op.is<plan::GroupedGemm>();
            sum += product ? takes : 0;
            EXPECT_TRUE(product || takes == 1) << op.label;
        });
        return sum;
    };
    EXPECT_EQ(launches("split"), 8 * launches("kernels"));
    EXPECT_EQ(launches("kernels", "each_product"), 8 * launches("kernels"));
    EXPECT_EQ(launches("kernels", "each_product", true), launches("kernels"));
}

// Ops before which the host reads counts, of each block with some.
std::map<std::string, std::vector<const plan::Op*>> after_reading(const plan::Plan& plan,
                                                                  const plan::Scenario& of,
                                                                  const Hardware& hardware) {
    const trace::GraphLaunches launches = graph_launches(plan, of, hardware);
    std::map<std::string, std::vector<const plan::Op*>> found;
    std::size_t number = 0;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            if (launches.is_after_reading(number++)) found[block.name].push_back(&op);
    return found;
}

TEST(CountReadings, AreOnceAPassThatRoutesOrBeforeEachProductAndExchange) {
    const Sets spread = {"layout.data_parallel=2", "layout.expert_parallel=2",
                         "layout.recompute=full"};
    const auto found = [&](const Sets& more, bool cpu = false) {
        Sets sets = spread;
        sets.insert(sets.end(), more.begin(), more.end());
        const plan::Scenario of = experts(sets);
        const plan::Plan plan = plan::build_plan(of);
        Hardware hardware = profile().hardware;
        hardware.cpu = cpu;
        std::map<std::string, std::size_t> counts;
        for (const auto& [block, ops] : after_reading(plan, of, hardware))
            counts[block] = ops.size();
        return counts;
    };
    using Counts = std::map<std::string, std::size_t>;
    const std::string each_pass = "training.count_readings=each_pass";
    EXPECT_EQ(found({each_pass}), (Counts{{"layer.forward", 1}, {"layer.backward", 1}}));
    EXPECT_EQ(found({"training.count_readings=none"}), Counts{});
    EXPECT_EQ(found({each_pass}, true), Counts{});  // the host is the device
    EXPECT_EQ(found({"training.count_readings=each_product"}, true), Counts{});
    EXPECT_EQ(found({each_pass, "training.cuda_graphs=full_iteration"}), Counts{});
    const auto padded = [&](const std::string& readings) {
        return found({readings, "training.routing.capacity_factor=1",
                      "training.routing.capacity_of=rank",
                      "training.routing.pad_to_capacity=true"});
    };
    EXPECT_EQ(padded(each_pass), Counts{});
    EXPECT_EQ(padded("training.count_readings=each_product"), Counts{});
    EXPECT_EQ(padded("training.count_readings=each_mask"), found({each_pass}));
    // Rows and their weights there, rows back, two products. Backward makes that again, and has
    // three exchanges and two gradients of each product.
    EXPECT_EQ(found({"training.count_readings=each_product"}),
              (Counts{{"layer.forward", 3 + 2}, {"layer.backward", 3 + 2 + 3 + 2 * 2}}));
}

// Then the device has done all that counts, and what follows is launched after that. Of a host that
// never reads this is not so, as it is ahead.
TEST(CountReadings, LeaveTheDeviceWithoutWorkUntilTheNextLaunch) {
    const auto late = [](const std::string& readings) {
        const plan::Scenario of =
            experts({"training.count_readings=" + readings, "training.launch_us=0.5",
                     "training.sequence_length=64", "layout.micro_batch_size=8"});
        const plan::Plan plan = plan::build_plan(of);
        const plan::Scenario reads = experts({"training.count_readings=each_pass"});
        const trace::GraphLaunches launches = graph_launches(plan, reads, profile().hardware);
        const trace::Trace trace = simulate(of, profile(), {}, "").trace;
        const trace::Track& track = trace.tracks.front();
        Picoseconds before = 0, least = std::numeric_limits<Picoseconds>::max();
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const trace::Event event = track.events[i];
            if (launches.is_after_reading(trace.programs.front().op[i]))
                least = std::min(least, event.start - before);
            before = std::max(before, event.end);
        }
        return least;
    };
    EXPECT_GE(late("each_pass"), 500'000);  // ps
    EXPECT_LT(late("none"), 500'000);
}

// The earliest that an op starts of those behind an exchange, after all that was issued before has
// ended, on any rank: of transfers that compute waits for.
Picoseconds late_after_exchanges(const Sets& more) {
    Sets sets = {set("layout.pipeline_parallel", 2), set("layout.micro_batch_size", 8),
                 "training.overlap_pipeline_transfers=interleaved", "training.launch_us=0.5"};
    sets.insert(sets.end(), more.begin(), more.end());
    const trace::Trace trace = simulate(scenario(sets), profile(), {}, "").trace;
    Picoseconds least = std::numeric_limits<Picoseconds>::max();
    for (const trace::Track& track : trace.tracks) {
        Picoseconds before = 0;
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const auto is_exchange = [&](std::size_t op) {
                return trace.op_of(track, op).kind == plan::OpKind::exchange;
            };
            const trace::Event event = track.events[i];
            if (i > 0 && is_exchange(i - 1) && !is_exchange(i))
                least = std::min(least, event.start - before);
            before = std::max(before, event.end);
        }
    }
    return least;
}

// Megatron's torch.cuda.synchronize(): nothing is launched until all has ended. A host that does
// not wait is ahead, and so is one whose device computes meanwhile; a step as one graph has none.
TEST(HostWaits, ForTransfersThatComputeWaitsForToo) {
    const std::string waits = "training.host_waits_for_transfers=true";
    EXPECT_GE(late_after_exchanges({waits}), 500'000);  // ps
    EXPECT_LT(late_after_exchanges({}), 500'000);
    const auto same = [&](Sets sets) {
        sets.push_back(set("layout.pipeline_parallel", 2));
        const double without = step_s(sets);
        sets.push_back(waits);
        return step_s(sets) == without;
    };
    EXPECT_FALSE(same({"training.overlap_pipeline_transfers=never"}));
    EXPECT_TRUE(same({"training.overlap_pipeline_transfers=always"}));
    EXPECT_TRUE(same({"training.overlap_pipeline_transfers=never",
                      "training.cuda_graphs.scope=full_iteration"}));
}

// Of a host that takes no time; one rank computes one op after another.
TEST(CudaGraphs, TakeAGapForEachNode) {
    const Sets instant = {"training.launch_us=0"};
    const plan::Plan plan = theory::plan_of();
    const std::int64_t passes = kLayers * kMicroBatches;
    const std::int64_t nodes =
        ops_of(plan, "layer.forward", passes) + ops_of(plan, "layer.backward", passes);
    EXPECT_NEAR(step_s(graphs("per_layer", 2, instant)) - step_s(instant),
                2e-6 * static_cast<double>(nodes), 1e-9);
}

TEST(CudaGraphs, HoldNodesAndWhatTheirKernelsScratch) {
    const Sets pipeline = {set("layout.pipeline_parallel", 2)};
    const auto others = [](const Sets& sets) {
        return simulate(scenario(sets), profile(), {}, "").memory.stages.front().other_bytes;
    };
    const plan::Plan plan = theory::plan_of(pipeline);
    // 1F1B has as many micro-batches in flight on the first of two stages as there are stages.
    const std::int64_t graphs_of_layers = 2 * (kLayers / 2);
    std::int64_t nodes = 0, scratch = 0;
    for (const char* name : {"layer.forward", "layer.backward"}) {
        const plan::Block& block = theory::block_named(plan, name);
        nodes += graphs_of_layers * static_cast<std::int64_t>(block.ops.size());
        scratch += graphs_of_layers * block.scratch_bytes;
    }
    Sets captured = graphs("per_layer", 0, pipeline);
    captured.push_back("training.cuda_graphs.node_kb=10");
    const auto held_with = [&](const char* fragmentation) {
        Sets without = pipeline, with = captured;
        without.push_back(std::string("training.fragmentation=") + fragmentation);
        with.push_back(without.back());
        return others(with) - others(without);
    };
    EXPECT_EQ(held_with("0.05"), nodes * 10'000 + scratch);
    EXPECT_EQ(held_with("0"), nodes * 10'000) << "an arena has a place for what they scratch";
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
