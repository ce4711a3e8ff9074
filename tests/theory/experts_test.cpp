// Layers of experts against their closed forms: who holds what, what is sent, what is computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "plan/assemble/build_plan.hpp"
#include "plan/blocks/backward.hpp"
#include "plan/blocks/dims.hpp"
#include "plan/blocks/forward_block.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/ir/parameters.hpp"
#include "plan/memory/arena.hpp"
#include "plan/text/text.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

struct Spread {
    std::int64_t tensor, context, data, pipeline, expert, split;
    int zero;
};

std::string name_of(const Spread& s) {
    return "tensor " + std::to_string(s.tensor) + " context " + std::to_string(s.context) +
           " data " + std::to_string(s.data) + " pipeline " + std::to_string(s.pipeline) +
           " expert " + std::to_string(s.expert) + " split " + std::to_string(s.split) + " zero " +
           std::to_string(s.zero);
}

Scenario scenario_of(const Spread& spread) {
    Scenario s = small_mixtral();
    set_tensor(s, spread.tensor, spread.tensor > 1);
    s.layout.context_parallel = spread.context;
    set_pipeline(s, "1f1b", spread.pipeline, 1, 2 * spread.pipeline);
    set_data(s, spread.data);
    s.layout.expert_parallel = spread.expert;
    s.layout.expert_tensor_parallel = spread.split;
    s.layout.zero_stage = spread.zero;
    return s;
}

const std::vector<Spread> kSpreads = {
    {1, 1, 1, 1, 1, 1, 0}, {1, 1, 2, 1, 2, 1, 0}, {1, 1, 4, 1, 2, 1, 0}, {1, 1, 4, 1, 2, 1, 1},
    {1, 1, 4, 1, 4, 1, 1}, {1, 1, 4, 1, 2, 1, 2}, {1, 1, 4, 1, 4, 1, 2}, {1, 1, 4, 1, 2, 1, 3},
    {1, 1, 4, 1, 4, 1, 3}, {2, 1, 2, 1, 2, 1, 1}, {2, 1, 2, 1, 2, 2, 1}, {2, 1, 2, 1, 4, 1, 2},
    {2, 1, 1, 1, 2, 1, 0}, {2, 1, 1, 1, 1, 1, 0}, {2, 1, 1, 1, 1, 2, 0}, {1, 2, 2, 1, 4, 1, 1},
    {1, 1, 2, 2, 2, 1, 1}, {2, 1, 2, 2, 2, 2, 3}, {1, 1, 1, 2, 1, 1, 0}, {2, 2, 2, 1, 8, 1, 1}};

// What op kinds of this plan's layers are sent and computed, forward, for one layer of a rank.
const Block& layer_block(const Plan& plan) {
    for (const Block& block : plan.blocks)
        if (block.name == "layer.forward") return block;
    return plan.blocks.front();
}

// Beside adapters of attention nothing is held of experts and router but what they are, and nothing
// is computed for gradients of theirs.
TEST(Experts, FrozenOnesHoldTheirWeightsAlone) {
    for (const Spread& spread : kSpreads) {
        SCOPED_TRACE(name_of(spread));
        if (spread.zero == 3 && spread.expert * spread.split > 1) continue;  // refused (S037)
        Scenario s = scenario_of(spread);
        const Plan trained = build_plan(s);
        s.training.lora.rank = 2;
        s.training.lora.fc1 = s.training.lora.fc2 = false;
        const Plan adapted = build_plan(s);
        const SoftmaxAttention& a = s.model.attention();
        const std::int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
        // A of qkv and B of the projection are whole on every tensor rank.
        const std::int64_t of_layer = 2 * (2 * s.model.hidden + (2 * q + 2 * kv) / spread.tensor);
        for (std::size_t p = 0; p < adapted.programs.size(); ++p) {
            std::int64_t layers = 0, held = 0, frozen = 0, stepped = 0;
            for (const Stage& stage : adapted.programs[p].stages)
                for (const StagePart& part : stage.parts)
                    layers += part.layer >= 0;
            for (const Bucket& bucket : trained.programs[p].buckets)
                held += bucket.elements;
            for (const Bucket& bucket : adapted.programs[p].buckets) {
                (bucket.frozen ? frozen : stepped) += bucket.elements;
                if (bucket.frozen) {
                    EXPECT_EQ(bucket.gradients, -1);
                    EXPECT_EQ(bucket.optimizer, -1);
                }
            }
            EXPECT_EQ(frozen, held);
            EXPECT_EQ(stepped, layers * of_layer);
        }
        for (const Block& block : adapted.blocks)
            for (const Op& op : block.ops)
                if (op.is<GroupedGemm>()) {
                    EXPECT_NE(op.as<GroupedGemm>().product, GemmProduct::weight_gradient);
                }
    }
}

