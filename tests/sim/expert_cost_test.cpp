// What layers of experts cost: grouped products beside dense ones, the exchange of rows, and what
// unequal loads take of a step.
#include <gtest/gtest.h>

#include "sim/cost/expert_load.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/prediction.hpp"
#include "sim/whatif/what_if.hpp"
#include "tests/sim/cost/tiny_profile.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

plan::Op grouped(std::int64_t experts, std::int64_t ranks, std::int64_t rows,
                 plan::GemmProduct product = plan::GemmProduct::forward) {
    plan::GroupedGemm gemm;
    gemm.experts = experts;
    gemm.ranks = ranks;
    gemm.expected = rows;
    gemm.product = product;
    gemm.m = 2 * rows;
    gemm.n = 2048;
    gemm.k = 1024;
    if (product == plan::GemmProduct::weight_gradient) {
        gemm.m = 2048;
        gemm.n = 1024;
        gemm.k = 2 * rows;
    }
    plan::Op op;
    op.spec = gemm;
    op.dtype = plan::DType::bf16;
    return op;
}

class GroupedProducts : public testing::Test {
  protected:
    double seconds(const plan::Op& op, double load = 1) const {
        return cost_.price({}, op, load).seconds;
    }
    Profile profile_ = parse_profile(tiny_profile_text(), "tiny.json");
    KernelCost cost_{profile_};
};

// Of one expert it is the dense product of the rows that come, and half a tile of 128 rows.
TEST_F(GroupedProducts, OfOneExpertIsADenseProduct) {
    const GemmCurve& curve = *profile_.gemm_curve(plan::DType::bf16);
    EXPECT_DOUBLE_EQ(seconds(grouped(1, 1, 4096)),
                     gemm_seconds(curve, {4096 + 64, 2048, 1024, plan::GemmProduct::forward}, 2));
    EXPECT_DOUBLE_EQ(
        seconds(grouped(1, 1, 4096, plan::GemmProduct::weight_gradient)),
        gemm_seconds(curve, {2048, 1024, 4096, plan::GemmProduct::weight_gradient}, 2));
}

// Where a runtime or a stack multiplies expert by expert, each is a product of its own.
TEST_F(GroupedProducts, OfKernelsOfTheirOwn) {
    const GemmCurve& curve = *profile_.gemm_curve(plan::DType::bf16);
    plan::Framework stack;
    stack.expert_products = plan::ExpertProducts::one_by_one;
    const KernelCost one_by_one(profile_, stack, 1);
    const double alone = one_by_one.price({}, grouped(8, 1, 4096)).seconds;
    profile_.expert_by_expert = true;
    EXPECT_EQ(seconds(grouped(8, 1, 4096)), alone);
    EXPECT_DOUBLE_EQ(
        seconds(grouped(8, 1, 4096)),
        8 * gemm_seconds(curve, {4096.0 / 8, 2048, 1024, plan::GemmProduct::forward}, 2));
    EXPECT_DOUBLE_EQ(
        seconds(grouped(8, 2, 4096, plan::GemmProduct::weight_gradient), 1.5),
        4 * gemm_seconds(curve, {2048, 1024, 1.5 * 4096 / 4, plan::GemmProduct::weight_gradient},
                         2));
}

// By source an expert has a product for each rank that sends it rows: four experts, of two ranks.
TEST_F(GroupedProducts, BySourceAreMoreAndSmaller) {
    plan::Op op = grouped(8, 2, 4096, plan::GemmProduct::weight_gradient);
    op.as<plan::GroupedGemm>().by_source = true;
    EXPECT_EQ(seconds(op), seconds(grouped(8, 1, 4096, plan::GemmProduct::weight_gradient)));
    EXPECT_EQ(plan::flops(op),
              plan::flops(grouped(8, 2, 4096, plan::GemmProduct::weight_gradient)));
    EXPECT_EQ(launches_by_expert(op, {}), 8);
}

// Each of the other experts' matrices is read besides, and has half a tile of its own.
TEST_F(GroupedProducts, OfManyExpertsReadsAllTheirMatrices) {
    const GemmCurve& curve = *profile_.gemm_curve(plan::DType::bf16);
    const double more = 7.0 * 2048 * 1024 * 2 / (curve.bandwidth_GBps * 1e9);
    EXPECT_DOUBLE_EQ(
        seconds(grouped(8, 1, 4096)),
        gemm_seconds(curve, {4096 + 8 * 64, 2048, 1024, plan::GemmProduct::forward}, 2) + more);
}

