#include "plan/scenario/resolved.hpp"

#include "plan/scenario/link_kinds.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

const char* text(FabricKind kind) {
    switch (kind) {
        case FabricKind::uniform:
            return "uniform";
        case FabricKind::fat_tree:
            return "fat_tree";
        case FabricKind::rail:
            return "rail";
    }
    return "";
}

const char* text(Recompute recompute) {
    switch (recompute) {
        case Recompute::none:
            return "none";
        case Recompute::selective:
            return "selective";
        case Recompute::selective_op:
            return "selective_op";
        case Recompute::selective_layer:
            return "selective_layer";
        case Recompute::full:
            return "full";
        case Recompute::every_k:
            return "every_k";
    }
    return "";
}

const char* text(TransferOverlap overlap) {
    switch (overlap) {
        case TransferOverlap::always:
            return "always";
        case TransferOverlap::interleaved:
            return "interleaved";
        case TransferOverlap::never:
            return "never";
    }
    return "";
}

const char* text(TransferStreams streams) {
    return streams == TransferStreams::one ? "one" : "per_peer";
}

const char* text(LossLogits logits) {
    switch (logits) {
        case LossLogits::in_place:
            return "in_place";
        case LossLogits::copied:
            return "copied";
        case LossLogits::gathered:
            return "gathered";
        case LossLogits::fused:
            return "fused";
    }
    return "";
}

const char* text(KeptOn kept) {
    switch (kept) {
        case KeptOn::none:
            return "none";
        case KeptOn::host:
            return "host";
        case KeptOn::disk:
            return "disk";
    }
    return "";
}

const char* text(DataParallelMode mode) {
    switch (mode) {
        case DataParallelMode::synchronous:
            return "synchronous";
        case DataParallelMode::parameter_server:
            return "parameter_server";
    }
    return "";
}

const char* text(ActivationStash stash) {
    switch (stash) {
        case ActivationStash::same:
            return "same";
        case ActivationStash::bf16:
            return "bf16";
        case ActivationStash::fp8:
            return "fp8";
    }
    return "";
}

const char* text(CudaGraphs scope) {
    switch (scope) {
        case CudaGraphs::none:
            return "none";
        case CudaGraphs::per_layer:
            return "per_layer";
        case CudaGraphs::full_iteration:
            return "full_iteration";
    }
    return "";
}

const char* text(DataFormat format) {
    switch (format) {
        case DataFormat::automatic:
            return "auto";
        case DataFormat::text:
            return "text";
        case DataFormat::nanogpt:
            return "nanogpt";
        case DataFormat::llmc:
            return "llmc";
        case DataFormat::megatron:
            return "megatron";
    }
    return "";
}

// What the model's file says that we do not read (torch_dtype, architectures, …) is carried along.
Json model_part(const Model& model, const Document& document) {
    Json out = Json::object();
    auto& members = out.get_ref<Json::object_t&>();  // of keys that differ: none is looked for
    for (const auto& [key, value] : document.find("/model")->items()) {
        if (!value.is_null()) members.emplace_back(key, value);
    }
    out["name"] = model.name;
    out["vocab_size"] = model.vocabulary;
    out["tie_word_embeddings"] = model.tied_embeddings;
    write_model(model, out);
    return out;
}

Json fabric_part(const Fabric& fabric) {
    Json out = {{"kind", text(fabric.kind)}, {"levels", Json::array()}};
    for (const FabricLevel& level : fabric.levels)
        out["levels"].push_back(
            {{"nodes", level.nodes}, {"oversubscription", plain(level.oversubscription)}});
    out["switch_latency_us"] = plain(fabric.switch_latency_us);
    if (fabric.kind == FabricKind::rail)
        out["cross_rail"] = fabric.cross_rail == CrossRail::nvlink ? "nvlink" : "spine";
    return out;
}

