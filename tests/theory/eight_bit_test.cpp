// Eight-bit products: what their copies take of a stash, what casts move, and that nothing else of
// a step changes.
#include <vector>

#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;

// Sizes of kGpt: 32 tokens of 512, an MLP of 2048.
constexpr std::int64_t kTokens = 32, kHidden = 512, kWide = 2048, kLayers = 4;

Sets eight_bit(const std::string& recipe, Sets more = {}) {
    more.insert(more.begin(), {"training.precision=fp8", "training.fp8_recipe=" + recipe});
    return more;
}

std::int64_t stash_of(const Sets& sets) {
    return plan::stash_area(block_named(plan_of(sets), "layer.forward")).bytes;
}

// A byte and a share of a scale for what a product alone reads again in backward: the two norms'
// results and the activation's, which took two; and as much for attention's result, which its own
// backward reads in 16 bits all the same.
std::int64_t saved_bytes(std::int64_t scale_bytes_per_block, std::int64_t block) {
    std::int64_t saved = 0;
    const auto scales = [&](std::int64_t n) {
        return plan::aligned(block == 0 ? 4 : scale_bytes_per_block * n / block);
    };
    for (const std::int64_t n : {kTokens * kHidden, kTokens * kHidden, kTokens * kWide})
        saved += plan::aligned(2 * n) - plan::aligned(n) - scales(n);
    const std::int64_t context = kTokens * kHidden;
    return saved - plan::aligned(context) - scales(context);
}

TEST(EightBit, StashTakesAByte) {
    const std::int64_t whole = stash_of({"training.precision=bf16"});
    for (const char* recipe : {"delayed", "tensorwise"})
        for (const char* transposes : {"true", "false"})
            EXPECT_EQ(whole - stash_of(eight_bit(
                                  recipe, {std::string("training.fp8_transposes=") + transposes})),
                      saved_bytes(4, 0))
                << recipe << ' ' << transposes;
    // What torchao keeps is what forward made.
    EXPECT_EQ(stash_of(eight_bit("rowwise")), whole);
    EXPECT_EQ(stash_of(eight_bit("tensorwise", {"training.fp8_stash=bf16"})), whole);
}

// Blocks along the tokens, of which there must be as many: a byte of scale for 32 numbers, or four
// for 128.
TEST(EightBit, ScalesOfBlocksAreStashedToo) {
    EXPECT_EQ(stash_of({"training.precision=bf16"}) - stash_of(eight_bit("mxfp8")),
              saved_bytes(1, 32));
    const Sets four = {"layout.micro_batch_size=4"};
    Sets bf16 = four;
    bf16.emplace_back("training.precision=bf16");
    const std::int64_t n = 4 * kTokens;
    std::int64_t saved = 0;
    for (const std::int64_t width : {kHidden, kHidden, kWide})
        saved += n * width - n * width / 32;
    EXPECT_EQ(stash_of(bf16) - stash_of(eight_bit("blockwise", four)),
              saved - n * kHidden - n * kHidden / 32);
}

double moved(const plan::Plan& plan, const char* name) {
    const Block& block = block_named(plan, name);
    double bytes = 0;
    for (const Op& op : block.ops)
        if (op.kind() == OpKind::amax || op.kind() == OpKind::quantize)
            bytes += plan::bytes_moved(block, op);
    return bytes;
}

// Both copies of a matrix at once. With one scale, made of what it holds: read twice, written as
// two bytes, and the largest magnitude and the scale besides, the one written and read. With one of
// the steps before: read once, a history of a number for each of them, too, and the largest
// magnitude read and written.
TEST(EightBit, CastsMoveTheirBytes) {
    const auto expected = [](const char* recipe, std::int64_t n) {
        const bool delayed = recipe == std::string("delayed");
        return static_cast<double>(delayed ? 4 * n + 4 + 4 * 1024 + 2 * 4 : 6 * n + 12);
    };
    for (const char* recipe : {"tensorwise", "delayed"}) {
        const plan::Plan plan = plan_of(eight_bit(recipe));
        double forward = 0, backward = 0;
        for (const std::int64_t width : {kHidden, kHidden, kHidden, kWide})  // inputs
            forward += expected(recipe, kTokens * width);
        for (const std::int64_t width : {3 * kHidden, kHidden, kWide, kHidden})  // outputs
            backward += expected(recipe, kTokens * width);
        EXPECT_EQ(moved(plan, "layer.forward"), forward) << recipe;
        EXPECT_EQ(moved(plan, "layer.backward"), backward) << recipe;
    }
}