TEST(Experts, PlansOfManySpreadsHold) {
    for (const Spread& spread : kSpreads) {
        SCOPED_TRACE(name_of(spread));
        for (const bool by_source : {false, true}) {
            Scenario s = scenario_of(spread);
            s.layout.expert_gradients_by_source = by_source;
            const Plan plan = build_plan(s);  // runs all checks
            const auto read = parse_plan(to_text(plan));
            ASSERT_TRUE(read.plan) << read.error;
            EXPECT_EQ(*read.plan, plan);
        }
    }
}

double flops_of(const Plan& plan) {
    double sum = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            sum += flops(op);
    return sum;
}

// What the rows of each of g ranks add is kept apart: g times as many numbers as a rank has of
// experts, as many as where every rank has all. From ZeRO-2 on they are in both slots of the ring.
TEST(Experts, GradientsBySourceTakeAsMuchAsThoseOfAllExperts) {
    for (const Spread& spread : kSpreads) {
        const std::int64_t ranks = spread.expert * spread.split;
        if (ranks == 1) continue;
        SCOPED_TRACE(name_of(spread));
        Scenario s = scenario_of(spread);
        const Plan together = build_plan(s);
        s.layout.expert_gradients_by_source = true;
        const Plan apart = build_plan(s);
        EXPECT_EQ(flops_of(apart), flops_of(together));
        const std::int64_t width = size_bytes(dims_of(s).gradient_dtype);
        for (const Program& program : apart.programs) {
            const auto bytes_of = [&](std::int32_t resident) {
                return program.residents[static_cast<std::size_t>(resident)].bytes;
            };
            std::int64_t whole = 0, largest = 0;  // of those that pass through the ring
            for (const Bucket& bucket : program.buckets) {
                if (!bucket.experts) continue;
                std::int64_t held = bucket.room(StateKind::gradients, apart.mesh);
                if (spread.zero >= 2 && !bucket.shares.empty()) {
                    whole = std::max(whole, bucket.padded());
                    largest = std::max(largest, bucket.elements);
                } else {
                    held += ranks * bucket.elements;
                }
                EXPECT_EQ(bytes_of(bucket.gradients), aligned(held * width));
            }
            for (std::size_t slot = 2; largest > 0 && slot < program.gradient_ring.size(); ++slot)
                EXPECT_EQ(bytes_of(program.gradient_ring[slot]),
                          aligned((whole + ranks * largest) * width));
        }
    }
}

// h·E of the router, 3·h·f of each expert; a token passes `chosen` of them (Jiang et al. 2024,
// arXiv 2401.04088).
TEST(Experts, ParametersAndFlops) {
    const Scenario s = small_mixtral();
    const Scenario dense = small_llama();
    const Conserved with = conserved_of(s), without = conserved_of(dense);
    const std::int64_t h = 64, layers = 4, experts = 8, chosen = 2, ffn = 32, dense_ffn = 128;
    EXPECT_EQ(with.parameters - without.parameters,
              layers * (h * experts + 3 * h * ffn * experts - 3 * h * dense_ffn));
    const double tokens = 32;
    EXPECT_DOUBLE_EQ(
        with.model_flops_per_step - without.model_flops_per_step,
        3.0 * 2 * tokens * layers * (h * experts + 3 * h * ffn * chosen - 3 * h * dense_ffn));
}

