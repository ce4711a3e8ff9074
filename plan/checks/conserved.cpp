// Closed forms of docs/model.md for what a scenario asks for. They are the yardstick that the plan
// is held against, never a source of the plan.
#include "plan/checks/validate_plan.hpp"

namespace orrery::plan {
namespace {

// Elements of the matrices of one layer of a kind.
std::int64_t layer_matrices(const Model& m, const LayerSpec& layer) {
    const SoftmaxAttention& a = layer.attention();
    const DenseMlp& mlp = layer.dense();
    const std::int64_t qkv = m.hidden * (a.heads + 2 * a.kv_heads) * a.head_dim;
    const std::int64_t projection = a.heads * a.head_dim * m.hidden;
    return qkv + projection + (mlp.gated() ? 3 : 2) * m.hidden * mlp.ffn_hidden;
}

std::int64_t layer_vectors(const Model& m, const LayerSpec& layer) {
    const SoftmaxAttention& a = layer.attention();
    const DenseMlp& mlp = layer.dense();
    std::int64_t elements = layer.norms() * m.hidden * (m.layer_norm() ? 2 : 1);
    if (a.qkv_bias) elements += (a.heads + 2 * a.kv_heads) * a.head_dim;
    if (a.projection_bias) elements += m.hidden;
    if (a.qk_norm == QkNorm::heads) elements += 2 * a.head_dim;
    if (a.qk_norm == QkNorm::width) elements += (a.heads + a.kv_heads) * a.head_dim;
    if (a.sinks) elements += a.heads;
    if (mlp.bias) elements += (mlp.gated() ? 2 : 1) * mlp.ffn_hidden + m.hidden;
    return elements;
}

}  // namespace

Conserved conserved_of(const Scenario& scenario) {
    const Model& m = scenario.model;
    Conserved conserved;
    conserved.layers = m.layers;
    std::int64_t of_layers = 0, matrices_of_layers = 0;
    double attention = 0;
    for (std::size_t kind = 0; kind < m.kinds.size(); ++kind) {
        const LayerSpec& layer = m.kinds[kind];
        const SoftmaxAttention& a = layer.attention();
        const std::int64_t layers = m.layers_of(kind), matrices = layer_matrices(m, layer);
        of_layers += layers * (matrices + layer_vectors(m, layer));
        matrices_of_layers += layers * matrices;
        attention += 4.0 * static_cast<double>(layers * a.heads * a.head_dim) *
                     static_cast<double>(attention_span(scenario, a));
    }
    conserved.parameters = of_layers + m.vocabulary * m.hidden * (m.tied_embeddings ? 1 : 2) +
                           m.position_rows() * m.hidden +
                           (m.embedding_norm ? 2 : 1) * m.hidden * (m.layer_norm() ? 2 : 1);
    conserved.tokens_per_step =
        scenario.layout.global_batch_size * scenario.training.sequence_length;
    // Per token: 2 per weight of a matrix, and 4·s per head element of unmasked attention,
    // of a sliding window its width in place of s.
    const double matrices = 2.0 * static_cast<double>(matrices_of_layers + m.vocabulary * m.hidden);
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