// With few rows for each expert it takes as long as reading the matrices.
TEST_F(GroupedProducts, OfFewRowsTakeWhatTheirMatricesDo) {
    profile_.hardware.memory_GBps.value = 500;
    const double bandwidth = 500e9 * profile_.memory.efficiency.value;
    const double t0 = profile_.gemm_curve(plan::DType::bf16)->t0_us * 1e-6;
    EXPECT_DOUBLE_EQ(seconds(grouped(512, 1, 512)), t0 + 512.0 * 2048 * 1024 * 2 / bandwidth);
}

TEST_F(GroupedProducts, GrowWithTheLoad) {
    for (const auto product : {plan::GemmProduct::forward, plan::GemmProduct::weight_gradient}) {
        const plan::Op op = grouped(8, 2, 4096, product);
        EXPECT_GT(seconds(op, 1.5), seconds(op));
        EXPECT_LT(seconds(op, 1.5), 1.5 * seconds(op));  // matrices and launch do not grow
    }
}

constexpr const char* kMoe = R"({"model": {"model_type": "mixtral", "num_hidden_layers": 4,
        "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8,
        "intermediate_size": 2048, "num_local_experts": 8, "vocab_size": 1024},
    "cluster": {"nodes": 2, "devices_per_node": 8, "device": "a100-80gb-sxm",
                "profile": "profiles/a100-80gb-sxm.json",
                "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 300, "latency_us": 2},
                "inter_node": {"kind": "infiniband", "nics_per_node": 8,
                               "bandwidth_Gbps": 200, "latency_us": 5}},
    "layout": {"data_parallel": 16, "expert_parallel": 8, "global_batch_size": 64},
    "training": {"sequence_length": 1024, "framework": "orrery"}})";

Prediction predicted(const theory::Sets& sets) {
    const plan::Scenario scenario = theory::scenario(sets, kMoe);
    return simulate(scenario, load_profiles(scenario.cluster), {}, "");
}

double of(const Prediction& prediction, trace::Account account) {
    return prediction.step.breakdown_s[static_cast<std::size_t>(account)];
}

// What the step takes longer than with equal loads is imbalance, to the picosecond, and all other
// accounts are those of equal loads.
TEST(ExpertCost, UnequalLoadsAreImbalance) {
    const Prediction even = predicted({"training.routing.distribution=uniform"});
    EXPECT_FALSE(even.step.routing.has_value());
    const Prediction skewed =
        predicted({"training.routing.distribution=zipf", "training.routing.exponent=1"});
    ASSERT_TRUE(skewed.step.routing.has_value());
    EXPECT_GT(skewed.step.routing->fullest, 2);
    EXPECT_NEAR(skewed.step.routing->added_s, skewed.step.time_s - even.step.time_s, 1e-12);
    EXPECT_GT(skewed.step.routing->added_s, 0);
    double sum = 0;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        sum += skewed.step.breakdown_s[a];
        const double more = a == static_cast<std::size_t>(trace::Account::imbalance)
                                ? skewed.step.routing->added_s
                                : 0;
        EXPECT_NEAR(skewed.step.breakdown_s[a], even.step.breakdown_s[a] + more, 1e-11);
    }
    EXPECT_NEAR(sum, skewed.step.time_s, 1e-11);
}

TEST(ExpertCost, WhatIfsFreeAndBalanceThem) {
    const theory::Sets sets = {"training.routing.distribution=zipf"};
    const plan::Scenario scenario = theory::scenario(sets, kMoe);
    const Profile profile = load_profiles(scenario.cluster);
    const Prediction now = simulate(scenario, profile, {}, "");
    const double even = predicted({"training.routing.distribution=uniform"}).step.time_s;
    bool balanced = false, freed = false;
    for (const WhatIf& what : what_ifs()) {
        if (!what.applies(scenario, now)) continue;
        if (what.name == "balanced_routing") {
            balanced = true;
            plan::Scenario changed = scenario;
            Profile same = profile;
            what.change_inputs(changed, same);
            EXPECT_EQ(simulate(changed, same, {}, "").step.time_s, even);
        }
        freed = freed || what.name == "free_expert_communication";
    }
    EXPECT_TRUE(balanced);
    EXPECT_TRUE(freed);
    EXPECT_GT(of(now, trace::Account::exposed_expert), 0);
}