// Where an activation has no gate and another kernel weighs it, its result is kept as well: the
// weighing's gradients read it, while the second product's read what is weighed.
TEST(Experts, KeepWhatAnotherKernelWeighs) {
    const auto kept_of = [](Activation activation, ExpertBiases by) {
        Scenario s = small_mixtral();
        std::get<ExpertMlp>(s.model.layer().mlp).expert.activation = activation;
        s.training.framework.expert_biases = by;
        const Plan plan = build_plan(s);
        std::int64_t bytes = 0;
        for (const Tensor& tensor : layer_block(plan).tensors)
            if (tensor.role == Role::stash) bytes += tensor.bytes();
        return bytes;
    };
    const Dims dims = dims_of(small_mixtral());
    const std::int64_t ffn = 32;
    EXPECT_EQ(kept_of(Activation::gelu, ExpertBiases::split),
              kept_of(Activation::gelu, ExpertBiases::kernels) +
                  dims.expert_rows * ffn * size_bytes(dims.dtype));
    EXPECT_EQ(kept_of(Activation::swiglu, ExpertBiases::split),
              kept_of(Activation::swiglu, ExpertBiases::kernels));
}

// Every element of an expert's matrix is on as many ranks as an expert-data group has members.
TEST(Experts, EveryElementIsHeldByOneExpertDataGroup) {
    for (const Spread& spread : kSpreads) {
        SCOPED_TRACE(name_of(spread));
        const Plan plan = build_plan(scenario_of(spread));
        for (const auto& [name, parameter] : parameters_of(plan)) {
            if (parameter.experts == 0) continue;
            std::vector<std::int64_t> held(static_cast<std::size_t>(parameter.elements()), 0);
            const std::int64_t stage = plan.mesh.tensor * plan.mesh.context * plan.mesh.data;
            for (Rank rank = 0; rank < stage; ++rank)
                for (const ParameterRun& run : runs_of(parameter, plan.mesh, rank))
                    for (std::int64_t i = 0; i < run.elements; ++i)
                        ++held[static_cast<std::size_t>(run.whole + i)];
            for (const std::int64_t copies : held)
                ASSERT_EQ(copies, plan.mesh.group_size(GroupKind::expert_data)) << name;
        }
    }
}

// A rank's rows that leave it: of T tokens k each, (e − 1)/e to other rows of experts and t − 1
// copies to those that split one, of h elements, out and back, and so again backward
// (moe.py of Megatron Core; docs/model.md).
TEST(Experts, BytesOfAnExchange) {
    for (const Spread& spread : kSpreads) {
        SCOPED_TRACE(name_of(spread));
        const Scenario s = scenario_of(spread);
        const Plan plan = build_plan(s);
        double sent = 0;
        std::int64_t exchanges = 0;
        for (const Op& op : layer_block(plan).ops)
            if (op.is<AllToAllV>() && op.as<AllToAllV>().width == 64) {
                sent += bytes_sent_per_rank(op.kind(), static_cast<double>(message_bytes(op)),
                                            static_cast<int>(plan.mesh.group_size(op.group)));
                ++exchanges;
            }
        const std::int64_t ranks = spread.expert * spread.split;
        EXPECT_EQ(exchanges, ranks > 1 ? 2 : 0);
        const double tokens = 32.0 / static_cast<double>(spread.tensor * spread.context);
        const auto e = static_cast<double>(spread.expert), t = static_cast<double>(spread.split);
        EXPECT_NEAR(sent, ranks > 1 ? 2 * tokens * 2 * 64 * 2 * ((e - 1) / e + t - 1) : 0, 1e-6);
    }
}

// By drawing each set of experts, in each set of groups, once.
double copies_by_counting(const TokenDraws& draws, std::int64_t sets) {
    const auto bits = [](std::uint64_t of) { return std::popcount(of); };
    const std::int64_t groups = std::max<std::int64_t>(draws.groups, 1);
    const std::int64_t kept = draws.groups > 0 ? draws.kept_groups : 1;
    double hit = 0, drawn = 0;
    for (std::uint64_t open = 0; open < 1U << groups; ++open) {
        if (bits(open) != kept) continue;
        for (std::uint64_t chosen = 0; chosen < 1U << draws.from; ++chosen) {
            if (bits(chosen) != draws.drawn) continue;
            std::uint64_t in_sets = 0, in_groups = 0;
            for (std::int64_t expert = 0; expert < draws.from; ++expert)
                if ((chosen >> expert & 1) != 0) {
                    in_sets |= 1U << (expert * sets / draws.from);
                    in_groups |= 1U << (expert * groups / draws.from);
                }
            if ((in_groups & ~open) != 0) continue;
            hit += bits(in_sets);
            ++drawn;
        }
    }
    return static_cast<double>(draws.tokens) * hit / drawn;
}

