// Faults in layers of experts that the parity of layouts must find.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;

const Sets kSpread = layout("", {"tensor_parallel=2", "sequence_parallel=true", "data_parallel=2",
                                 "expert_parallel=2", "training.precision=fp64"})
                         .sets;

// Whether a run is told apart from a sound one, in the terms of the parity tests.
bool is_found(RunOptions faulty) {
    static const Trained expected = [] {
        RunOptions sound;
        sound.steps = 3;
        return train(scenario(kMixtral, kSpread), sound);
    }();
    faulty.steps = 3;
    const Trained found = train(scenario(kMixtral, kSpread), faulty);
    if (!found.disagreement.empty()) return true;
    for (std::size_t i = 0; i < expected.losses.size(); ++i)
        if (!(std::abs(found.losses[i] / expected.losses[i] - 1) <= 1e-13)) return true;
    return !(difference(found.gradients, expected.gradients).relative <= 1e-12);
}

// Calls change(block, op) for the n-th op of the kind; false where there are fewer.
template <typename Change>
bool change_op(plan::Plan& plan, OpKind kind, int n, const Change& change) {
    for (Block& block : plan.blocks)
        for (Op& op : block.ops)
            if (op.kind() == kind && n-- == 0) {
                change(block, op);
                return true;
            }
    return false;
}

// Of the router's, of experts', of everything beside them.
TEST(ExpertMutation, EverySumOverRanksIsNeeded) {
    int found = 0, of_experts = 0;
    for (const OpKind kind : {OpKind::all_reduce, OpKind::reduce_scatter}) {
        bool there = true;
        for (int n = 0; there; ++n) {
            std::string label;
            RunOptions options;
            options.change_plan = [&](plan::Plan& plan) {
                there = change_op(plan, kind, n, [&](const Block& block, Op& op) {
                    label = block.name + " " + op.label;
                    if (op.group == plan::GroupKind::expert_data) ++of_experts;
                    op.group = plan::GroupKind::context;  // of one rank each
                });
            };
            const bool told = is_found(options);
            // The largest logit only keeps the exponentials in range.
            if (!there || label == "head.forward max logit") continue;
            EXPECT_TRUE(told) << label;
            ++found;
        }
    }
    EXPECT_GT(found, 8);
    EXPECT_GT(of_experts, 0);
}

// Rows in an order that is another expert's, on their way there and back.
TEST(ExpertMutation, RowsOfAnotherExpertAreFound) {
    bool there = true;
    int n = 0;
    for (; there; ++n) {
        std::string label;
        RunOptions options;
        options.change_plan = [&](plan::Plan& plan) {
            there = change_op(plan, OpKind::group_rows, n, [&](const Block& block, Op& op) {
                label = block.name + " " + op.label;
                auto& rows = std::get<plan::GroupRows>(op.spec);
                rows.apart = !rows.apart;
            });
        };
        const bool told = is_found(options);
        if (there) {
            EXPECT_TRUE(told) << label;
        }
    }
    EXPECT_GT(n, 6);  // rows and weights out, rows back; the same of gradients
}

// One of the experts of each token is left out of its sum, or of its gradient.
TEST(ExpertMutation, RowsThatAreLostAreFound) {
    bool there = true;
    int n = 0;
    for (; there; ++n) {
        RunOptions options;
        options.change_plan = [&](plan::Plan& plan) {
            there = change_op(plan, OpKind::unpermute, n, [&](const Block&, Op& op) {
                std::get<plan::Unpermute>(op.spec).chosen = 1;
            });
        };
        const bool told = is_found(options);
        if (there) {
            EXPECT_TRUE(told) << n;
        }
    }
    EXPECT_GE(n - 1, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
