// Closed forms of docs/model.md for what a scenario asks for. They are the yardstick that the plan
// is held against, never a source of the plan.
#include "plan/checks/validate_plan.hpp"

namespace orrery::plan {
namespace {

std::int64_t mlp_matrices(const Model& m, const DenseMlp& mlp) {
    return (mlp.gated() ? 3 : 2) * m.hidden * mlp.ffn_hidden;
}

// Of a layer's MLP, of its router and so many of its experts.
std::int64_t expert_matrices(const Model& m, const ExpertMlp& mlp, std::int64_t experts) {
    DenseMlp shared = mlp.expert;
    shared.ffn_hidden = mlp.shared_ffn;
    return mlp.routing.experts * m.hidden + experts * mlp_matrices(m, mlp.expert) +
           mlp_matrices(m, shared) + (mlp.shared_gate ? m.hidden : 0);
}

// Of an MLP's linears.
std::int64_t mlp_biases(const Model& m, const DenseMlp& mlp) {
    return mlp.bias ? (mlp.gated() ? 2 : 1) * mlp.ffn_hidden + m.hidden : 0;
}

// Elements of the matrices of one layer of a kind: all of them, and those that a token passes.
struct Matrices {
    std::int64_t all = 0;
    std::int64_t active = 0;
};

// With latents: those of queries and what they are multiplied to, or the queries' own matrix; those
// of keys and values beside the keys' turned part, and what they are multiplied to.
std::int64_t qkv_matrices(const Model& m, const SoftmaxAttention& a) {
    const Latents& latents = a.latents;
    const std::int64_t queries = a.heads * a.head_dim;
    if (!latents.on())
        return m.hidden * (queries + a.kv_heads * a.head_dim + a.kv_heads * a.values());
    const std::int64_t q = latents.q_rank > 0 ? m.hidden * latents.q_rank + latents.q_rank * queries
                                              : m.hidden * queries;
    const std::int64_t of_head = a.head_dim - a.rotary_dim + a.values();
    return q + m.hidden * (latents.kv_rank + a.rotary_dim) + latents.kv_rank * a.heads * of_head;
}

Matrices layer_matrices(const Model& m, const LayerSpec& layer) {
    const SoftmaxAttention& a = layer.attention();
    const std::int64_t mixer = qkv_matrices(m, a) + a.heads * a.values() * m.hidden;
    if (const ExpertMlp* const mlp = layer.experts())
        return {mixer + expert_matrices(m, *mlp, mlp->routing.experts),
                mixer + expert_matrices(m, *mlp, mlp->routing.chosen)};
    const std::int64_t dense = mixer + mlp_matrices(m, layer.dense());
    return {dense, dense};
}

std::int64_t layer_vectors(const Model& m, const LayerSpec& layer) {
    const SoftmaxAttention& a = layer.attention();
    std::int64_t elements = layer.norms() * m.hidden * (m.layer_norm() ? 2 : 1);
    if (a.qkv_bias) elements += (a.heads + 2 * a.kv_heads) * a.head_dim;
    elements += a.latents.q_rank + a.latents.kv_rank;  // their norms
    if (a.projection_bias) elements += m.hidden;
    if (a.qk_norm == QkNorm::heads) elements += 2 * a.head_dim;
    if (a.qk_norm == QkNorm::width) elements += (a.heads + a.kv_heads) * a.head_dim;
    if (a.sinks) elements += a.heads;
    const ExpertMlp* const experts = layer.experts();
    if (experts == nullptr) return elements + mlp_biases(m, layer.dense());
    if (experts->router_bias) elements += experts->routing.experts;
    return elements + experts->routing.experts * mlp_biases(m, experts->expert);
}

// Elements of the adapters beside one layer's linears: A and B of each (Hu et al. 2021, section 4).
// Experts have none.
std::int64_t layer_adapters(const Model& m, const LayerSpec& layer, const Lora& lora) {
    if (!lora.on()) return 0;
    const SoftmaxAttention& a = layer.attention();
    const std::int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
    std::int64_t sides = 0;
    if (lora.adapts("qkv")) sides += m.hidden + q + 2 * kv;
    if (lora.adapts("projection")) sides += q + m.hidden;
    if (layer.experts() != nullptr) return lora.rank * sides;
    const DenseMlp& mlp = layer.dense();
    if (lora.adapts("fc1")) sides += m.hidden + (mlp.gated() ? 2 : 1) * mlp.ffn_hidden;
    if (lora.adapts("fc2")) sides += mlp.ffn_hidden + m.hidden;
    return lora.rank * sides;
}

// Of all layers and what stands before and behind them.
struct Account {
    std::int64_t parameters = 0;
    std::int64_t passed_by = 0;  // of them those of the experts that a token does not go to
    std::int64_t matrices = 0;   // elements of the model's own matrices that tokens pass …
    std::int64_t adapters = 0;   // … and of those beside them
    double attention = 0;        // FLOPs of a token's attention, forward
};

// Per token: 2 per weight of a matrix, and 2·s for each element of a head's query and of what comes
// of it, of unmasked attention; of a sliding window its width in place of s.
Account account_of(const Scenario& scenario) {
    const Model& m = scenario.model;
    Account account;
    for (std::size_t kind = 0; kind < m.kinds.size(); ++kind) {
        const LayerSpec& layer = m.kinds[kind];
        const SoftmaxAttention& a = layer.attention();
        const std::int64_t layers = m.layers_of(kind);
        const Matrices matrices = layer_matrices(m, layer);
        account.parameters += layers * (matrices.all + layer_vectors(m, layer));
        account.passed_by += layers * (matrices.all - matrices.active);
        if (const ExpertMlp* const mlp = layer.experts())
            account.passed_by +=
                layers * (mlp->routing.experts - mlp->routing.chosen) * mlp_biases(m, mlp->expert);
        account.matrices += layers * matrices.active;
        account.adapters += layers * layer_adapters(m, layer, scenario.training.lora);
        account.attention += 2.0 *
                             static_cast<double>(layers * a.heads * (a.head_dim + a.values())) *
                             static_cast<double>(attention_span(scenario, a));
    }
    account.parameters += account.adapters + m.vocabulary * m.hidden * (m.tied_embeddings ? 1 : 2) +
                          m.position_rows() * m.hidden +
                          (m.embedding_norm ? 2 : 1) * m.hidden * (m.layer_norm() ? 2 : 1);
    account.matrices += m.vocabulary * m.hidden;
    // Each further token: three norms, a projection of two states to one, and the head again.
    account.parameters +=
        m.mtp_layers * (3 * m.hidden * (m.layer_norm() ? 2 : 1) + 2 * m.hidden * m.hidden);
    account.matrices += m.mtp_layers * (2 * m.hidden * m.hidden + m.vocabulary * m.hidden);
    return account;
}

double forward_flops_per_token(const Account& account) {
    return 2.0 * static_cast<double>(account.matrices + account.adapters) + account.attention;
}

}  // namespace

// Backward is twice as much as forward: for the gradient of what is read, and of what it is
// multiplied with. Of a frozen matrix nobody asks for the latter.
Conserved conserved_of(const Scenario& scenario) {
    const Account account = account_of(scenario);
    Conserved conserved;
    conserved.layers = scenario.model.layers + scenario.model.mtp_layers;
    conserved.parameters = account.parameters;
    conserved.tokens_per_step =
        scenario.layout.global_batch_size * scenario.training.sequence_length;
    const auto tokens = static_cast<double>(conserved.tokens_per_step);
    conserved.model_flops_per_step = 3.0 * tokens * forward_flops_per_token(account);
    if (scenario.training.lora.on())
        conserved.model_flops_per_step -= 2.0 * tokens * static_cast<double>(account.matrices);
    return conserved;
}

std::int64_t active_parameters_of(const Scenario& scenario) {
    const Account account = account_of(scenario);
    return account.parameters - account.passed_by;
}

double forward_flops_of(const Scenario& scenario) {
    return static_cast<double>(scenario.layout.global_batch_size *
                               scenario.training.sequence_length) *
           forward_flops_per_token(account_of(scenario));
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
