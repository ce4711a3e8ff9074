// What a recorded step says of the model and the layout that it is of: products, attention, norms,
// look-ups, losses and messages in the order in which they were issued, each with the sizes that
// its operator recorded. Read from the host's operators (PyTorch's profiler with
// record_shapes=True, Chakra), by their names and their inputs' dimensions, and from Chakra traces
// of a plan by the kinds of their ops; a trace without operators leaves kernels, whose kinds are
// known and whose sizes are not. It knows no plan: inferred_scenario.hpp makes one's scenario of
// it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "calib/compare/recorded_work.hpp"
#include "trace/recorded.hpp"
#include "trace/recorded_inputs.hpp"

namespace orrery::compare {

using trace::Dims;

// m × n × k; 0 × 0 × 0: a product of sizes that are not recorded.
struct ProductFact {
    ProductShape shape;
    bool bias = false;  // added by the product itself
    bool eight_bit = false;
};

// One call of attention's core, over whatever heads the rank holds.
struct AttentionFact {
    std::int64_t batch = 0, heads = 0, kv_heads = 0, tokens = 0, head_dim = 0;  // 0: not recorded
    bool fused = true;  // one kernel; else products with a softmax between
};

struct NormFact {
    std::int64_t rows = 0, width = 0;
    bool rms = false;
};

// Rows of a table by their numbers: of words, or of positions.
struct LookupFact {
    std::int64_t table_rows = 0, width = 0, looked_up = 0, sequences = 0;
};

// What is added to hidden states: as many rows, or a table of positions.
struct AdditionFact {
    std::int64_t rows = 0, added_rows = 0;
};

enum class ActivationWord : std::uint8_t { gelu, silu, relu, unknown };
struct ActivationFact {
    ActivationWord word = ActivationWord::unknown;
    std::int64_t width_in = 0, width_out = 0;  // 2 : 1 where the gate is within
};

struct LossFact {
    std::int64_t tokens = 0, words = 0;
};

// A collective or a transfer, as one rank issued it.
struct MessageFact {
    WorkKind kind = WorkKind::other;
    bool receives = false;   // of send_receive
    double elements = -1;    // that all members together hold of a buffer; −1: not known
    double bytes = -1;       // the same in bytes
    std::int64_t group = 0;  // members; 0: not recorded
};

// A parameter whose gradient is ready, or that the optimizer steps.
struct ParameterFact {
    Dims dims;
};

enum class Sign : std::uint8_t {
    rotary,             // positions turn queries and keys
    head_norm,          // a norm of each head by itself
    added_norm,         // a norm that makes the sum that it reads
    epilogue,           // a product that takes the MLP's function along
    residual_epilogue,  // a product that adds the residual
    bias_epilogue,      // a product that sums a bias's gradient along
    dropout,
    experts,  // rows are routed, or products are grouped
    gradient_norm,
    bias_gradient,  // of one linear
    context_ring,   // keys and values go round a ring
    parameter_step,
};
struct SignFact {
    Sign sign;
    std::int64_t width = 0;  // of what it is about, where that is recorded
};

using What = std::variant<ProductFact, AttentionFact, NormFact, LookupFact, AdditionFact,
                          ActivationFact, LossFact, MessageFact, ParameterFact, SignFact>;

struct StepFact {
    trace::Picoseconds at = 0;
    plan::Phase phase = plan::Phase::forward;  // recompute: forward work within backward
    What what;
};

// Of one rank's typical step.
struct StepFacts {
    std::string file;
    std::int64_t rank = -1;
    std::int64_t world_size = 0;
    std::string device;
    std::vector<std::int64_t> group_sizes;  // of the job's process groups
    std::vector<StepFact> facts;            // in the order of time
    std::string dtype;      // of the inputs of most products, as the file spells it; empty: unknown
    std::string optimizer;  // "AdamW", as PyTorch calls it; empty: it does not say
    bool has_shapes = false;    // of any product
    bool has_backward = false;  // some work is of a backward pass
};

// `rank` was read from `trace`, which says where its typical step is.
StepFacts step_facts(const trace::RecordedTrace& trace, const RecordedRank& rank);

}  // namespace orrery::compare
