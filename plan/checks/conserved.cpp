// Closed forms of docs/model.md for what a scenario asks for. They are the yardstick that the plan
// is held against, never a source of the plan.
#include "plan/checks/validate_plan.hpp"

namespace orrery::plan {
namespace {

// Elements of the matrices of one layer.
std::int64_t layer_matrices(const Model& m) {
    const std::int64_t qkv = m.hidden * (m.heads + 2 * m.kv_heads) * m.head_dim;
    const std::int64_t projection = m.heads * m.head_dim * m.hidden;
    return qkv + projection + (m.gated_mlp() ? 3 : 2) * m.hidden * m.ffn_hidden;
}

std::int64_t layer_vectors(const Model& m) {
    std::int64_t elements = m.norms_per_layer() * m.hidden * (m.layer_norm() ? 2 : 1);
    if (m.qkv_bias) elements += (m.heads + 2 * m.kv_heads) * m.head_dim;
    if (m.projection_bias) elements += m.hidden;
    if (m.mlp_bias) elements += (m.gated_mlp() ? 2 : 1) * m.ffn_hidden + m.hidden;
    return elements;
}

}  // namespace

Conserved conserved_of(const Scenario& scenario) {
    const Model& m = scenario.model;
    Conserved conserved;
    conserved.layers = m.layers;
    conserved.parameters = m.layers * (layer_matrices(m) + layer_vectors(m)) +
                           m.vocabulary * m.hidden * (m.tied_embeddings ? 1 : 2) +
                           (m.learned_positions() ? m.position_rows() * m.hidden : 0) +
                           (m.embedding_norm ? 2 : 1) * m.hidden * (m.layer_norm() ? 2 : 1);
    conserved.tokens_per_step =
        scenario.layout.global_batch_size * scenario.training.sequence_length;
    // Per token: 2 per weight of a matrix, and 4·s per head element of unmasked attention,
    // of a sliding window its width in place of s.
    const double matrices =
        2.0 * static_cast<double>(m.layers * layer_matrices(m) + m.vocabulary * m.hidden);
    const double attention = 4.0 * static_cast<double>(m.layers * m.heads * m.head_dim) *
                             static_cast<double>(attention_span(scenario));
    conserved.model_flops_per_step =
        3.0 * static_cast<double>(conserved.tokens_per_step) * (matrices + attention);
    return conserved;
}

double executed_flops(const Plan& plan) {
    std::vector<double> of_block;
    of_block.reserve(plan.blocks.size());
    for (const Block& block : plan.blocks) {
        double sum = 0;
        for (const Op& op : block.ops)
            sum += flops(op);
        of_block.push_back(sum);
    }
    double total = 0;
    for (const Program& program : plan.programs)
        for (const Step& step : program.steps) {
            if (step.procedure < 0) continue;
            for (const BlockUse& use :
                 program.procedures[static_cast<std::size_t>(step.procedure)].uses)
                total += of_block[static_cast<std::size_t>(use.block)];
        }
    return total * static_cast<double>(plan.mesh.tensor * plan.mesh.context * plan.mesh.data);
}

}  // namespace orrery::plan
