#include "sim/whatif/unused_keys.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <nlohmann/json.hpp>

namespace orrery::sim {
namespace {

// What decides whether a key counts.
struct Case {
    const plan::Scenario& scenario;
    const nlohmann::json& model;  // as it was resolved
    bool searched;  // changes that make it fit were looked for, with more nodes and with offload
};

struct Rule {
    const char* key;  // its pointer, or that of an object around it; the first that matches counts
    bool (*unused)(const Case&);
    const char* why;
    bool words = false;
};

bool always(const Case&) {
    return true;
}

bool without_tokens(const Case& at) {
    return at.scenario.training.tokens <= 0;
}

bool without_energy(const Case& at) {
    return without_tokens(at) || at.scenario.cluster.power_w_per_gpu <= 0;
}

bool within_a_node(const Case& at) {
    return !at.searched && at.scenario.layout.ranks() <= at.scenario.cluster.devices_per_node;
}

bool without_neighbours(const Case& at) {
    return !at.searched &&
           (at.scenario.layout.ranks() == 1 || at.scenario.cluster.devices_per_node == 1);
}

bool without_offload(const Case& at) {
    return !at.searched && !at.scenario.layout.offload.any();
}

bool without_disk(const Case& at) {
    const plan::Offload& offload = at.scenario.layout.offload;
    const std::array kept = {offload.optimizer, offload.gradients, offload.parameters,
                             offload.activations};
    return !at.searched && std::find(kept.begin(), kept.end(), plan::KeptOn::disk) == kept.end();
}

bool within_one_kernel(const Case& at) {
    return at.scenario.training.framework.attention_kernel == plan::AttentionKernel::flash;
}

bool without_learned_positions(const Case& at) {
    return !at.scenario.model.learned_positions;
}

bool without_window(const Case& at) {
    return at.model.value("sliding_window", nlohmann::json()).is_null();
}

// Experts have a width of their own, and no layer is without them.
bool without_dense_layers(const Case& at) {
    const std::vector<plan::LayerSpec>& kinds = at.scenario.model.kinds;
    return at.model.contains("moe_intermediate_size") &&
           std::all_of(kinds.begin(), kinds.end(),
                       [](const plan::LayerSpec& kind) { return kind.experts() != nullptr; });
}

bool without_graphs(const Case& at) {
    return at.scenario.training.cuda_graphs.scope == plan::CudaGraphs::none;
}

bool without_epilogue(const Case& at) {
    return at.scenario.training.framework.activation_kernel != plan::ActivationKernel::epilogue;
}

bool with_fused_loss(const Case& at) {
    return at.scenario.training.framework.loss_logits == plan::LossLogits::fused;
}

// Of words that ranks share out the maximum is found first.
bool with_loss_in_one_pass(const Case& at) {
    return with_fused_loss(at) && !at.searched && at.scenario.layout.vocabulary_ranks() == 1;
}

bool without_sequence_parallel(const Case& at) {
    const plan::Layout& layout = at.scenario.layout;
    return !at.searched && (!layout.sequence_parallel || layout.tensor_parallel == 1);
}

bool on_devices(const Case& at) {
    return at.scenario.cluster.intra_node.kind != plan::IntraNodeKind::host;
}

constexpr const char* kWords = "words for people";
constexpr const char* kValues = "decides what is learnt; no time or memory depends on it";
constexpr const char* kRun = "of a training run: orrery train reads it";
constexpr const char* kFleet = "of a run as a whole: orrery goodput reads it";
constexpr const char* kFusedMasks =
    "fused attention draws its masks within the kernel: neither time nor memory depends on them";
constexpr const char* kUnasked = "no reader of this kind of model asks for it";

constexpr std::array kRules = {
    Rule{"/description", always, kWords, true},
    Rule{"/imported", always, kWords, true},
    Rule{"/model/name", always, kWords, true},
    Rule{"/model/source", always, kWords, true},
    Rule{"/cluster/name", always, kWords, true},
    Rule{"/cluster/source", always, kWords, true},
    Rule{"/cluster/stragglers/name", always, kWords, true},
    Rule{"/cluster/stragglers/source", always, kWords, true},
    Rule{"/model/activation_function", without_epilogue,
         "an activation without a gate is priced by its bytes, whichever function it is"},
    Rule{"/model/attn_pdrop", within_one_kernel, kFusedMasks},
    Rule{"/model/attention_dropout", within_one_kernel, kFusedMasks},
    Rule{"/model/initializer_range", always, kValues},
    Rule{"/model/intermediate_size", without_dense_layers,
         "every layer is a mixture of experts, which have a width of their own"},
    Rule{"/model/use_sliding_window", without_window, "sliding_window is null"},
    Rule{"/model/layer_norm_epsilon", always, kValues},
    Rule{"/model/rms_norm_eps", always, kValues},
    Rule{"/model/rope_theta", always, kValues},
    Rule{"/model/rope_scaling", always, kValues},
    Rule{"/model/n_group", always, kValues},
    Rule{"/model/topk_group", always, kValues},
    Rule{"/model/norm_topk_prob", always, kValues},
    Rule{"/model/routed_scaling_factor", always, kValues},
    Rule{"/model/swiglu_limit", always, kValues},
    Rule{"/model/floor_scale", always, kValues},
    Rule{"/model/attn_output_multiplier", always, kValues},
    Rule{"/model/embedding_multiplier_scale", always, kValues},
    Rule{"/model/max_attn_value", always, kValues},
    Rule{"/model/attn_scale", always, kValues},
    Rule{"/model/max_position_embeddings", without_learned_positions,
         "a bound of the sequence length; positions are not learnt"},
    Rule{"/training/seed", always, kValues},
    Rule{"/training/lora/alpha", always, kValues},
    Rule{"/training/gathered_inputs", without_sequence_parallel,
         "no tensor rank has a share of the tokens: inputs of products are not gathered"},
    Rule{"/training/logits_dtype", with_fused_loss,
         "a fused loss reads logits as the product leaves them"},
    Rule{"/training/loss_kernel", with_loss_in_one_pass,
         "a fused loss makes exponentials in the passes that need them"},
    Rule{"/training/cuda_graphs", without_graphs, "nothing is captured in a graph"},
    Rule{"/training/optimizer/learning_rate", always, kValues},
    Rule{"/training/optimizer/beta1", always, kValues},
    Rule{"/training/optimizer/beta2", always, kValues},
    Rule{"/training/optimizer/epsilon", always, kValues},
    Rule{"/training/optimizer/weight_decay", always, kValues},
    Rule{"/training/schedule", always, kValues},
    Rule{"/cluster/price_usd_per_gpu_hour", without_tokens,
         "training.tokens is not set: no run to pay for"},
    Rule{"/cluster/power_w_per_gpu", without_tokens,
         "training.tokens is not set: no run that takes energy"},
    Rule{"/cluster/pue", without_energy,
         "no energy: training.tokens or cluster.power_w_per_gpu is not set"},
    Rule{"/cluster/intra_node", without_neighbours, "no two ranks share a node"},
    Rule{"/cluster/inter_node", within_a_node, "all ranks are in one node"},
    Rule{"/cluster/host_memory", without_offload, "nothing is offloaded"},
    Rule{"/cluster/storage", without_disk, "nothing is offloaded to disk"},
    Rule{"/run/threads_per_rank", on_devices, kRun},  // of cores it chooses the profile
    Rule{"/run", always, kRun},
    Rule{"/reliability", always, kFleet},
    Rule{"/storage", always, kFleet},
};

bool is_within(const std::string& pointer, const std::string& outer) {
    return pointer == outer || pointer.rfind(outer + '/', 0) == 0;
}

// Whether the value, or an object around it, is one of them.
bool is_in(std::string pointer, const std::unordered_set<std::string>& keys) {
    for (; !pointer.empty(); pointer.resize(pointer.rfind('/')))
        if (keys.count(pointer) > 0) return true;
    return false;
}

}  // namespace

std::vector<UnusedKey> unused_keys(const plan::ReadResult& read, const Prediction& prediction) {
    const nlohmann::json resolved = nlohmann::json::parse(read.resolved_json);
    const Case at = {*read.scenario, resolved.at("model"),
                     prediction.memory.verdict != Verdict::fits};
    const std::unordered_set<std::string> unread(read.unread.begin(), read.unread.end());
    std::vector<UnusedKey> unused;
    for (const std::string& pointer : read.given) {
        const auto rule = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& candidate) {
            return is_within(pointer, candidate.key);
        });
        if (rule != kRules.end() && rule->unused(at))
            unused.push_back({pointer, rule->why, rule->words});
        else if (is_in(pointer, unread))
            unused.push_back({pointer, kUnasked});
    }
    return unused;
}

}  // namespace orrery::sim
