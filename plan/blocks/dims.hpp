// Local sizes of one rank's share of a model: what tensor and sequence sharding leave of each
// dimension. Blocks are built from these alone.
#pragma once

#include <cstdint>

#include "plan/ir/kinds.hpp"
#include "plan/ops/experts.hpp"
#include "plan/ops/words.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

struct Dims {
    std::int64_t batch = 1;           // sequences of a micro-batch
    std::int64_t sequence = 1;        // tokens of a sequence that this rank's context share holds
    std::int64_t tokens = 1;          // batch × sequence
    std::int64_t sharded_tokens = 1;  // tokens between tensor-parallel regions: ÷ tensor under
                                      // sequence parallelism
    std::int64_t hidden = 1;
    std::int64_t heads = 1;     // ÷ tensor
    std::int64_t kv_heads = 1;  // ÷ tensor
    std::int64_t head_dim = 1;
    std::int64_t value_dim = 1;    // of values, and of what comes of a head
    std::int64_t context = 1;      // ranks that share out a sequence …
    bool exchanges_heads = false;  // … and attend to all of it for a share of the heads
    std::int64_t window = 0;       // keys of a sliding window; 0: a query sees all before it
    std::int64_t chunk = 0;        // tokens that see each other alone; 0: those of a sequence do
    ExpertPlaces places;           // of a layer's experts
    std::int64_t gradient_sources = 1;  // ranks whose rows' shares of experts' gradients are apart
    std::int64_t expert_ffn = 1;        // ÷ ranks that split an expert
    std::int64_t expert_rows = 0;       // for which there is room on this rank …
    ExpertDispatcher dispatcher = ExpertDispatcher::alltoall;
    TokenDraws draws;              // of a layer's experts, where copies of rows go to ranks
    std::int64_t copies = 0;       // that come to this rank, when all experts are alike often …
    std::int64_t copy_rows = 0;    // … and for which it has room
    std::int64_t capacity = 0;     // of an expert, of a unit's tokens; 0: it takes all …
    std::int64_t unit_tokens = 0;  // … of which a unit has so many, on all its ranks …
    std::int64_t units = 0;        // … and this rank has a part of so many
    DropPolicy drop_policy = DropPolicy::probs;
    std::int64_t padded_rows = 0;     // to which an expert's from a rank are filled up; 0: are not
    double balance_loss = 0;          // of the router, beside the loss …
    std::int64_t balanced_units = 1;  // … within units of which this rank has a part of so many
    double z_loss = 0;                // … and of its logits' size
    double bias_rate = 0;             // of a step of the router's bias
    std::int64_t expected_rows = 0;   // … and which come when all experts are chosen alike often
    std::int64_t vocabulary = 1;      // padded, ÷ ranks that share it out
    WordShares words;
    std::int64_t tensor = 1;
    bool sequence_parallel = false;
    bool keeps_gathered = false;  // what it gathers for products is kept for backward
    bool composed_norms = false;
    bool split_experts = false;          // ExpertBiases::split
    bool any_order = false;              // of sums: !Training::deterministic
    DType dtype = DType::bf16;           // of parameters and activations
    Fp8 fp8;                             // of the layers' products
    Lora lora;                           // beside the layers' linears
    DType gradient_dtype = DType::bf16;  // of the accumulators of parameters' gradients
    DType wide_dtype = DType::fp32;      // of statistics, the loss, and the optimizer's arithmetic
    // Of what the optimizer keeps between steps (plan/passes/sharding.cpp).
    DType first_moment = DType::fp32;
    DType second_moment = DType::fp32;
    DType main_parameters = DType::fp32;
    bool steps_weights = false;  // in their own type, with no main parameters beside them

    // fp16 has 5 bits of exponent: the loss is scaled up so that gradients stay above its smallest
    // numbers (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2).
    bool scales_loss() const { return dtype == DType::fp16; }

    bool runs_ahead = false;  // layout.staleness: steps have copies of parameters

    // Parameters of 32 bits and more are their own masters, where there is one copy of them.
    bool keeps_masters() const { return (dtype != wide_dtype && !steps_weights) || runs_ahead; }

    std::int64_t k_width() const { return kv_heads * head_dim; }
    std::int64_t v_width() const { return kv_heads * value_dim; }
    std::int64_t kv_width() const { return k_width() + v_width(); }
    std::int64_t qkv_width() const { return heads * head_dim + kv_width(); }
    std::int64_t context_width() const { return heads * value_dim; }

    // What one attention kernel sees: the heads and the sequence of the rank, or its share of the
    // heads and all of the sequence.
    std::int64_t head_ranks() const { return exchanges_heads ? context : 1; }
    std::int64_t attended_sequence() const { return sequence * head_ranks(); }
    // Of a sequence, as one kernel sees it.
    std::int64_t chunks() const { return chunk > 0 ? attended_sequence() / chunk : 1; }
    std::int64_t attended_heads() const { return heads / head_ranks(); }
    std::int64_t attended_kv_heads() const { return kv_heads / head_ranks(); }
};

// With the sizes of a kind of layer; without one, of the first.
Dims dims_of(const Scenario& scenario, const LayerSpec& layer);
Dims dims_of(const Scenario& scenario);

}  // namespace orrery::plan
