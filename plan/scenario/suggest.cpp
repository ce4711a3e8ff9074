#include "plan/scenario/suggest.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

namespace orrery::plan {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Names of Megatron-LM, DeepSpeed, torchtitan and daily speech for keys of ours.
constexpr Pair kAliases[] = {
    {"tp", "tensor_parallel"},
    {"tensor_model_parallel_size", "tensor_parallel"},
    {"tensor_parallel_size", "tensor_parallel"},
    {"tensor_parallel_degree", "tensor_parallel"},
    {"pp", "pipeline_parallel"},
    {"pipeline_model_parallel_size", "pipeline_parallel"},
    {"pipeline_parallel_size", "pipeline_parallel"},
    {"pipeline_parallel_degree", "pipeline_parallel"},
    {"cp", "context_parallel"},
    {"context_parallel_size", "context_parallel"},
    {"context_parallel_degree", "context_parallel"},
    {"cp_comm_type", "context_algorithm"},
    {"ep", "expert_parallel"},
    {"expert_model_parallel_size", "expert_parallel"},
    {"dp", "data_parallel"},
    {"data_parallel_size", "data_parallel"},
    {"vpp", "virtual_pipeline"},
    {"vp", "virtual_pipeline"},
    {"virtual_pipeline_model_parallel_size", "virtual_pipeline"},
    {"sp", "sequence_parallel"},
    {"mbs", "micro_batch_size"},
    {"micro_batch", "micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "micro_batch_size"},
    {"gbs", "global_batch_size"},
    {"global_batch", "global_batch_size"},
    {"train_batch_size", "global_batch_size"},
    {"zero", "zero_stage"},
    {"recomputation", "recompute"},
    {"offload_optimizer", "offload"},
    {"offload_param", "offload"},
    {"optimizer_cpu_offload", "offload"},
    {"cpu_offload", "offload"},
    {"recompute_granularity", "recompute"},
    {"activation_checkpointing", "recompute"},
    {"pipeline_schedule", "schedule"},
    {"seq_length", "sequence_length"},
    {"seq_len", "sequence_length"},
    {"sequence", "sequence_length"},
    {"max_seq_len", "sequence_length"},
    {"local_batch_size", "micro_batch_size"},
    {"batch_size", "global_batch_size"},
    {"dtype", "precision"},
    {"fp16", "precision"},
    {"bf16", "precision"},
    {"mixed_precision", "precision"},
    {"fp8_format", "fp8_recipe"},
    {"float8_recipe_name", "fp8_recipe"},
    {"workspace", "workspace_mb"},
    {"launch", "launch_us"},
    {"launch_overhead", "launch_us"},
    {"bucket_size", "gradient_bucket_mb"},
    {"reduce_bucket_size", "gradient_bucket_mb"},
    {"flash_attention", "attention_kernel"},
    {"use_flash_attn", "attention_kernel"},
    {"cuda_graph", "cuda_graphs"},
    {"enable_cuda_graph", "cuda_graphs"},
    {"cuda_graph_impl", "cuda_graphs"},
    {"num_output_chunks", "loss_chunks"},
    {"recompute_num_layers", "recompute_every"},
    {"lr", "learning_rate"},
    {"min_lr", "min_learning_rate"},
    {"eps", "epsilon"},
    {"clip_grad", "clip_norm"},
    {"gradient_clipping", "clip_norm"},
    {"adam_beta1", "beta1"},
    {"adam_beta2", "beta2"},
    {"num_nodes", "nodes"},
    {"gpus_per_node", "devices_per_node"},
    {"gpu", "device"},
    {"train_iters", "steps"},
    {"NCCL_IB_TIMEOUT", "ib_timeout"},
    {"NCCL_IB_RETRY_CNT", "ib_retry_cnt"},
    {"NCCL_IB_HCA", "ib_hca"},
    {"NCCL_SOCKET_IFNAME", "socket_interface"},
    {"NCCL_ALGO", "algorithm"},
    {"algo", "algorithm"},
    {"NCCL_PROTO", "protocol"},
    {"proto", "protocol"},
    {"NCCL_DEBUG", "debug"},
    {"rampup_batch_size", "batch_ramp"},
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"n_ctx", "n_positions"},
    {"intermediate_size", "n_inner"},
    {"ffn_hidden_size", "n_inner"},
    {"n_embd", "hidden_size"},
    {"n_layer", "num_hidden_layers"},
    {"num_layers", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"n_inner", "intermediate_size"},
    {"ffn_hidden_size", "intermediate_size"},
    {"num_query_groups", "num_key_value_heads"},
    {"kv_channels", "head_dim"},
};

constexpr Pair kParts[] = {
    {"tensor_parallel", "layout"},
    {"pipeline_parallel", "layout"},
    {"context_parallel", "layout"},
    {"context_algorithm", "layout"},
    {"expert_parallel", "layout"},
    {"data_parallel", "layout"},
    {"virtual_pipeline", "layout"},
    {"layers_per_stage", "layout"},
    {"sequence_parallel", "layout"},
    {"zero_stage", "layout"},
    {"zero_group_size", "layout"},
    {"reshard_after_forward", "layout"},
    {"recompute", "layout"},
    {"recompute_every", "layout"},
    {"recompute_modules", "layout"},
    {"optimizer_post_validation", "layout"},
    {"data_parallel_mode", "layout"},
    {"staleness", "layout"},
    {"micro_batch_size", "layout"},
    {"global_batch_size", "layout"},
    {"sequence_length", "training"},
    {"precision", "training"},
    {"tokens", "training"},
    {"optimizer", "training"},
    {"framework", "training"},
    {"dropout", "training"},
    {"loss_scale", "training"},
    {"loss_spike", "training"},
    {"batch_ramp", "training"},
    {"seed", "training"},
    {"cuda_graphs", "training"},
    {"loss_chunks", "training"},
    {"attention_kernel", "training"},
    {"gradient_dtype", "training"},
    {"dropout_masks", "training"},
    {"logits_dtype", "training"},
    {"loss_logits", "training"},
    {"norm_kernel", "training"},
    {"recompute_stops_early", "training"},
    {"overlap_gradient_reduce", "training"},
    {"overlap_parameter_gather", "training"},
    {"tensor_overlap_parts", "training"},
    {"defer_embedding_gradient", "training"},
    {"overlap_pipeline_transfers", "training"},
    {"transfer_streams", "training"},
    {"zero_prefetch", "training"},
    {"launch_us", "training"},
    {"learning_rate", "training.optimizer"},
    {"clip_norm", "training.optimizer"},
    {"weight_decay", "training.optimizer"},
    {"exp_avg_dtype", "training.optimizer"},
    {"exp_avg_sq_dtype", "training.optimizer"},
    {"main_params_dtype", "training.optimizer"},
    {"warmup_steps", "training.schedule"},
    {"nodes", "cluster"},
    {"devices_per_node", "cluster"},
    {"device", "cluster"},
    {"profile", "cluster"},
    {"steps", "run"},
    {"data", "run"},
    {"threads_per_rank", "run"},
    {"checkpoint", "run"},
    {"health", "run"},
    {"elastic_layouts", "run"},
    {"verify_replicas_every_steps", "run"},
    {"nccl", "run"},
    {"ib_timeout", "run.nccl"},
    {"ib_retry_cnt", "run.nccl"},
    {"ib_hca", "run.nccl"},
    {"socket_interface", "run.nccl"},
    {"protocol", "run.nccl"},
};

int allowed_distance(std::string_view word) {
    if (word.size() < 3) return 0;
    return word.size() < 5 ? 1 : 2;
}

}  // namespace

