// Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685, section 4.2): of Φ frozen parameters only
// the 2Φ bytes of themselves are held, of A adapters' 16A; no product makes the gradient of a
// frozen matrix; of what that product alone would read nothing is kept. Bytes and FLOPs are those
// of the plan, compared exactly.
#include <cstdint>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::MemoryCategory;
using plan::Program;
using plan::Role;

constexpr std::int64_t kRank = 8, kData = 4;

// A linear of a Llama's layer with its sides.
struct Linear {
    const char* name;
    std::int64_t in, out;
};

std::vector<Linear> linears(const plan::Model& m) {
    const std::int64_t h = m.hidden, f = m.layer().dense().ffn_hidden;
    const plan::SoftmaxAttention& a = m.layer().attention();
    const std::int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
    return {{"linear_qkv", h, q + 2 * kv},
            {"linear_proj", q, h},
            {"linear_fc1", h, 2 * f},
            {"linear_fc2", f, h}};
}

Sets adapting(const std::vector<const char*>& targets, Sets sets = {}) {
    std::string all;
    for (const char* target : targets)
        all += (all.empty() ? "\"" : ",\"") + std::string(target) + '"';
    sets.push_back(set("training.lora.rank", kRank));
    sets.push_back("training.lora.target_modules=[" + all + "]");
    return sets;
}

// Every choice of linears but none.
std::vector<std::vector<const char*>> choices() {
    const char* names[] = {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};
    std::vector<std::vector<const char*>> all;
    for (unsigned bits = 1; bits < 16; ++bits) {
        std::vector<const char*> chosen;
        for (unsigned i = 0; i < 4; ++i)
            if (bits >> i & 1) chosen.push_back(names[i]);
        all.push_back(chosen);
    }
    return all;
}

std::int64_t adapters(const plan::Model& m, const std::vector<const char*>& targets) {
    std::int64_t elements = 0;
    for (const Linear& linear : linears(m))
        for (const char* target : targets)
            if (std::string(target) == linear.name) elements += kRank * (linear.in + linear.out);
    return m.layers * elements;
}

std::int64_t bytes(const Program& program, MemoryCategory category) {
    std::int64_t sum = 0;
    for (const plan::Resident& resident : program.residents)
        if (resident.category == category) sum += resident.bytes;
    return sum;
}

TEST(Lora, HoldsTwoBytesOfAFrozenParameterAndEighteenOfAnAdapters) {
    const plan::Plan whole = plan_of({}, kLlama);
    const std::int64_t frozen = whole.conserved.parameters;
    for (const auto& targets : choices()) {
        const plan::Scenario asked = scenario(adapting(targets), kLlama);
        const plan::Plan plan = plan::build_plan(asked);
        const std::int64_t trained = adapters(asked.model, targets);
        EXPECT_EQ(plan.conserved.parameters, frozen + trained);
        const Program& program = plan.programs.front();
        EXPECT_EQ(bytes(program, MemoryCategory::parameters), 2 * (frozen + trained));
        EXPECT_EQ(bytes(program, MemoryCategory::gradients), 4 * trained);
        EXPECT_EQ(bytes(program, MemoryCategory::optimizer), 12 * trained);
    }
}

// ZeRO divides what is trained as ever, and what is frozen where it divides parameters.
TEST(Lora, SharesOutFrozenParametersUnderZero3Alone) {
    const std::vector<const char*> targets = {"linear_qkv", "linear_fc2"};
    for (int stage = 0; stage <= 3; ++stage) {
        const plan::Scenario asked = scenario(adapting(targets, {set("layout.data_parallel", kData),
                                                                 set("layout.zero_stage", stage)}),
                                              kLlama);
        const plan::Plan plan = plan::build_plan(asked);
        const std::int64_t trained = adapters(asked.model, targets);
        const std::int64_t frozen = plan.conserved.parameters - trained;
        const auto divided = [&](std::int64_t elements, int from) {
            return stage >= from ? elements / kData : elements;
        };
        const Program& program = plan.programs.front();
        EXPECT_EQ(bytes(program, MemoryCategory::parameters), 2 * divided(frozen + trained, 3));
        EXPECT_EQ(bytes(program, MemoryCategory::gradients), 4 * divided(trained, 2));
        EXPECT_EQ(bytes(program, MemoryCategory::optimizer), 12 * divided(trained, 1));
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                if (op.is<plan::AdamW>() || op.is<plan::GradientNorm>()) {
                    EXPECT_LE(op.size(0), trained) << block.name;
                }
    }
}

// A token passes each frozen matrix twice, forward and for the gradient of what came in, and each
// of an adapter's three times.
TEST(Lora, MultipliesFrozenMatricesTwice) {
    const plan::Plan whole = plan_of({}, kLlama);
    const plan::Model model = scenario({}, kLlama).model;
    std::int64_t matrices = model.vocabulary * model.hidden;
    for (const Linear& linear : linears(model))
        matrices += model.layers * linear.in * linear.out;
    for (const auto& targets : choices()) {
        const plan::Plan plan = plan_of(adapting(targets), kLlama);
        const auto tokens = static_cast<double>(plan.conserved.tokens_per_step);
        const double change = tokens * (6.0 * static_cast<double>(adapters(model, targets)) -
                                        2.0 * static_cast<double>(matrices));
        EXPECT_EQ(plan.conserved.hardware_flops_per_step,
                  whole.conserved.hardware_flops_per_step + change);
        EXPECT_EQ(plan.conserved.model_flops_per_step,
                  whole.conserved.model_flops_per_step + change);
    }
}

