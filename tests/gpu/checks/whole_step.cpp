#include "tests/gpu/checks/whole_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "plan/assemble/batch_plan.hpp"
#include "plan/check.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/scenario/training_facts.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/random.hpp"
#include "runtime/train/trainer.hpp"

namespace orrery::runtime::gpu_check {
namespace {

constexpr int kLayers = 3;

// Dropout and a tied embedding; grouped queries, rotary positions, gated MLP; norms of each head's
// queries and keys; caps of scores and logits, windows; heads of latents, whose values are narrower
// than their keys; experts of each kind, also on two devices.
constexpr const char* kGpt =
    R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 32, "n_head": 4, "n_positions": 16, "vocab_size": 61})";
constexpr const char* kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 61, "tie_word_embeddings": false})";
constexpr const char* kQwen =
    R"({"model_type": "qwen3_moe", "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 48, "moe_intermediate_size": 24, "num_experts": 4,
        "num_experts_per_tok": 2, "norm_topk_prob": true, "vocab_size": 61})";
constexpr const char* kGemma =
    R"({"model_type": "gemma2", "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "intermediate_size": 48,
        "vocab_size": 61, "sliding_window": 5, "attn_logit_softcapping": 0.5,
        "final_logit_softcapping": 0.5})";
constexpr const char* kDeepSeek =
    R"({"model_type": "deepseek_v3", "num_hidden_layers": 3, "first_k_dense_replace": 1,
        "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
        "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 6, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
        "num_experts_per_tok": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
        "moe_intermediate_size": 8, "intermediate_size": 48, "vocab_size": 61})";
constexpr const char* kGptOss =
    R"({"model_type": "gpt_oss", "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 24, "num_local_experts": 4,
        "num_experts_per_tok": 2, "swiglu_limit": 0.05, "sliding_window": 5, "vocab_size": 61})";

// One that is trained, and how.
struct Case {
    const char* name;
    const char* model;
    const char* schedule;
    std::vector<std::string> sets;
    // fp16's loss scale must know of the steps before, and fit the first; the rest is for time.
    // Products of eight bits are of what is bf16 else.
    enum class In : std::uint8_t { fp32, fp32_and_bf16, all, bf16 };
    In in = In::all;
    std::int64_t steps = 1;

    bool is_in(plan::DType dtype) const {
        if (in == In::all) return true;
        if (dtype == plan::DType::fp32) return in != In::bf16;
        return dtype == plan::DType::bf16 && in != In::fp32;
    }
};