TEST(Experts, CopiesAreThoseOfAllDraws) {
    for (const TokenDraws& draws :
         {TokenDraws{5, 2, 8, 0, 0}, TokenDraws{1, 3, 12, 0, 0}, TokenDraws{7, 2, 8, 4, 2},
          TokenDraws{3, 3, 12, 2, 1}, TokenDraws{2, 4, 16, 4, 2}, TokenDraws{1, 1, 8, 4, 1},
          TokenDraws{1, 8, 8, 0, 0}})
        for (const std::int64_t sets : {1, 2, 4, 8}) {
            if (draws.from % sets != 0) continue;
            EXPECT_NEAR(draws.copies(sets), copies_by_counting(draws, sets), 1e-9)
                << draws.drawn << " of " << draws.from << ", " << draws.kept_groups << " of "
                << draws.groups << " groups, sets " << sets;
        }
    // DeepSeek-V3, of a token: ranks of 64, nodes of 8 of which 4 are kept (arXiv 2412.19437,
    // section 2.1.2: "at most 4 nodes").
    const auto binomial = [](int n, int k) {
        double ways = 1;
        for (int i = 0; i < k; ++i)
            ways *= static_cast<double>(n - i) / (i + 1);
        return ways;
    };
    const TokenDraws v3{1, 8, 256, 8, 4};
    EXPECT_NEAR(v3.copies(8), 4 * (1 - binomial(96, 8) / binomial(128, 8)), 1e-12);
    EXPECT_NEAR((TokenDraws{1, 8, 256, 0, 0}.copies(64)),
                64 * (1 - binomial(252, 8) / binomial(256, 8)), 1e-12);
}

// As BytesOfAnExchange, one copy to each rank that has any of a token's experts, with the token's
// experts and their weights beside a row.
TEST(Experts, BytesOfCopies) {
    for (const Spread& spread : kSpreads) {
        if (spread.expert * spread.split == 1) continue;
        SCOPED_TRACE(name_of(spread));
        Scenario s = scenario_of(spread);
        s.layout.expert_dispatcher = ExpertDispatcher::deduplicated;
        const Plan plan = build_plan(s);
        validate_plan(plan, s);
        std::map<std::int64_t, std::int64_t> elements, exchanges;
        for (const Op& op : layer_block(plan).ops)
            if (op.is<AllToAllV>()) {
                elements[op.as<AllToAllV>().width] += op.as<AllToAllV>().elements;
                ++exchanges[op.as<AllToAllV>().width];
            }
        const double tokens = 32.0 / static_cast<double>(spread.tensor * spread.context);
        const auto e = static_cast<double>(spread.expert), local = 8 / e;
        const double missed = (8 - local) / 8 * std::max(7 - local, 0.0) / 7;
        const std::int64_t copies =
            std::llround(tokens * e * (1 - missed) * static_cast<double>(spread.split));
        EXPECT_EQ(exchanges, (std::map<std::int64_t, std::int64_t>{{64, 2}, {2, 2}}));
        EXPECT_EQ(elements[64], 2 * copies * 64);
        EXPECT_EQ(elements[2], 2 * copies * 2);
    }
}

// Every rank gets the n - 1 others' rows, experts and weights, and as much of results is summed.
TEST(Experts, BytesOfGatheredRows) {
    for (const Spread& spread : kSpreads) {
        const std::int64_t ranks = spread.expert * spread.split;
        if (ranks == 1) continue;
        SCOPED_TRACE(name_of(spread));
        Scenario s = scenario_of(spread);
        s.layout.expert_dispatcher = ExpertDispatcher::allgather;
        const Plan plan = build_plan(s);
        validate_plan(plan, s);
        double gathered = 0, summed = 0;
        for (const Op& op : layer_block(plan).ops) {
            if (op.group != GroupKind::expert) continue;
            EXPECT_FALSE(op.is<AllToAllV>());
            double& sent = op.is<ReduceScatter>() ? summed : gathered;
            sent += bytes_sent_per_rank(op.kind(), static_cast<double>(message_bytes(op)),
                                        static_cast<int>(ranks));
        }
        const double tokens = 32.0 / static_cast<double>(spread.tensor * spread.context);
        const auto others = static_cast<double>(ranks - 1);
        EXPECT_NEAR(gathered, others * (tokens * (2 * 64 + 2 * 8) + 4 * 8), 1e-6);
        EXPECT_NEAR(summed, others * tokens * 2 * 64, 1e-6);
    }
}