// Rows for experts that are cut go to one rank of a node, which the others gather them from: the
// network carries what it does for whole experts. Back each part comes by itself.
TEST(ExpertCost, RowsForExpertsThatAreCutPassTheNetworkOnce) {
    const plan::Scenario scenario = theory::scenario({}, kMoe);
    const Profile profile = load_profiles(scenario.cluster);
    const Network network(scenario.cluster,
                          parse_collectives(profile.collectives_json, profile.path));
    const GroupShape whole = shape_of({0, 4, 8, 12}, 8, 4),
                     cut = shape_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 8, 1);
    constexpr std::int64_t kBytes = 64'000'000;  // of a member that gets each row once
    const double once = network.rows(kBytes, whole, 1, false).seconds;
    const double gathered =
        network.collective(plan::OpKind::all_gather, 4 * kBytes, shape_of({0, 1, 2, 3}, 8)).seconds;
    EXPECT_NEAR(network.rows(4 * kBytes, cut, 4, false).seconds, once + gathered, 1e-9);
    EXPECT_EQ(network.rows(4 * kBytes, cut, 4, true).seconds,
              network.collective(plan::OpKind::all_to_all, 4 * kBytes, cut).seconds);
    EXPECT_GT(network.rows(4 * kBytes, cut, 4, true).seconds, 2 * once);
}

// Experts of one node's ranks exchange rows within it; spread over two, by the network.
TEST(ExpertCost, ExchangeBetweenNodesTakesLonger) {
    const theory::Sets even = {"training.routing.distribution=uniform"};
    const Prediction within = predicted(even);
    const Prediction between =
        predicted({"training.routing.distribution=uniform", "layout.expert_parallel=16",
                   "model.num_local_experts=16"});
    EXPECT_GT(of(between, trace::Account::exposed_expert),
              2 * of(within, trace::Account::exposed_expert));
}

// Of eight rows of a token, to sixteen ranks of two nodes, one copy goes to each node: a quarter of
// the bytes between them, at half of the line's rate, which is half of the time; and latencies.
TEST(ExpertCost, CopiesPassTheNetworkOnceForANode) {
    const theory::Sets sets = {"training.routing.distribution=uniform", "layout.expert_parallel=16",
                               "model.num_local_experts=16", "model.num_experts_per_tok=8"};
    theory::Sets copied = sets;
    copied.emplace_back("layout.expert_dispatcher=deduplicated");
    const auto of_copies = of(predicted(copied), trace::Account::exposed_expert);
    const auto of_rows = of(predicted(sets), trace::Account::exposed_expert);
    EXPECT_GT(of_copies, of_rows / 2);
    EXPECT_LT(of_copies, of_rows * 2 / 3);
}