// Backward whole, and in halves; memory in all tiers; steps that run on into one another.
const std::vector<Case>& cases() {
    using In = Case::In;
    static const std::string spike = R"(training.loss_spike={"skip_above": 3, "window": 2})";
    static const std::string balance = R"(training.routing={"balance_loss": 0.1, "z_loss": 0.01})";
    static const std::string capacity = "training.routing.capacity_factor=0.8";
    static const std::string eight = "training.precision=fp8";
    static const std::string on_two = "cluster.devices_per_node=2",
                             spread = "layout.expert_parallel=2";
    static const std::vector<Case> all = {
        {"gpt", kGpt, "1f1b", {spike}},
        {"llama",
         kLlama,
         "zb-h1",
         {spike, "training.loss_logits=fused", "training.norm_kernel=fused_add"}},
        {"gpt with epilogues",
         kGpt,
         "1f1b",
         {spike, "training.activation_kernel=epilogue", "training.bias_gradient_kernel=epilogue"},
         In::fp32_and_bf16},
        {"llama that adds in products",
         kLlama,
         "1f1b",
         {spike, "training.residual_kernel=epilogue"},
         In::fp32_and_bf16},
        {"gpt offloaded",
         kGpt,
         "gpipe",
         {spike, R"(cluster.host_memory={"capacity_GB": 1, "bandwidth_GBps": 10, "latency_us": 1})",
          R"(cluster.storage={"capacity_GB": 1, "read_GBps": 1, "write_GBps": 1, "latency_us": 10})",
          "layout.offload.optimizer=disk", "layout.offload.gradients=host",
          "layout.offload.parameters=host"}},
        {"gpt stale",
         kGpt,
         "1f1b",
         {"layout.data_parallel_mode=parameter_server", "layout.zero_stage=1",
          "layout.staleness=1"},
         In::fp32_and_bf16},
        {"gemma", kGemma, "1f1b", {}, In::fp32_and_bf16},
        {"llama in any order", kLlama, "1f1b", {"training.deterministic=false"}, In::bf16},
        {"gpt by tensors", kGpt, "1f1b", {eight, "training.fp8_recipe=tensorwise"}, In::bf16},
        {"llama by rows", kLlama, "zb-h1", {eight, "training.fp8_recipe=rowwise"}, In::bf16},
        // Scales of the second step follow from all micro-batches of the first, in which they are 1
        // and most gradients round to 0: of what that makes of the weights nothing is wanted.
        {"llama delayed",
         kLlama,
         "1f1b",
         {eight, "training.fp8_recipe=delayed", "training.optimizer.learning_rate=1e-9"},
         In::bf16,
         2},
        {"gpt by blocks",
         kGpt,
         "1f1b",
         {eight, "training.fp8_recipe=blockwise", "training.sequence_length=64",
          "model.n_positions=64", "model.n_embd=128", "layout.global_batch_size=2"},
         In::bf16},
        {"qwen by tensors",
         kQwen,
         "1f1b",
         {eight, "training.fp8_recipe=tensorwise", "model.head_dim=8",
          "model.moe_intermediate_size=32"},
         In::bf16},
        {"qwen by blocks",
         kQwen,
         "zb-h1",
         {eight, "training.fp8_recipe=blockwise", "training.sequence_length=64",
          "model.hidden_size=128", "model.head_dim=32", "model.moe_intermediate_size=128",
          "layout.global_batch_size=2"},
         In::bf16},
        {"qwen", kQwen, "1f1b", {balance, capacity}, In::fp32},
        {"deepseek", kDeepSeek, "1f1b", {balance}, In::fp32_and_bf16},
        {"gpt-oss", kGptOss, "1f1b", {balance}, In::fp32},
        {"llama ring on two", kLlama, "1f1b", {on_two, "layout.context_parallel=2"}, In::fp32},
        {"qwen on two", kQwen, "1f1b", {on_two, spread, balance}, In::fp32},
        {"qwen filled up on two",
         kQwen,
         "zb-h1",
         {on_two, spread, capacity, "training.routing.capacity_of=rank",
          "training.routing.pad_to_capacity=true"},
         In::fp32},
        {"deepseek on two",
         kDeepSeek,
         "1f1b",
         {on_two, spread, "layout.expert_dispatcher=deduplicated", "layout.zero_stage=2"},
         In::fp32},
    };
    return all;
}

plan::Scenario scenario_of(const Case& tested, plan::DType dtype, const std::string& scenarios) {
    const std::string text = std::string(R"({"model": )") + tested.model + R"(,
        "cluster": {"nodes": 1, "devices_per_node": 1, "device": "cpu-core",
                    "profile": "profiles/cpu-core.json",
                    "intra_node": {"kind": "host", "bandwidth_GBps": 10, "latency_us": 1}, "inter_node": {"kind": "none"}},
        "layout": {"micro_batch_size": 2, "global_batch_size": 4, "schedule": ")" +
                             tested.schedule + R"("},
        "training": {"sequence_length": 16, "framework": "orrery", "vocabulary_multiple": 8,
                     "workspace_mb": 0.001, "precision": ")" +
                             std::string(plan::name(dtype)) +
                             R"(", "optimizer": {"learning_rate": 1e-3, "clip_norm": 1.0}}})";
    const plan::ReadResult read =
        plan::read_scenario_text(text, "whole step", "", tested.sets, scenarios);
    ORRERY_CHECK(read.scenario.has_value(), plan::format_text(read.errors));
    return *read.scenario;
}

struct Step {
    double loss = 0;
    std::map<std::string, std::vector<double>> gradients;  // by full name
};