std::size_t weight_casts(const plan::Plan& plan) {
    std::size_t casts = 0;
    for (const Op* op : executed_ops(plan))
        casts += op->kind() == OpKind::quantize && op->label.ends_with(".weight") ? 1 : 0;
    return casts;
}

TEST(EightBit, WeightsAreCastOncePerStepOrForEachUse) {
    for (const std::int64_t micro_batches : {1, 4}) {
        const Sets batch = {set("layout.global_batch_size", micro_batches)};
        Sets use = batch;
        use.emplace_back("training.fp8_weights=use");
        const std::size_t once = 4 * kLayers;
        EXPECT_EQ(weight_casts(plan_of(eight_bit("tensorwise", batch))), once);
        EXPECT_EQ(weight_casts(plan_of(eight_bit("tensorwise", use))),
                  once * 2 * static_cast<std::size_t>(micro_batches));
    }
}

// Of a layer's 12h² matrix elements: two copies, or one where columns are read as they lie.
TEST(EightBit, CopiesOfWeightsAreKept) {
    const auto kept = [](const Sets& sets) {
        const plan::Program program = plan_of(sets).programs[0];
        return program.residents[static_cast<std::size_t>(program.quantized)].bytes;
    };
    const std::int64_t elements = kLayers * 12 * kHidden * kHidden;
    const std::int64_t scales = kLayers * 4 * plan::aligned(4);
    EXPECT_EQ(kept(eight_bit("tensorwise")), 2 * elements + scales);
    EXPECT_EQ(kept(eight_bit("tensorwise", {"training.fp8_transposes=false"})), elements + scales);
    EXPECT_EQ(kept(eight_bit("mxfp8")), 2 * (elements + elements / 32));
    EXPECT_EQ(plan_of(eight_bit("rowwise")).programs[0].quantized, -1);
}

// Beside 12h² bytes of a layer in place of twice as many, transposes where products need them.
TEST(EightBit, MatricesAreHeldInAByte) {
    const std::int64_t matrices = kLayers * 12 * kHidden * kHidden;
    for (const Sets& layout :
         {Sets{"layout.data_parallel=1"}, Sets{"layout.data_parallel=4", "layout.zero_stage=1"}})
        for (const char* recipe : {"delayed", "tensorwise", "mxfp8"})
            for (const char* transposes : {"true", "false"}) {
                const bool micro = recipe == std::string("mxfp8");
                if (micro && transposes == std::string("true")) continue;
                Sets cast = eight_bit(recipe, layout);
                cast.push_back(std::string("training.fp8_transposes=") + transposes);
                Sets held = cast;
                held.emplace_back("training.fp8_param_gather=true");
                const plan::Plan before = plan_of(cast), after = plan_of(held);
                const auto bytes = [](const plan::Plan& plan, plan::MemoryCategory category) {
                    return resident_bytes(plan.programs[0], category);
                };
                const auto quantized = [](const plan::Plan& plan) {
                    const plan::Program& program = plan.programs[0];
                    return program.residents[static_cast<std::size_t>(program.quantized)].bytes;
                };
                const plan::MemoryCategory parameters = plan::MemoryCategory::parameters;
                const std::int64_t copies = quantized(before) - quantized(after);
                EXPECT_EQ(copies, matrices) << recipe << transposes;  // by rows: held already
                EXPECT_EQ(bytes(before, parameters) - bytes(after, parameters) - copies, matrices);
                EXPECT_EQ(before.conserved, after.conserved);
            }
}

// Bytes where the copy by columns is a transpose, else 16 bits, which are cast for both.
TEST(EightBit, ParametersAreGatheredInAByte) {
    const auto gathered = [](const char* recipe, bool held) {
        Sets sets = eight_bit(recipe, {"layout.data_parallel=2", "layout.zero_stage=1"});
        if (held) sets.emplace_back("training.fp8_param_gather=true");
        const plan::Plan plan = plan_of(sets);
        std::int64_t bytes = 0;
        for (const Op* op : executed_ops(plan))
            if (op->kind() == OpKind::all_gather && op->group == plan::GroupKind::data)
                bytes += plan::message_bytes(*op);
        return bytes;
    };
    const std::int64_t matrices = kLayers * 12 * kHidden * kHidden;
    EXPECT_EQ(gathered("tensorwise", false) - gathered("tensorwise", true), matrices);
    EXPECT_EQ(gathered("mxfp8", true), gathered("mxfp8", false));
}