std::int64_t stash(const plan::Plan& plan) {
    std::int64_t kept = 0;
    for (const plan::Tensor& tensor : block_named(plan, "layer.forward").tensors)
        if (tensor.role == Role::stash) kept += tensor.bytes();
    return kept;
}

// What norms, attention and the gate keep is kept; the inputs of products are kept where these are
// adapted. Attention keeps what the projection reads, and the norms' own inputs are kept anyway.
TEST(Lora, KeepsTheInputsOfWhatIsAdapted) {
    const plan::Plan whole = plan_of({}, kLlama);
    const plan::Scenario asked = scenario({}, kLlama);
    const std::int64_t tokens = asked.training.sequence_length * asked.layout.micro_batch_size;
    for (const auto& targets : choices()) {
        std::int64_t expected = stash(whole);
        for (const Linear& linear : linears(asked.model)) {
            bool adapted = false;
            for (const char* target : targets)
                adapted = adapted || std::string(target) == linear.name;
            const bool kept_anyway = std::string(linear.name) == "linear_proj";
            if (adapted)
                expected += 2 * tokens * kRank;  // x·Aᵀ, which the gradient of B reads
            else if (!kept_anyway)
                expected -= 2 * tokens * linear.in;
        }
        EXPECT_EQ(stash(plan_of(adapting(targets), kLlama)), expected);
    }
}

// Over tensor ranks a layer has the collectives that it has without adapters, of the same bytes;
// once per step the gradients of those matrices are summed that every rank holds whole.
TEST(Lora, AddsNoTrafficOfActivationsOverTensorRanks) {
    for (const char* sequence : {"false", "true"}) {
        const Sets sets = {set("layout.tensor_parallel", 4),
                           std::string("layout.sequence_parallel=") + sequence};
        const plan::Scenario asked = scenario(
            adapting({"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}, sets), kLlama);
        const plan::Plan with = plan::build_plan(asked), without = plan_of(sets, kLlama);
        const auto traffic = [](const plan::Plan& plan, const char* block) {
            double sent = 0;
            for (const plan::Op& op : block_named(plan, block).ops)
                if (plan::is_communication(op.kind()))
                    sent += plan::bytes_sent_per_rank(
                        op.kind(), static_cast<double>(plan::message_bytes(op)), 4);
            return sent;
        };
        EXPECT_EQ(traffic(with, "layer.forward"), traffic(without, "layer.forward"));
        // Inputs are gathered again for the gradients of matrices that read them, as ever.
        EXPECT_EQ(traffic(with, "layer.backward"), traffic(without, "layer.backward"));
        std::int64_t summed = 0;
        for (const plan::Procedure& procedure : with.programs.front().procedures)
            for (const plan::BlockUse& use : procedure.uses)
                for (const plan::Op& op : with.blocks[static_cast<std::size_t>(use.block)].ops)
                    if (use.position < 0 && op.is<plan::AllReduce>() &&
                        op.group == plan::GroupKind::tensor && op.phase == plan::Phase::backward)
                        summed += op.size(0);
        EXPECT_EQ(summed, asked.model.layers * 4 * kRank * asked.model.hidden);
    }
}

// Beside products of eight bits adapters stay in 16. A frozen matrix has two products, its copies
// by rows for forward and by columns for backward; inputs and gradients are cast by rows alone.
TEST(Lora, CastsNothingForWeightGradients) {
    for (const char* recipe : {"delayed", "tensorwise", "blockwise"})
        for (const char* sequence : {"false", "true"}) {
            const bool shared = std::string(sequence) == "true";
            Sets sets = {"training.precision=fp8",
                         std::string("training.fp8_recipe=") + recipe,
                         set("layout.tensor_parallel", shared ? 2 : 1),
                         std::string("layout.sequence_parallel=") + sequence,
                         "cluster.device=h100-sxm",
                         "cluster.profile=profiles/h100-sxm.json"};
            if (std::string(recipe) == "blockwise") sets.push_back("training.sequence_length=256");
            const plan::Plan plan = plan_of(adapting({"linear_qkv", "linear_fc2"}, sets), kLlama);
            std::int64_t narrow = 0, gradients = 0;
            for (const char* name : {"layer.forward", "layer.backward"})
                for (const plan::Op& op : block_named(plan, name).ops) {
                    if (!op.is<plan::Gemm>()) continue;
                    const bool of_weight =
                        op.as<plan::Gemm>().product == plan::GemmProduct::weight_gradient;
                    narrow += op.dtype == plan::DType::fp8_e4m3;
                    gradients += of_weight;
                    EXPECT_FALSE(of_weight && op.dtype == plan::DType::fp8_e4m3) << op.label;
                }
            EXPECT_EQ(narrow, 4 * 2);     // of four linears, forward and for the input
            EXPECT_EQ(gradients, 2 * 2);  // of A and B of two
            for (const plan::Tensor& tensor : block_named(plan, "layer.forward").tensors)
                EXPECT_FALSE(tensor.role == Role::stash && plan::is_eight_bit(tensor.dtype))
                    << tensor.name << " is kept for a gradient that nobody asks for";
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