// The last of so many.
Step steps_of(std::int64_t steps, const plan::Scenario& scenario, Backend& backend) {
    Step step;
    std::mutex mutex;  // guards it
    TrainOptions options;
    options.steps = steps;
    options.after_step = [&](plan::Rank rank, const Device& device, const BoundProgram& program,
                             const plan::Program& planned, std::int64_t step_number) {
        if (step_number != steps) return;
        for (const StateRun& run : state_runs(program, planned, StateKind::gradients)) {
            const std::vector<double> values = read_run(device, run);
            const std::lock_guard lock(mutex);
            std::vector<double>& whole =
                step.gradients[run.name + (rank > 0 ? " of rank " + std::to_string(rank) : "")];
            whole.insert(whole.end(), values.begin(), values.end());
        }
    };
    const auto vocabulary = static_cast<std::uint64_t>(scenario.model.vocabulary);
    train(
        plan::training_facts(scenario),
        [&](std::int64_t batch) { return plan::build_batch_plan(scenario, batch); }, options,
        backend,
        [&](std::int64_t sample, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
            const RandomKey key{5, 0, static_cast<std::uint32_t>(sample)};
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                tokens[i] = static_cast<std::int32_t>(random_word(key, 2 * i) % vocabulary);
                targets[i] = static_cast<std::int32_t>(random_word(key, 2 * i + 1) % vocabulary);
            }
        },
        [&](const StepReport& report) {
            step.loss = report.loss;
            return true;
        });
    return step;
}

double norm_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value * value;
    return std::sqrt(sum);
}

// Layers that a gradient has come through: all behind the parameter's own.
int depth_of(const std::string& tensor) {
    if (tensor.rfind("layer.", 0) == 0)
        return kLayers - std::atoi(tensor.c_str() + std::string("layer.").size());
    return tensor.rfind("embedding", 0) == 0 || tensor.rfind("position", 0) == 0 ? kLayers + 1 : 0;
}

// 4·C^depth·ε with C = 1.03 where tensors between ops are of 16 bits (TTrace, arXiv 2506.09280); in
// fp32 what layouts of the CPU backend are held to. Numbers that a unit of bf16 parts, 2^-7, are
// cast to neighbours in E5M2, which 2^-2 parts, with odds of 2^-7 to 2^-2, else to the same one: in
// the root mean square √(2^-7·2^-2) stands in the place of ε.
double bound_of(plan::DType dtype, const std::string& tensor, bool eight_bits) {
    if (eight_bits) return 4 * std::pow(1.03, depth_of(tensor)) * std::sqrt(0x1p-7 * 0x1p-2);
    switch (dtype) {
        case plan::DType::bf16:
            return 4 * std::pow(1.03, depth_of(tensor)) * 0x1p-7;
        case plan::DType::fp16:
            return 4 * std::pow(1.03, depth_of(tensor)) * 0x1p-10;
        default:
            return 1e-5;
    }
}

void compare(const Case& tested, plan::DType dtype, const Step& found, const Step& expected,
             std::vector<GradientFinding>& findings) {
    const auto add = [&](const std::string& tensor, double difference) {
        findings.push_back({tested.name, dtype, tensor, difference,
                            bound_of(dtype, tensor, tested.in == Case::In::bf16)});
    };
    add("loss", std::abs(found.loss / expected.loss - 1));
    double all = 0;
    for (const auto& [name, values] : expected.gradients)
        all += norm_of(values) * norm_of(values);
    const double least = 1e-3 * std::sqrt(all / static_cast<double>(expected.gradients.size()));
    for (const auto& [name, values] : expected.gradients) {
        std::vector<double> apart = found.gradients.at(name);
        ORRERY_CHECK(apart.size() == values.size(), "both have all of " + name);
        for (std::size_t i = 0; i < apart.size(); ++i)
            apart[i] -= values[i];
        add(name, norm_of(apart) / std::max(norm_of(values), least));
    }
}

}  // namespace

std::vector<GradientFinding> check_whole_steps(const DriverSource& devices, plan::DType dtype,
                                               const std::string& scenarios,
                                               const std::string& only) {
    std::vector<GradientFinding> findings;
    for (const Case& tested : cases()) {
        if (!tested.is_in(dtype)) continue;
        if (std::string(tested.name).find(only) == std::string::npos) continue;
        const plan::Scenario scenario = scenario_of(tested, dtype, scenarios);
        if (scenario.layout.ranks() > devices.devices) continue;
        CpuBackend cpu{CpuOptions{}};
        StreamBackend device(devices, std::nullopt, {});
        try {
            compare(tested, dtype, steps_of(tested.steps, scenario, device),
                    steps_of(tested.steps, scenario, cpu), findings);
        } catch (const DeviceError& error) {
            findings.push_back({tested.name, dtype, error.what(), std::nan(""), 1});
        }
    }
    return findings;
}

}  // namespace orrery::runtime::gpu_check