// Filled up, ⌈T·k/E · c⌉ rows of each expert from each rank, of which all that is sent, received,
// multiplied and held is; else the same as of all rows where there is capacity for as many.
TEST(Experts, RowsOfACapacity) {
    for (const Spread& spread : kSpreads)
        for (const double factor : {0.7, 1.0, 1.3}) {
            SCOPED_TRACE(name_of(spread));
            Scenario s = scenario_of(spread);
            ExpertRouting& routing = s.training.routing;
            routing.capacity_factor = factor;
            const std::int64_t tokens = 32 / (spread.tensor * spread.context);
            const auto rows_of = [&](const Plan& plan) {
                std::map<OpKind, std::int64_t> rows;
                for (const Op& op : layer_block(plan).ops) {
                    if (op.is<GroupedGemm>()) rows[op.kind()] = op.as<GroupedGemm>().expected;
                    if (op.is<AllToAllV>())
                        rows[op.kind()] = op.as<AllToAllV>().elements / op.as<AllToAllV>().width;
                    if (op.is<Permute>()) rows[op.kind()] = op.as<Permute>().copy_room();
                    if (op.is<Unpermute>()) rows[op.kind()] = op.as<Unpermute>().copy_room();
                }
                return rows;
            };
            const auto expect = [&](std::int64_t room, std::int64_t expected) {
                const Plan plan = build_plan(s);
                validate_plan(plan, s);
                std::map<OpKind, std::int64_t> rows = {{OpKind::permute, room},
                                                       {OpKind::unpermute, room * spread.split},
                                                       {OpKind::grouped_gemm, expected}};
                if (spread.expert * spread.split > 1) rows[OpKind::all_to_all_v] = expected;
                EXPECT_EQ(rows_of(plan), rows);
                return plan;
            };
            const auto of_unit = [&](std::int64_t unit) {
                return static_cast<std::int64_t>(
                    std::ceil(static_cast<double>(unit) * 2 / 8 * factor));
            };
            // Of sequences of 16 tokens, of which a micro-batch has two.
            const double kept = std::min(1.0, static_cast<double>(of_unit(16)) * 8 / 32);
            expect(tokens * 2, std::llround(kept * static_cast<double>(tokens * 2)) * spread.split);
            routing.capacity_of = CapacityUnit::rank;
            routing.pads_to_capacity = true;
            const std::int64_t filled = 8 * of_unit(tokens);
            const Plan plan = expect(filled, filled * spread.split);
            const Dims dims = dims_of(s);
            EXPECT_EQ(dims.expert_rows, dims.expected_rows);  // no room but for these
        }
}

// Choices and weights of a sequence come from all that have a part of it, 8 bytes a choice.
TEST(Experts, BytesOfWhatDecidesWhoStays) {
    for (const Spread& spread : kSpreads) {
        SCOPED_TRACE(name_of(spread));
        Scenario s = scenario_of(spread);
        s.training.routing.capacity_factor = 1;
        double sent = 0, expected = 0;
        const Plan plan = build_plan(s);
        for (const Op& op : layer_block(plan).ops)
            if (op.is<AllGather>() && op.label == "choices")
                sent += bytes_sent_per_rank(op.kind(), static_cast<double>(message_bytes(op)),
                                            static_cast<int>(plan.mesh.group_size(op.group)));
        double held = 32.0 / static_cast<double>(spread.tensor * spread.context) * 2 * 8;
        for (const std::int64_t ranks : {spread.tensor, spread.context}) {
            expected += static_cast<double>(ranks - 1) * held;
            held *= static_cast<double>(ranks);
        }
        EXPECT_NEAR(sent, expected, 1e-6);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