TEST(EightBit, HeldMatricesAreNotCastByTheStep) {
    const auto casts = [](const char* recipe) {
        return weight_casts(plan_of(eight_bit(recipe, {"training.fp8_param_gather=true"})));
    };
    EXPECT_EQ(casts("delayed"), 0U);
    EXPECT_EQ(casts("tensorwise"), 0U);
    EXPECT_EQ(casts("mxfp8"), 4 * kLayers);
}

TEST(EightBit, NothingElseOfAStepChanges) {
    const plan::Conserved bf16 = plan_of({"training.precision=bf16"}).conserved;
    for (const char* recipe : {"delayed", "tensorwise", "rowwise", "mxfp8"})
        EXPECT_EQ(plan_of(eight_bit(recipe)).conserved, bf16) << recipe;
}

double gathered_bytes(const Sets& sets, const char* block) {
    double bytes = 0;
    const plan::Plan plan = plan_of(sets);
    for (const Op& op : block_named(plan, block).ops)
        if (op.kind() == OpKind::all_gather) bytes += static_cast<double>(plan::message_bytes(op));
    return bytes;
}

// Forward gathers two inputs; backward these again, and the gradients of two sums.
TEST(EightBit, SequenceParallelRanksGatherBytes) {
    const Sets layout = {"layout.tensor_parallel=2", "layout.sequence_parallel=true"};
    const auto n = static_cast<double>(kTokens * kHidden);
    for (const char* recipe : {"delayed", "tensorwise"}) {
        EXPECT_EQ(gathered_bytes(eight_bit(recipe, layout), "layer.forward"), 2 * n) << recipe;
        EXPECT_EQ(gathered_bytes(eight_bit(recipe, layout), "layer.backward"), 4 * n) << recipe;
    }
    EXPECT_EQ(gathered_bytes(eight_bit("rowwise", layout), "layer.forward"), 4 * n);
    EXPECT_EQ(gathered_bytes(eight_bit("rowwise", layout), "layer.backward"), 8 * n);
}

// What was gathered stays whole in place of this rank's share, in as many bytes as it came, and is
// not gathered again. A copy of blocks is made of what came in 16 bits: along the tokens it cannot
// be made of what was cast along the width.
TEST(EightBit, InputsThatStayGathered) {
    const Sets layout = {"layout.tensor_parallel=2", "layout.sequence_parallel=true"};
    const auto with = [](Sets sets) {
        sets.emplace_back("training.gathered_inputs=kept");
        return sets;
    };
    const auto n = static_cast<double>(kTokens * kHidden);
    for (const char* recipe : {"delayed", "tensorwise", "rowwise"}) {
        const double bytes = recipe == std::string("rowwise") ? 2 : 1;
        const Sets again = eight_bit(recipe, layout), kept = with(again);
        EXPECT_EQ(gathered_bytes(kept, "layer.forward"), 2 * bytes * n) << recipe;
        EXPECT_EQ(gathered_bytes(kept, "layer.backward"), 2 * bytes * n) << recipe;
        EXPECT_EQ(static_cast<double>(stash_of(kept) - stash_of(again)), 2 * bytes * (n - n / 2))
            << recipe;
    }
    Sets blocks = eight_bit("mxfp8", layout);
    blocks.emplace_back("layout.micro_batch_size=4");
    const double inputs = 2 * 4 * n, copies = inputs + inputs / 32;
    EXPECT_EQ(gathered_bytes(blocks, "layer.forward"), copies);
    EXPECT_EQ(gathered_bytes(with(blocks), "layer.forward"), 2 * inputs);
    EXPECT_EQ(
        gathered_bytes(blocks, "layer.backward") - gathered_bytes(with(blocks), "layer.backward"),
        copies);
}

// Of a layer's four products three operands each have a largest magnitude.
TEST(EightBit, DelayedScalingAgreesOncePerStep) {
    const plan::Plan plan =
        plan_of(eight_bit("delayed", {"layout.tensor_parallel=2", "layout.data_parallel=2"}));
    std::vector<plan::GroupKind> groups;
    for (const Op* op : executed_ops(plan)) {
        if (op->label != "amaxes" || op->kind() != OpKind::all_reduce) continue;
        EXPECT_EQ(op->size(0), 4 * 3 * kLayers);
        groups.push_back(op->group);
    }
    EXPECT_EQ(groups, (std::vector{plan::GroupKind::tensor, plan::GroupKind::data}));
}

