// Faults that the parity of layouts must find: each is planted in a plan that is performed, and
// what layouts agree on must then be another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/memory/arena.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;

Trained train_sets(Sets sets, const RunOptions& options) {
    sets.push_back("training.precision=fp64");
    return train(scenario(kGpt, sets), options);
}

// Whether a run is told apart from a sound one, in the terms of the parity tests.
bool is_found(const Sets& sets, RunOptions faulty) {
    RunOptions sound;
    sound.steps = faulty.steps = 3;
    const Trained expected = train_sets(sets, sound);
    const Trained found = train_sets(sets, faulty);
    if (!found.disagreement.empty()) return true;
    for (std::size_t i = 0; i < expected.losses.size(); ++i)
        if (!(std::abs(found.losses[i] / expected.losses[i] - 1) <= 1e-13)) return true;
    return !(difference(found.gradients, expected.gradients).relative <= 1e-12);
}

// Context groups are of one rank: nothing is left of a collective over one.
void make_void(Op& op) {
    op.group = plan::GroupKind::context;
}

// The n-th all-reduce of a plan does nothing; false where there are fewer.
bool void_all_reduce(plan::Plan& plan, int n) {
    for (Block& block : plan.blocks)
        for (Op& op : block.ops)
            if (op.kind() == OpKind::all_reduce && n-- == 0) {
                make_void(op);
                return true;
            }
    return false;
}

TEST(Mutation, EveryAllReduceIsNeeded) {
    const Sets sets = {"layout.tensor_parallel=2", "layout.data_parallel=2",
                       "training.gradient_bucket_mb=0.02"};
    int n = 0;
    bool there = true;
    for (; there; ++n) {
        RunOptions options;
        std::string label;
        options.change_plan = [&](plan::Plan& plan) {
            there = void_all_reduce(plan, n);
            if (!there) return;
            for (const Block& block : plan.blocks)
                for (const Op& op : block.ops)
                    if (op.kind() == OpKind::all_reduce && op.group == plan::GroupKind::context)
                        label = block.name + " " + op.label;
        };
        const bool found = is_found(sets, options);
        // The largest logit only keeps the exponentials in range.
        if (there && label != "head.forward max logit") {
            EXPECT_TRUE(found) << label;
        }
    }
    EXPECT_GT(n, 8);
}

TEST(Mutation, AWrongScaleOfGradientsIsFound) {
    RunOptions options;
    options.change_inputs = [](runtime::StepInputs& inputs) { inputs.gradient_scale *= 2; };
    EXPECT_TRUE(is_found({"layout.data_parallel=2"}, options));
}

// Parts of the tokens that are mixed up, or left out.
TEST(Mutation, AWrongPartIsFound) {
    const Sets sets = {"layout.tensor_parallel=2", "layout.sequence_parallel=true",
                       "training.tensor_overlap_parts=2"};
    for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::gemm}) {
        std::int64_t changed = 0;
        RunOptions options;
        options.change_plan = [&](plan::Plan& plan) {
            for (Block& block : plan.blocks)
                for (Op& op : block.ops)
                    if (op.kind() == kind && op.parts == 2 && op.part == 0 && changed++ == 0)
                        op.part = 1;
        };
        EXPECT_TRUE(is_found(sets, options)) << name(kind);
        EXPECT_GT(changed, 0) << name(kind);
    }
}

// A norm that makes its sum, of one with itself or without the bias of the product before.
TEST(Mutation, AWrongSumThatIsNormedIsFound) {
    const Sets sets = {"training.norm_kernel=fused_add"};
    for (const bool residual : {true, false}) {
        std::int64_t changed = 0;
        RunOptions options;
        options.change_plan = [&](plan::Plan& plan) {
            for (Block& block : plan.blocks)
                for (Op& op : block.ops) {
                    if (op.kind() != OpKind::residual_norm) continue;
                    ++changed;
                    if (residual)
                        op.reads[1] = op.reads[0];
                    else
                        op.reads.pop_back();
                }
        };
        EXPECT_TRUE(is_found(sets, options)) << residual;
        EXPECT_EQ(changed, 1);  // layers share a block
    }
}

// A function of a product, or its slope, that is another's; a slope that is told by something else.
TEST(Mutation, AWrongEpilogueIsFound) {
    const Sets sets = {"training.activation_kernel=epilogue"};
    for (const bool forward : {true, false})
        for (const bool function : {true, false}) {
            if (forward && !function) continue;
            std::int64_t changed = 0;
            RunOptions options;
            options.change_plan = [&](plan::Plan& plan) {
                for (Block& block : plan.blocks)
                    for (Op& op : block.ops) {
                        if (!op.is<plan::ActivatedGemm>()) continue;
                        auto& product = op.as<plan::ActivatedGemm>();
                        if (product.is_forward() != forward) continue;
                        ++changed;
                        if (function)
                            product.function = plan::ActivationFunction::squared_relu;
                        else
                            op.reads[2] = op.writes[0];
                    }
            };
            EXPECT_TRUE(is_found(sets, options)) << forward << function;
            EXPECT_EQ(changed, 1);  // layers share a block
        }
}