// Tokens choose two of sixteen experts; a rank gets a copy of each token at most.
TEST(ExpertCost, CopiesLoadARankLessThanRowsDo) {
    plan::AllToAllV op;
    op.experts = op.ranks = 16;
    static_cast<plan::TokenDraws&>(op) = {32, 2, 16, 0, 0};
    op.width = 64;
    op.elements = 64 * 64;
    EXPECT_NEAR(op.copies(2) / 32, 2 * 23.0 / 30, 1e-12);
    EXPECT_NEAR(op.copies(16) / 32, 2, 1e-12);
    plan::Scenario all_on_one =
        theory::scenario({"layout.expert_parallel=16", "model.num_local_experts=16"}, kMoe);
    all_on_one.training.routing.distribution = plan::ExpertLoad::counts;
    all_on_one.training.routing.counts = {{1000, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    // Half of the rows are on one rank, which has eight times the mean: a copy of every token.
    EXPECT_NEAR(ExpertLoads(all_on_one).of(op).fullest, 8, 1e-12);
    op.experts = op.ranks = 2;
    op.elements = std::llround(op.copies(2)) * 64;
    // All are on the first of two ranks, which has one copy of each.
    EXPECT_NEAR(ExpertLoads(all_on_one).of(op).fullest, 2 * 32 / op.copies(2), 1e-12);
}

// Of gpt-oss, the experts' biases and clamped activation by Megatron Core's single operations, at
// the share of the bandwidth that kernels of two element types reach.
TEST(ExpertCost, BiasesBySingleOperations) {
    const theory::Sets sets = {
        R"(model={"model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 512,
                  "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
                  "intermediate_size": 256, "vocab_size": 128, "num_local_experts": 16,
                  "num_experts_per_tok": 4})",
        "layout.data_parallel=4", "layout.expert_parallel=4"};
    const plan::Plan plan = theory::plan_of(sets, theory::kLlama);
    const Profile profile = parse_profile(tiny_profile_text(), "tiny.json");
    plan::Framework split;
    split.expert_biases = plan::ExpertBiases::split;
    const KernelCost fused(profile), single(profile, split, 1);
    const double t0 = profile.memory.t0_us.value * 1e-6;
    const double bandwidth =
        0.43 * profile.memory.efficiency.value * profile.hardware.memory_GBps.value * 1e9;
    const double load = 1.5, rows = load * 32 * 4;  // of one sequence, four experts a token
    const double first = 2 * 256, second = 512, inner = 256;
    const auto expect = [&](const char* block, const char* label, double kernels, double bytes,
                            double width) {
        bool found = false;
        for (const plan::Block& of : plan.blocks)
            for (const plan::Op& op : of.ops) {
                if (of.name.find(block) == std::string::npos || op.label != label) continue;
                found = true;
                EXPECT_DOUBLE_EQ(single.price(of, op, load).seconds,
                                 kernels * t0 + bytes * rows * width / bandwidth)
                    << block << ' ' << label;
                EXPECT_GT(fused.price(of, op, load).seconds, 0);
            }
        EXPECT_TRUE(found) << block << ' ' << label;
    };
    // Four experts are local: 2 and 4 kernels for each.
    expect("forward", "experts_fc1_biased", 0, 0, first);
    expect("backward", "experts_fc1_biased", 0, 0, first);
    expect("forward", "experts_fc2_biased", 2 * 4 + 2, 2 * 2 + 6 * 4, second);
    expect("backward", "experts_fc2_biased", 4 * 4 + 3, 4 * 2 + 8 * 4, second);
    expect("forward", "clamped swiglu", 4, 11 * 2, inner);
    expect("backward", "clamped swiglu", 6, 18 * 2, inner);
}

// Times of Megatron Core's functions beside the fused ones on a device that moves 2.2 to 3.0 TB/s,
// as H100 does (DeepLink-org/DLBlas pull request 66: 8,192 tokens of 4,096, 8 copies each), of a
// plan with these operands, in the kernels of both passes; an exchange between cut experts adds no
// sums of its own.
TEST(ExpertCost, RowsByIndexTakeWhatTheyWereTimedAt) {
    const auto plan_with = [](int tensor, const char* split) {
        const theory::Sets sets = {
            R"(model={"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 4096,
                      "num_attention_heads": 32, "num_key_value_heads": 8,
                      "intermediate_size": 1024, "num_local_experts": 16,
                      "num_experts_per_tok": 8, "vocab_size": 128,
                      "max_position_embeddings": 32768})",
            "training.sequence_length=" + std::to_string(8192 * tensor),
            "layout.tensor_parallel=" + std::to_string(tensor),
            "layout.sequence_parallel=" + std::string(tensor > 1 ? "true" : "false"),
            split,
            "layout.data_parallel=2",
            "layout.expert_parallel=2"};
        return theory::plan_of(sets, kMoe);
    };
    const Profile profile = load_profile(theory::library() + "/profiles/h100-sxm.json");
    plan::Framework indexed;
    indexed.permute_kernel = plan::PermuteKernel::indexed;
    const KernelCost fused(profile), single(profile, indexed, 1);
    for (const plan::Plan& plan : {plan_with(1, "layout.expert_tensor_parallel=1"),
                                   plan_with(2, "layout.expert_tensor_parallel=2")}) {
        int found = 0;
        for (const plan::Block& of : plan.blocks)
            for (const plan::Op& op : of.ops) {
                const bool copies = op.is<plan::Permute>(), sums = op.is<plan::Unpermute>();
                if (!copies && !sums) continue;
                ++found;
                const bool backward = of.name.find("backward") != std::string::npos;
                const double timed = copies ? (backward ? 5.649 : 0.439) : backward ? 2.304 : 2.985;
                EXPECT_NEAR(single.price(of, op, 1).seconds * 1e3, timed, 0.03 * timed) << of.name;
                EXPECT_LT(fused.price(of, op, 1).seconds, single.price(of, op, 1).seconds);
            }
        EXPECT_EQ(found, 4);
    }
}