Json cluster_part(const Cluster& cluster, const Document& document) {
    Json out = Json::object();
    if (!cluster.name.empty()) out["name"] = cluster.name;
    out["nodes"] = cluster.nodes;
    out["devices_per_node"] = cluster.devices_per_node;
    out["device"] = cluster.device;
    out["profile"] = *document.find("/cluster/profile");
    if (document.find("/cluster/intra_node") != nullptr) {
        out["intra_node"] = {{"kind", spelling(intra_node_kinds(), cluster.intra_node.kind)},
                             {"bandwidth_GBps", plain(cluster.intra_node.bandwidth_GBps)},
                             {"latency_us", plain(cluster.intra_node.latency_us)}};
        if (cluster.intra_node.host_GBps > 0)
            out["intra_node"]["host_GBps"] = plain(cluster.intra_node.host_GBps);
    }
    if (document.find("/cluster/inter_node") != nullptr) {
        const InterNode& link = cluster.inter_node;
        Json& part = out["inter_node"] = {{"kind", spelling(inter_node_kinds(), link.kind)}};
        if (link.nics_per_node > 0) part["nics_per_node"] = link.nics_per_node;
        if (link.bandwidth_Gbps > 0) part["bandwidth_Gbps"] = plain(link.bandwidth_Gbps);
        part["latency_us"] = plain(link.latency_us);
        part["oversubscription"] = plain(link.oversubscription);
        if (link.fabric.kind != FabricKind::uniform) part["fabric"] = fabric_part(link.fabric);
    }
    for (const char* part : {"host_memory", "storage", "slow_devices", "jitter"})
        if (const Json* value = document.find(std::string("/cluster/") + part)) out[part] = *value;
    if (const std::optional<ListPrice>& price = cluster.list_price)
        out["list_price"] = {{"usd", plain(price->usd)},
                             {"low_usd", plain(price->low_usd)},
                             {"high_usd", plain(price->high_usd)},
                             {"date", price->date},
                             {"source", price->source}};
    else
        out["price_usd_per_gpu_hour"] = plain(cluster.price_usd_per_gpu_hour);
    out["power_w_per_gpu"] = plain(cluster.power_w_per_gpu);
    out["pue"] = plain(cluster.pue);
    if (const Json* source = document.find("/cluster/source")) out["source"] = *source;
    return out;
}

// Embedded, so that what is resolved needs no other file.
Json schedule_part(const Layout& layout) {
    if (layout.imported.schedule.grid.empty()) return layout.schedule;
    return {{"name", layout.schedule}, {"rows", csv_rows(to_csv(layout.imported.schedule.grid))}};
}

Json offload_part(const Offload& offload) {
    return {{"optimizer", text(offload.optimizer)},
            {"gradients", text(offload.gradients)},
            {"parameters", text(offload.parameters)},
            {"activations", text(offload.activations)},
            {"prefetch", offload.prefetch}};
}

Json framework_part(const Framework& framework, const Verbatim& verbatim) {
    Json flags = Json::object();
    const auto put = [&](const char* key, Json value) {
        flags[key] = {{"value", std::move(value)}, {"source", verbatim.sources.at(key)}};
    };
    put("attention_kernel",
        framework.attention_kernel == AttentionKernel::flash ? "flash" : "unfused");
    put("gradient_dtype", verbatim.gradient_dtype);
    put("dropout_masks", framework.dropout_masks == DropoutMasks::stored ? "stored" : "recomputed");
    put("logits_dtype", framework.logits_dtype == LogitsType::fp32 ? "fp32" : "same");
    put("loss_logits", text(framework.loss_logits));
    put("norm_kernel", framework.norm_kernel == NormKernel::fused ? "fused" : "composed");
    put("recompute_stops_early", framework.recompute_stops_early);
    put("overlap_gradient_reduce", framework.overlap_gradient_reduce);
    put("overlap_parameter_gather", framework.overlap_parameter_gather);
    put("overlap_pipeline_transfers", text(framework.overlap_pipeline_transfers));
    put("transfer_streams", text(framework.transfer_streams));
    put("tensor_overlap_parts", framework.tensor_overlap_parts);
    put("overlap_tensor_backward", framework.overlap_tensor_backward);
    put("defer_embedding_gradient", framework.defer_embedding_gradient);
    put("scatter_gather_transfers", framework.scatter_gather_transfers);
    put("zero_prefetch", framework.zero_prefetch);
    put("gradient_bucket_mb", plain(framework.gradient_bucket_mb));
    put("gradient_bucket_mb_per_rank", plain(framework.gradient_bucket_mb_per_rank));
    put("vocabulary_multiple", framework.vocabulary_multiple);
    put("launch_us", plain(framework.launch_us));
    put("backward_launch_factor", plain(framework.backward_launch_factor));
    put("collective_launch_factor", plain(framework.collective_launch_factor));
    put("transfer_launch_factor", plain(framework.transfer_launch_factor));
    put("launch_queue", framework.launch_queue);
    put("attention_factor", plain(framework.attention_factor));
    put("memory_kernel_factor", plain(framework.memory_kernel_factor));
    put("column_cast_factor", plain(framework.column_cast_factor));
    put("overlap_factor", plain(framework.overlap_factor));
    put("deviation_factor", plain(framework.deviation_factor));
    put("residual_sd", plain(framework.residual_sd));
    put("workspace_mb", plain(framework.workspace_mb));
    put("context_mb", plain(framework.context_mb));
    put("communicator_mb", plain(framework.communicator_mb));
    put("fragmentation", plain(framework.fragmentation));
    Json out = {{"name", framework.name}};
    if (framework.assumed) out["assumed"] = true;
    out["measured_on"] = Json::array();
    for (const MeasuredOn& measured : framework.measured_on)
        out["measured_on"].push_back({{"device", measured.device},
                                      {"step_times", measured.step_times},
                                      {"peaks", measured.peaks},
                                      {"source", measured.source}});
    out["flags"] = std::move(flags);
    return out;
}