// A product that adds what is no residual, or leaves out its bias.
TEST(Mutation, AWrongResidualOfAProductIsFound) {
    const Sets sets = {"training.residual_kernel=epilogue"};
    for (const bool residual : {true, false}) {
        std::int64_t changed = 0;
        RunOptions options;
        options.change_plan = [&](plan::Plan& plan) {
            for (Block& block : plan.blocks)
                for (Op& op : block.ops) {
                    if (!op.is<plan::ResidualGemm>() || op.label != "fc2") continue;
                    ++changed;
                    if (residual)
                        op.reads[2] = block.input;
                    else
                        op.reads.pop_back();
                }
        };
        EXPECT_TRUE(is_found(sets, options)) << residual;
        EXPECT_EQ(changed, 1);  // layers share a block
    }
}

// A bias's gradient that is of another linear's rows.
TEST(Mutation, AWrongBiasGradientIsFound) {
    std::int64_t changed = 0;
    RunOptions options;
    options.change_plan = [&](plan::Plan& plan) {
        for (Block& block : plan.blocks) {
            const auto of = [&](const char* label) {
                return std::find_if(block.ops.begin(), block.ops.end(), [&](const Op& op) {
                    return op.is<plan::BiasGradientGemm>() && op.label == label;
                });
            };
            const auto projection = of("projection wgrad"), down = of("fc2 wgrad");
            if (projection == block.ops.end() || down == block.ops.end()) continue;
            ++changed;
            std::swap(projection->reads[3], down->reads[3]);
            std::swap(projection->writes[1], down->writes[1]);
        }
    };
    EXPECT_TRUE(is_found({"training.bias_gradient_kernel=epilogue"}, options));
    EXPECT_EQ(changed, 1);  // layers share a block
}

// Parameters that one rank changed and the others go on without.
TEST(Mutation, AForgottenGatherIsFound) {
    RunOptions options;
    options.change_plan = [](plan::Plan& plan) {
        for (Block& block : plan.blocks)
            if (block.name == "gather.bucket")
                for (Op& op : block.ops)
                    make_void(op);
    };
    EXPECT_TRUE(is_found(
        {"layout.data_parallel=2", "layout.zero_stage=1", "training.overlap_parameter_gather=true"},
        options));
}

TEST(Mutation, ADroppedLayerIsFound) {
    RunOptions options;
    options.change_plan = [](plan::Plan& plan) {
        for (plan::Program& program : plan.programs)
            for (plan::Procedure& procedure : program.procedures)
                std::erase_if(procedure.uses,
                              [](const plan::BlockUse& use) { return use.layer == 2; });
    };
    EXPECT_TRUE(is_found({}, options));
}

TEST(Mutation, AMissingReuseEdgeIsFound) {
    // The first stage runs ahead of its sends.
    const Sets sets = {"layout.pipeline_parallel=2", "layout.schedule=gpipe"};
    bool found = false;
    int edges = 0;
    for (std::uint64_t seed = 1; seed <= 8 && !found; ++seed) {
        RunOptions options;
        options.cpu.poison = true;
        options.cpu.delay_seed = seed;
        options.change_plan = [&](plan::Plan& plan) {
            for (plan::Program& program : plan.programs)
                for (plan::Resident& resident : program.residents) {
                    edges += static_cast<int>(resident.reuses.size());
                    resident.reuses.clear();
                }
        };
        found = is_found(sets, options);
    }
    EXPECT_GT(edges, 0);
    EXPECT_TRUE(found);
}

// Which residents of a plan die before the second half of backward has read them.
bool is_found_without(const std::string& name) {
    RunOptions options;
    options.cpu.poison = true;
    options.change_plan = [&](plan::Plan& plan) {
        for (plan::Program& program : plan.programs) {
            for (plan::Resident& resident : program.residents)
                if (resident.name.starts_with(name)) resident.last_step = resident.first_step;
            plan::plan_arena(program);
        }
    };
    return is_found({"layout.pipeline_parallel=2", "layout.schedule=zb-h1"}, options);
}

TEST(Mutation, WhatDiesBeforeTheWeightsIsFound) {
    EXPECT_TRUE(is_found_without("deferred "));
    EXPECT_TRUE(is_found_without("kept "));
}

// A gradient that the second half of backward does not make.
TEST(Mutation, AMissingWeightHalfIsFound) {
    RunOptions options;
    options.change_plan = [](plan::Plan& plan) {
        for (plan::Program& program : plan.programs)
            for (plan::Procedure& procedure : program.procedures)
                if (procedure.name.starts_with("backward_weight")) procedure.uses.clear();
    };
    EXPECT_TRUE(is_found({"layout.pipeline_parallel=2", "layout.schedule=zb-h1"}, options));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