constexpr const char* kMixture = R"({"model": {"model_type": "mixtral", "num_hidden_layers": 4,
        "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
        "intermediate_size": 256, "num_local_experts": 8, "vocab_size": 128},
    "cluster": {"nodes": 1, "devices_per_node": 8, "device": "h100-sxm",
                "profile": "profiles/h100-sxm.json",
                "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 450, "latency_us": 2},
                "inter_node": {"kind": "none"}},
    "layout": {"data_parallel": 2, "expert_parallel": 2, "global_batch_size": 8,
               "expert_row_bound": 1},
    "training": {"sequence_length": 128, "framework": "orrery", "precision": "bf16"}})";

// Of T = 128 tokens 2T rows come to a rank's 4 experts of width 256. What the two grouped products
// read again in backward takes a byte and a scale for each expert, or for each 32 numbers along an
// expert's rows, of which each expert may have some that are not full; and so does what the dense
// products of attention read: the first norm's result, and attention's beside its 16 bits. The
// second norm's is kept in 16 bits, which the router and the permutation read.
TEST(EightBit, RowsOfExpertsAreStashedInAByte) {
    constexpr std::int64_t kRows = 256, kWidth = 256, kExperts = 4, kTokensOfRank = 128;
    const auto stash = [](const Sets& sets) {
        return plan::stash_area(block_named(plan_of(sets, kMixture), "layer.forward")).bytes;
    };
    const auto saved = [&](auto dense_scales, auto expert_scales) {
        const auto less = [](std::int64_t n, std::int64_t scales) {
            return plan::aligned(2 * n) - plan::aligned(n) - plan::aligned(scales);
        };
        const std::int64_t between = kTokensOfRank * kHidden;
        return less(kRows * kHidden, expert_scales(kHidden)) +
               less(kRows * kWidth, expert_scales(kWidth)) + less(between, dense_scales(between)) -
               plan::aligned(between) - plan::aligned(dense_scales(between));
    };
    const std::int64_t whole = stash({});
    for (const char* recipe : {"delayed", "tensorwise"})
        EXPECT_EQ(whole - stash(eight_bit(recipe)),
                  saved([](std::int64_t) { return std::int64_t{4}; },
                        [](std::int64_t) { return 4 * kExperts; }))
            << recipe;
    EXPECT_EQ(whole - stash(eight_bit("mxfp8")),
              saved([](std::int64_t n) { return n / 32; },
                    [](std::int64_t width) { return (kRows / 32 + kExperts) * width; }));
}

// Beside attention's of a layer, 4h², three matrices of each of a rank's 4 experts.
TEST(EightBit, CopiesOfExpertsMatricesAreKept) {
    const auto kept = [](const char* recipe) {
        const plan::Program program = plan_of(eight_bit(recipe), kMixture).programs[0];
        return program.residents[static_cast<std::size_t>(program.quantized)].bytes;
    };
    const std::int64_t elements = kLayers * (4 * kHidden * kHidden + 4 * 3 * kHidden * 256);
    EXPECT_EQ(kept("tensorwise"), 2 * elements + kLayers * 4 * plan::aligned(4));
    EXPECT_EQ(kept("mxfp8"), 2 * (elements + elements / 32));
}

TEST(EightBit, NothingElseOfExpertsChanges) {
    for (const char* more :
         {"layout.zero_stage=0", "layout.zero_stage=1", "layout.recompute=full"}) {
        const plan::Conserved bf16 = plan_of({more}, kMixture).conserved;
        for (const char* recipe : {"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"})
            for (const char* weights : {"step", "use"})
                EXPECT_EQ(plan_of(eight_bit(recipe,
                                            {more, std::string("training.fp8_weights=") + weights}),
                                  kMixture)
                              .conserved,
                          bf16)
                    << recipe << ' ' << more;
    }
}

// Of experts' matrices and of those of attention.
TEST(EightBit, ExpertsMatricesAreHeldInAByte) {
    for (const char* zero : {"layout.zero_stage=0", "layout.zero_stage=1"}) {
        const Sets layout = {zero, "layout.data_parallel=4"};
        Sets held = eight_bit("tensorwise", layout);
        held.emplace_back("training.fp8_param_gather=true");
        const plan::Plan before = plan_of(eight_bit("tensorwise", layout), kMixture),
                         after = plan_of(held, kMixture);
        const auto parameters = [](const plan::Plan& plan) {
            const plan::Program& program = plan.programs[0];
            return resident_bytes(program, plan::MemoryCategory::parameters) -
                   program.residents[static_cast<std::size_t>(program.quantized)].bytes;
        };
        EXPECT_EQ(parameters(before) - parameters(after),
                  kLayers * (4 * kHidden * kHidden + 4 * 3 * kHidden * 256))
            << zero;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
