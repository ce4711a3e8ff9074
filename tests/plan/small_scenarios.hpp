// Scenarios for tests of plans: models of a few layers that a person can check by hand, filled as
// structs, so that no file and no parser stands between the test and build_plan.
#pragma once

#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// 4 layers, hidden 64, 8 heads of 8, sequences of 32 tokens, 250 words in 256 rows of vocabulary:
// GPT-2's biases, learned positions and tied embeddings, no dropout. One rank, one micro-batch of
// one sequence, bf16 with fp32 gradients, a bucket per stage. Vocabulary is padded to multiples of
// 32 × tensor.
inline Scenario small_gpt2() {
    Scenario s;
    s.model.name = "small-gpt2";
    s.model.hidden = 64;
    s.model.layers = 4;
    s.model.attention().heads = 8;
    s.model.attention().kv_heads = 8;
    s.model.attention().head_dim = 8;
    s.model.mlp().ffn_hidden = 256;
    s.model.vocabulary = 250;
    s.model.max_positions = 32;
    s.layout.layers_per_stage = {4};
    s.training.sequence_length = 32;
    s.training.framework.gradient_bytes = 4;
    s.training.framework.vocabulary_multiple = 32;
    s.training.framework.workspace_mb = 0.001024;
    return s;
}

// The same sizes as Llama shapes them: no biases, RMSNorm, rotary positions, gated SiLU, 4 heads of
// keys and values, embeddings of their own at both ends.
inline Scenario small_llama() {
    Scenario s = small_gpt2();
    s.model.family = "llama";
    s.model.norm = Norm::rms_norm;
    s.model.learned_positions = false;
    s.model.mlp().activation = Activation::swiglu;
    s.model.attention().rotary_dim = 8;
    s.model.name = "small-llama";
    s.model.attention().kv_heads = 4;
    s.model.mlp().ffn_hidden = 128;
    s.model.max_positions = 0;
    s.model.tied_embeddings = false;
    s.model.attention().qkv_bias = s.model.attention().projection_bias = s.model.mlp().bias = false;
    s.model.embedding_dropout = false;
    return s;
}

// Eight experts in place of the MLP, two of them for each token.
inline Scenario small_mixtral() {
    Scenario s = small_llama();
    s.model.family = "mixtral";
    s.model.name = "small-mixtral";
    ExpertMlp experts;
    experts.routing.experts = 8;
    experts.routing.chosen = 2;
    experts.routing.normalizes = true;
    experts.expert = s.model.mlp();
    experts.expert.ffn_hidden = 32;
    s.model.layer().mlp = experts;
    return s;
}

// A Llama with biases on queries, keys and values alone.
inline Scenario small_qwen2() {
    Scenario s = small_llama();
    s.model.family = "qwen2";
    s.model.attention().qkv_bias = true;
    return s;
}

// A tied Llama with GeGLU, one head of keys and values, heads wider than hidden ÷ heads.
inline Scenario small_gemma() {
    Scenario s = small_llama();
    s.model.family = "gemma";
    s.model.attention().kv_heads = 1;
    s.model.attention().head_dim = s.model.attention().rotary_dim = 16;
    s.model.mlp().activation = Activation::geglu;
    s.model.tied_embeddings = true;
    return s;
}

// A GPT-2 with ReLU and two rows before the first position.
inline Scenario small_opt() {
    Scenario s = small_gpt2();
    s.model.family = "opt";
    s.model.mlp().activation = Activation::relu;
    s.model.position_offset = 2;
    s.model.embedding_dropout = false;
    return s;
}

// A GPT-2 with ALiBi and a norm of the embedding.
inline Scenario small_bloom() {
    Scenario s = small_gpt2();
    s.model.family = "bloom";
    s.model.learned_positions = false;
    s.model.attention().alibi = true;
    s.model.max_positions = 0;
    s.model.embedding_norm = true;
    s.model.embedding_dropout = false;
    return s;
}

// A parallel block without biases; one norm for both branches, or one each.
inline Scenario small_falcon(bool shared_norm) {
    Scenario s = small_gpt2();
    s.model.family = "falcon";
    s.model.attention().kv_heads = 4;
    s.model.learned_positions = false;
    s.model.max_positions = 0;
    s.model.attention().rotary_dim = 8;
    s.model.layer().parallel_block = true;
    s.model.layer().shared_norm = shared_norm;
    s.model.attention().qkv_bias = s.model.attention().projection_bias = s.model.mlp().bias = false;
    s.model.embedding_dropout = false;
    return s;
}

// A parallel block with biases, a norm per branch, rotary positions on a quarter of each head.
inline Scenario small_gpt_neox() {
    Scenario s = small_falcon(false);
    s.model.family = "gpt_neox";
    s.model.attention().kv_heads = 8;
    s.model.attention().rotary_dim = 2;
    s.model.attention().qkv_bias = s.model.attention().projection_bias = s.model.mlp().bias = true;
    s.model.tied_embeddings = false;
    return s;
}

inline void set_tensor(Scenario& s, std::int64_t ranks, bool sequence_parallel) {
    s.layout.tensor_parallel = ranks;
    s.layout.sequence_parallel = sequence_parallel;
}

// As many data-parallel ranks, each with the same number of micro-batches as before.
inline void set_data(Scenario& s, std::int64_t ranks) {
    s.layout.global_batch_size = s.layout.micro_batches() * s.layout.micro_batch_size * ranks;
    s.layout.data_parallel = ranks;
}

inline void set_micro_batches(Scenario& s, std::int64_t count) {
    s.layout.global_batch_size = count * s.layout.micro_batch_size * s.layout.data_parallel;
}

// Layers divided evenly, which they must be.
inline void set_pipeline(Scenario& s, const std::string& schedule, std::int64_t ranks,
                         std::int64_t virtual_stages, std::int64_t micro_batches) {
    s.layout.schedule = schedule;
    s.layout.pipeline_parallel = ranks;
    s.layout.virtual_pipeline = virtual_stages;
    const std::int64_t stages = ranks * virtual_stages;
    s.layout.layers_per_stage.assign(static_cast<std::size_t>(stages), s.model.layers / stages);
    set_micro_batches(s, micro_batches);
}

// Attention as the stacks of 2019–2022 ran it: kernels of its own for scores, softmax, dropout.
inline void set_unfused_dropout(Scenario& s) {
    s.training.framework.attention_kernel = AttentionKernel::unfused;
    s.training.framework.dropout_masks = DropoutMasks::stored;
    s.model.hidden_dropout = 0.1;
    s.model.attention().dropout = 0.1;
}

}  // namespace orrery::plan