// Megatron Core's SequentialMLP: what experts made one after another is joined before it is put
// back in order, and so are the gradients of their rows.
TEST(ExpertCost, ResultsOfExpertsOneByOneAreJoined) {
    const Profile profile = parse_profile(tiny_profile_text(), "tiny.json");
    plan::Framework stack;
    stack.expert_products = plan::ExpertProducts::one_by_one;
    const KernelCost at_once(profile), one_by_one(profile, stack, 1);
    const plan::Plan plan =
        theory::plan_of({"layout.data_parallel=2", "layout.expert_parallel=2"}, kMoe);
    int joined = 0;
    for (const plan::Block& of : plan.blocks)
        for (const plan::Op& op : of.ops) {
            if (!op.is<plan::GroupRows>()) continue;
            const bool apart = op.as<plan::GroupRows>().apart;
            EXPECT_EQ(one_by_one.price(of, op, 1.5).seconds,
                      (apart ? 2 : 1) * at_once.price(of, op, 1.5).seconds);
            joined += apart ? 1 : 0;
        }
    EXPECT_EQ(joined, 1 + 2);  // rows there and back; of weights, which no expert makes, gradients
}

// Of four sequences of 1,024 tokens, of which each chooses two of eight experts: a rank's rows have
// room for 1.25 of those that come in the mean, 2,560 of a sequence, and each sequence's mask is a
// product of its own. Without a capacity there are no masks.
TEST(ExpertCost, RowsByMasksAreProductsOfEachSequence) {
    const theory::Sets layout = {"layout.data_parallel=2", "layout.expert_parallel=2",
                                 "layout.micro_batch_size=4"};
    theory::Sets drops = layout;
    drops.insert(drops.end(),
                 {"training.routing.capacity_factor=1.25", "training.routing.capacity_of=rank",
                  "training.routing.pad_to_capacity=true"});
    const Profile profile = parse_profile(tiny_profile_text(), "tiny.json");
    plan::Framework masked;
    masked.permute_kernel = plan::PermuteKernel::masked;
    const KernelCost fused(profile), masks(profile, masked, 1, 1, 1024);
    const double product =
        gemm_seconds(*profile.gemm_curve(plan::DType::bf16), {1.25 * 2 * 1024, 1024, 1024, {}}, 2);
    int found = 0;
    for (const auto& [sets, has_masks] : {std::pair{drops, true}, std::pair{layout, false}}) {
        const plan::Plan plan = theory::plan_of(sets, kMoe);
        for (const plan::Block& of : plan.blocks)
            for (const plan::Op& op : of.ops) {
                if (!op.is<plan::Permute>() && !op.is<plan::Unpermute>()) continue;
                ++found;
                const bool backward = of.name.find("backward") != std::string::npos;
                const double products = 4 * (op.is<plan::Permute>() && backward ? 2 : 1);
                EXPECT_DOUBLE_EQ(masks.price(of, op, 1).seconds,
                                 has_masks ? products * product : fused.price(of, op, 1).seconds)
                    << of.name << ' ' << op.label;
            }
    }
    EXPECT_EQ(found, 8);
}

// An exchange that hides: what was exposed of it is less, the kernels and what is sent are the
// same, and no step is longer for it but by the pass that goes ahead.
TEST(ExpertCost, ExchangesHideBesideAnotherMicroBatch) {
    const Prediction one = predicted({}),
                     other = predicted({"layout.overlap_expert_communication=true"});
    EXPECT_LT(of(other, trace::Account::exposed_expert),
              0.6 * of(one, trace::Account::exposed_expert));
    EXPECT_LT(other.step.time_s, one.step.time_s);
    EXPECT_GT(other.memory.worst().peak_bytes, one.memory.worst().peak_bytes);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