Json loss_scale_part(const Training& training) {
    if (training.loss_scale > 0) return plain(training.loss_scale);
    const DynamicLossScale& scale = training.dynamic_loss_scale;
    return {{"initial", plain(scale.initial)},
            {"growth_interval", scale.growth_interval},
            {"hysteresis", scale.hysteresis},
            {"minimum", plain(scale.minimum)}};
}

const char* text(StateType type) {
    switch (type) {
        case StateType::same:
            return "fp32";
        case StateType::bf16:
            return "bf16";
        case StateType::fp16:
            return "fp16";
        case StateType::fp8:
            return "fp8";
        case StateType::none:
            return "none";
    }
    return "";
}

void put_state_types(const Optimizer& optimizer, Json& out) {
    const auto put = [&](const char* key, StateType type) {
        if (type != StateType::same) out[key] = text(type);
    };
    put("exp_avg_dtype", optimizer.first_moment);
    put("exp_avg_sq_dtype", optimizer.second_moment);
    put("main_params_dtype", optimizer.main_parameters);
}

Json training_part(const Training& training, const Document& document, const Verbatim& verbatim) {
    const Optimizer& optimizer = training.optimizer;
    const LearningRateSchedule& schedule = training.schedule;
    Json out = {{"sequence_length", training.sequence_length},
                {"precision", name(training.precision)}};
    if (const Fp8& fp8 = training.fp8; fp8.on()) {
        out["fp8_recipe"] = name(fp8.recipe);
        out["fp8_weights"] = fp8.weights_per_step ? "step" : "use";
        out["fp8_stash"] = fp8.packed_stash ? "fp8" : "bf16";
        out["fp8_transposes"] = fp8.transposes;
        if (fp8.parameters) out["fp8_param_gather"] = true;
    }
    if (training.precision == Precision::fp16) out["loss_scale"] = loss_scale_part(training);
    if (training.loss_spike.skips())
        out["loss_spike"] = {{"skip_above", plain(training.loss_spike.skip_above)},
                             {"window", training.loss_spike.window}};
    if (training.batch_ramp.start_batch_size > 0)
        out["batch_ramp"] = {{"start_batch_size", training.batch_ramp.start_batch_size},
                             {"increment", training.batch_ramp.increment},
                             {"over_samples", training.batch_ramp.over_samples}};
    out["seed"] = training.seed;
    out["tokens"] = plain(training.tokens);
    if (const Json* dropout = document.find("/training/dropout")) out["dropout"] = *dropout;
    out["optimizer"] = {{"kind", optimizer.kind},
                        {"learning_rate", plain(optimizer.learning_rate)},
                        {"beta1", plain(optimizer.beta1)},
                        {"beta2", plain(optimizer.beta2)},
                        {"epsilon", plain(optimizer.epsilon)},
                        {"weight_decay", plain(optimizer.weight_decay)},
                        {"clip_norm", plain(optimizer.clip_norm)}};
    put_state_types(optimizer, out["optimizer"]);
    if (const GraphCapture& graphs = training.cuda_graphs; graphs.scope != CudaGraphs::none)
        out["cuda_graphs"] = {{"scope", text(graphs.scope)},
                              {"node_us", plain(graphs.node_us)},
                              {"node_kb", plain(graphs.node_kb)}};
    if (training.loss_chunks > 1) out["loss_chunks"] = training.loss_chunks;
    if (training.lora.on()) out["lora"] = lora_json(training.lora);
    out["schedule"] = {{"warmup_steps", schedule.warmup_steps},
                       {"decay", schedule.decay == Decay::cosine ? "cosine" : "constant"},
                       {"min_learning_rate", plain(schedule.min_learning_rate)}};
    out["framework"] = framework_part(training.framework, verbatim);
    return out;
}

Json nccl_part(const NcclSettings& nccl) {
    Json out = Json::object();
    if (nccl.ib_timeout > 0) out["ib_timeout"] = nccl.ib_timeout;
    if (nccl.ib_retry_cnt >= 0) out["ib_retry_cnt"] = nccl.ib_retry_cnt;
    const auto put = [&](const char* key, const std::string& value) {
        if (!value.empty()) out[key] = value;
    };
    put("ib_hca", nccl.ib_hca);
    put("socket_interface", nccl.socket_interface);
    put("algorithm", nccl.algorithm);
    put("protocol", nccl.protocol);
    put("debug", nccl.debug);
    return out;
}

