// Small scenarios for tests that prove plan and engine right, in the program's own language: a
// scenario text with small round sizes, changed by --set. Beside it, how to look into a plan.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::theory {

using Sets = std::vector<std::string>;

// A GPT of 4 layers, untied, no dropout, no padding of the vocabulary; 8 nodes of 8 devices.
inline constexpr const char* kGpt = R"({
  "model": {"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8, "n_positions": 32,
            "vocab_size": 128, "tie_word_embeddings": false,
            "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
  "cluster": {"nodes": 8, "devices_per_node": 8, "device": "a100-80gb-sxm",
              "profile": "profiles/a100-80gb-sxm.json",
              "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 300, "latency_us": 2},
              "inter_node": {"kind": "infiniband", "nics_per_node": 8, "bandwidth_Gbps": 200,
                             "latency_us": 5}},
  "layout": {"data_parallel": 1, "global_batch_size": 8},
  "training": {"sequence_length": 32, "framework": "orrery", "vocabulary_multiple": 1}
})";

// A Llama of 4 layers with grouped queries, in the same world.
inline constexpr const char* kLlama = R"({
  "model": {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512,
            "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1024,
            "vocab_size": 128, "tie_word_embeddings": false},
  "cluster": {"nodes": 8, "devices_per_node": 8, "device": "a100-80gb-sxm",
              "profile": "profiles/a100-80gb-sxm.json",
              "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 300, "latency_us": 2},
              "inter_node": {"kind": "infiniband", "nics_per_node": 8, "bandwidth_Gbps": 200,
                             "latency_us": 5}},
  "layout": {"data_parallel": 1, "global_batch_size": 8},
  "training": {"sequence_length": 32, "framework": "orrery", "vocabulary_multiple": 1}
})";

inline std::string library() {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios";
}

inline plan::Scenario scenario(const Sets& sets = {}, const char* text = kGpt) {
    const plan::ReadResult read =
        plan::read_scenario_text(text, "theory.json", "", sets, library());
    EXPECT_TRUE(read.scenario.has_value()) << plan::format_text(read.errors);
    return read.scenario.value_or(plan::Scenario{});
}

inline plan::Plan plan_of(const Sets& sets = {}, const char* text = kGpt) {
    return plan::build_plan(scenario(sets, text));
}

// "layout.pipeline_parallel=4"
inline std::string set(const std::string& key, std::int64_t value) {
    return key + "=" + std::to_string(value);
}

inline const plan::Block& block_named(const plan::Plan& plan, std::string_view name) {
    for (const plan::Block& block : plan.blocks)
        if (block.name == name) return block;
    ADD_FAILURE() << "no block " << name;
    return plan.blocks.front();
}

// Bytes that a layer's forward pass keeps for backward.
inline std::int64_t kept_of(const plan::Plan& plan) {
    std::int64_t bytes = 0;
    for (const plan::Tensor& tensor : block_named(plan, "layer.forward").tensors)
        if (tensor.role == plan::Role::stash) bytes += tensor.bytes();
    return bytes;
}

inline const plan::Procedure& procedure_named(const plan::Program& program, std::string_view name) {
    for (const plan::Procedure& procedure : program.procedures)
        if (procedure.name == name) return procedure;
    ADD_FAILURE() << "no procedure " << name;
    return program.procedures.front();
}

// Of one micro-batch of the program's first stage.
inline std::int64_t stash_bytes(const plan::Program& program) {
    for (const plan::Step& step : program.steps)
        if (step.stash >= 0) return program.residents[static_cast<std::size_t>(step.stash)].bytes;
    ADD_FAILURE() << "nothing is kept";
    return 0;
}

inline std::vector<const plan::Op*> all_ops(const plan::Plan& plan) {
    std::vector<const plan::Op*> ops;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            ops.push_back(&op);
    return ops;
}

// Every op that a rank runs in a step, in issue order.
inline std::vector<const plan::Op*> executed_ops(const plan::Plan& plan,
                                                 std::size_t pipeline_rank = 0) {
    const auto numbered = all_ops(plan);
    std::vector<const plan::Op*> ops;
    for (std::uint32_t number : plan::link(plan, plan.programs[pipeline_rank]).op)
        ops.push_back(numbered[number]);
    return ops;
}

inline std::int64_t count(const plan::Block& block, plan::OpKind kind, plan::GroupKind group) {
    std::int64_t n = 0;
    for (const plan::Op& op : block.ops)
        n += op.kind() == kind && op.group == group ? 1 : 0;
    return n;
}

// What a ring sends per rank, in units of (N − 1) ÷ N elements: an all-reduce is a reduce-scatter
// and an all-gather.
inline std::int64_t ring_elements(const plan::Op& op) {
    return op.size(0) * (op.kind() == plan::OpKind::all_reduce ? 2 : 1);
}

inline std::int64_t resident_bytes(const plan::Program& program, plan::MemoryCategory category) {
    std::int64_t bytes = 0;
    for (const plan::Resident& resident : program.residents)
        if (resident.category == category) bytes += resident.bytes;
    return bytes;
}

}  // namespace orrery::theory