int edit_distance(std::string_view left, std::string_view right) {
    const std::size_t columns = right.size() + 1;
    std::vector<int> before(columns), last(columns), row(columns);
    for (std::size_t j = 0; j < columns; ++j)
        last[j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= left.size(); ++i) {
        row[0] = static_cast<int>(i);
        for (std::size_t j = 1; j < columns; ++j) {
            const int replace = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
            row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
            const bool swapped =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[right.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
    int best = allowed_distance(word) + 1;
    std::string found;
    for (const std::string& candidate : candidates) {
        const auto longer = static_cast<std::ptrdiff_t>(word.size() - candidate.size());
        if (std::abs(longer) >= best) continue;  // the distance is at least that
        const int distance = edit_distance(word, candidate);
        if (distance < best) {
            best = distance;
            found = candidate;
        }
    }
    if (!found.empty()) return found;
    for (const auto& [alias, key] : kAliases) {
        const bool known = std::find(candidates.begin(), candidates.end(), key) != candidates.end();
        if (alias == word && known) return std::string(key);
    }
    return "";
}

std::vector<std::string> by_distance(std::string_view word, std::vector<std::string> candidates,
                                     std::size_t limit) {
    constexpr std::size_t kLongestCompared = 200;
    word = word.substr(0, kLongestCompared);
    std::vector<std::pair<int, std::size_t>> ranked;
    for (std::size_t i = 0; i < candidates.size(); ++i)
        ranked.emplace_back(edit_distance(word, candidates[i]), i);
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::string> nearest_first;
    for (const auto& [distance, i] : std::span(ranked).first(std::min(limit, ranked.size())))
        nearest_first.push_back(std::move(candidates[i]));
    return nearest_first;
}

std::string part_of_key(std::string_view key) {
    for (const auto& [known, part] : kParts) {
        if (known == key) return std::string(part);
    }
    return "";
}

}  // namespace orrery::plan