Json checkpoint_part(const Run& run) {
    Json out = {{"path", run.checkpoint_path}, {"every_steps", "auto"}};
    if (run.checkpoint_every_steps > 0) out["every_steps"] = run.checkpoint_every_steps;
    if (run.checkpoint_keep > 0) out["keep"] = run.checkpoint_keep;
    if (run.mean_time_between_failures_h > 0)
        out["mean_time_between_failures_h"] = run.mean_time_between_failures_h;
    return out;
}

Json health_part(const Health& health) {
    return {{"diverging_above", health.diverging_above},
            {"diverging_window", health.diverging_window},
            {"stalled_after_s", health.stalled_after_s},
            {"starts_within_s", health.starts_within_s}};
}

Json run_part(const Run& run, const Document& document) {
    Json out = Json::object();
    if (!run.data.empty()) out["data"] = run.data;
    out["format"] = text(run.format);
    if (!run.init_from.empty()) out["init_from"] = run.init_from;
    if (run.steps > 0) out["steps"] = run.steps;
    out["threads_per_rank"] = run.threads_per_rank;
    if (!run.offload_path.empty()) out["offload_path"] = run.offload_path;
    if (!run.checkpoint_path.empty()) out["checkpoint"] = checkpoint_part(run);
    if (run.verify_replicas_every_steps > 0)
        out["verify_replicas_every_steps"] = run.verify_replicas_every_steps;
    if (run.health != Health{}) out["health"] = health_part(run.health);
    if (!run.elastic_layouts.empty())
        out["elastic_layouts"] = *document.find("/run/elastic_layouts");
    if (run.nccl != NcclSettings{}) out["nccl"] = nccl_part(run.nccl);
    return out;
}

}  // namespace

Json layout_json(const Layout& layout) {
    Json out = {{"tensor_parallel", layout.tensor_parallel},
                {"pipeline_parallel", layout.pipeline_parallel},
                {"context_parallel", layout.context_parallel},
                {"expert_parallel", layout.expert_parallel},
                {"data_parallel", layout.data_parallel},
                {"virtual_pipeline", layout.virtual_pipeline},
                {"schedule", schedule_part(layout)},
                {"layers_per_stage", layout.layers_per_stage},
                {"sequence_parallel", layout.sequence_parallel},
                {"zero_stage", layout.zero_stage},
                {"zero_group_size",
                 layout.zero_group_size > 0 ? Json(layout.zero_group_size) : Json("all")},
                {"reshard_after_forward", layout.reshard_after_forward},
                {"recompute", text(layout.recompute)}};
    if (layout.context_parallel > 1) out["context_algorithm"] = name(layout.context_algorithm);
    if (layout.recompute == Recompute::every_k)
        out["recompute_every"] =
            layout.recompute_every > 0 ? Json(layout.recompute_every) : Json("sqrt");
    if (layout.recompute == Recompute::selective_layer)
        out["recompute_every"] = layout.recompute_every;
    if (layout.recompute_modules != RecomputedModules{})
        out["recompute_modules"] = modules_json(layout.recompute_modules);
    if (layout.optimizer_post_validation) out["optimizer_post_validation"] = true;
    if (layout.data_parallel_mode != DataParallelMode::synchronous) {
        out["data_parallel_mode"] = text(layout.data_parallel_mode);
        out["staleness"] = layout.staleness;
    }
    if (layout.offload.any()) out["offload"] = offload_part(layout.offload);
    if (layout.activation_stash != ActivationStash::same)
        out["activation_stash"] = text(layout.activation_stash);
    out["micro_batch_size"] = layout.micro_batch_size;
    out["global_batch_size"] = layout.global_batch_size;
    return out;
}

Json resolved(const Scenario& scenario, const Document& document, const Verbatim& verbatim) {
    Json out = Json::object();
    if (const Json* description = document.find("/description")) out["description"] = *description;
    if (const Json* imported = document.find("/imported")) out["imported"] = *imported;
    out["model"] = model_part(scenario.model, document);
    out["cluster"] = cluster_part(scenario.cluster, document);
    out["layout"] = layout_json(scenario.layout);
    out["training"] = training_part(scenario.training, document, verbatim);
    if (document.find("/run") != nullptr) out["run"] = run_part(scenario.run, document);
    return out;
}

}  // namespace orrery::plan
