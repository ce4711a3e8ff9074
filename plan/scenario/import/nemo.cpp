#include "plan/scenario/import/nemo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/scenario/import/megatron_parts.hpp"
#include "plan/scenario/import/nemo_rows.hpp"
#include "plan/scenario/import/ranks.hpp"
#include "plan/scenario/import/reasons.hpp"
#include "plan/scenario/import/yaml_text.hpp"

namespace orrery::plan::imports {
namespace {

using Kind = Direct::Kind;

constexpr int kMostReferences = 16;  // from one to the next

constexpr Direct kNemoModel[] = {
    {"model.num_layers", "model.num_layers", Kind::whole},
    {"model.hidden_size", "model.hidden_size", Kind::whole},
    {"model.ffn_hidden_size", "model.ffn_hidden_size", Kind::whole},
    {"model.num_attention_heads", "model.num_attention_heads", Kind::whole},
    {"model.num_query_groups", "model.num_query_groups", Kind::whole},
    {"model.kv_channels", "model.kv_channels", Kind::whole},
    {"model.max_position_embeddings", "model.max_position_embeddings", Kind::whole},
    {"model.init_method_std", "model.init_method_std", Kind::number, "0.02"},
    {"model.hidden_dropout", "model.hidden_dropout", Kind::number, "0.1"},
    {"model.attention_dropout", "model.attention_dropout", Kind::number, "0.1"},
    {"model.layernorm_epsilon", "model.norm_epsilon", Kind::number, "1e-5"},
};

constexpr Direct kNemoExperts[] = {
    {"model.num_moe_experts", "model.num_experts", Kind::whole},
    {"model.moe_router_topk", "model.moe_router_topk", Kind::whole, "2"},
    {"model.moe_ffn_hidden_size", "model.moe_ffn_hidden_size", Kind::whole},
    {"model.moe_shared_expert_intermediate_size", "model.moe_shared_expert_intermediate_size",
     Kind::whole},
};

constexpr Direct kNemoTraining[] = {
    {"model.encoder_seq_length", "training.sequence_length", Kind::whole},
    {"model.make_vocab_size_divisible_by", "training.vocabulary_multiple", Kind::whole, "128"},
    {"model.seed", "training.seed", Kind::whole, "1234"},
    {"trainer.max_steps", "run.steps", Kind::whole},
    {"trainer.gradient_clip_val", "training.optimizer.clip_norm", Kind::number, "0"},
    {"model.optim.lr", "training.optimizer.learning_rate", Kind::number},
    {"model.optim.weight_decay", "training.optimizer.weight_decay", Kind::number},
    {"model.optim.sched.warmup_steps", "training.schedule.warmup_steps", Kind::whole},
    {"model.optim.sched.min_lr", "training.schedule.min_learning_rate", Kind::number},
};

// "${model.hidden_size}" and "${.hidden_size}", as OmegaConf means them; other resolvers stay open.
void resolve(std::vector<Setting>& settings) {
    const auto value_of = [&](const std::string& key) -> const Setting* {
        const auto at = std::find_if(settings.begin(), settings.end(),
                                     [&](const Setting& one) { return one.key == key; });
        return at == settings.end() ? nullptr : &*at;
    };
    for (Setting& setting : settings) {
        for (int i = 0; i < kMostReferences && setting.value.is_string(); ++i) {
            const std::string text = setting.value.get<std::string>();
            if (text.rfind("${", 0) != 0 || text.find('}') != text.size() - 1) break;
            std::string key = text.substr(2, text.size() - 3);
            if (key[0] == '.') key = setting.key.substr(0, setting.key.rfind('.')) + key;
            const Setting* const meant = value_of(key);
            if (meant == nullptr || meant == &setting) break;
            setting.value = meant->value;
        }
        const std::string text = setting.value.is_string() ? setting.value.get<std::string>() : "";
        setting.open = text.find("${") != std::string::npos || text == "???";
    }
}

// What the file says, or what NeMo does where it says nothing.
void put_said(Sheet& sheet, const char* key, const char* to, Json value) {
    if (sheet.has(key))
        sheet.put(to, std::move(value), key);
    else
        sheet.put_usual(to, std::move(value), key);
}

void map_nemo_shape(Sheet& sheet) {
    sheet.put_usual("model.model_type", "megatron", "NeMo");
    for (const char* key : {"num_layers", "hidden_size", "num_attention_heads"})
        if (!sheet.has(std::string("model.") + key))
            sheet.miss(std::string("model.") + key, fmt::format("model.{} is not given", key));
    sheet.copy(kNemoModel);
    const auto activation =
        sheet.word({"model.activation"}, {"gelu", "swiglu", "fast-swiglu", "squared-relu", "geglu",
                                          "fast-geglu", "reglu", "fast-reglu", "relu"});
    const std::string function = activation.value_or("gelu");
    if (function == "swiglu" || function == "fast-swiglu")
        sheet.put("model.swiglu", true, "model.activation");
    else if (function == "squared-relu")
        sheet.put("model.squared_relu", true, "model.activation");
    else if (function == "gelu")
        sheet.put_usual("model.swiglu", false, "model.activation");
    else
        sheet.refuse("model.activation", "no family of models has it", Changes::model);
    const auto norm = sheet.word({"model.normalization"}, {"layernorm", "rmsnorm", "layernorm1p"});
    put_said(sheet, "model.normalization", "model.normalization",
             norm == "rmsnorm" ? "RMSNorm" : "LayerNorm");
    if (norm == "layernorm1p") sheet.put("model.apply_layernorm_1p", true, "model.normalization");
    const bool biases = sheet.boolean({"model.bias"}).value_or(true);
    put_said(sheet, "model.bias", "model.add_bias_linear", biases);
    put_said(sheet, "model.qkv_bias", "model.add_qkv_bias",
             sheet.boolean({"model.qkv_bias"}).value_or(biases));
    const bool tied = sheet.boolean({"model.share_embeddings_and_output_weights"}).value_or(true);
    put_said(sheet, "model.share_embeddings_and_output_weights",
             "model.untie_embeddings_and_output_weights", !tied);
}

void map_nemo_positions(Sheet& sheet) {
    const auto kind = sheet.word({"model.position_embedding_type"},
                                 {"learned_absolute", "rope", "alibi", "kerple", "xpos", "none"});
    const std::string said = kind.value_or("learned_absolute");
    if (said != "rope" && said != "alibi" && said != "learned_absolute") {
        sheet.refuse("model.position_embedding_type", "no family of models has it", Changes::model);
        return;
    }
    put_said(sheet, "model.position_embedding_type", "model.position_embedding_type", said);
    if (said == "rope") {
        sheet.copy({"model.rotary_percentage", "model.rotary_percent", Kind::number, "1"});
        sheet.copy({"model.rotary_base", "model.rotary_base", Kind::number, "10000"});
        return;
    }
    for (const char* key : {"model.rotary_percentage", "model.rotary_base"})
        sheet.ignore(key, "no position turns a head");
    if (said == "alibi")
        sheet.ignore("model.max_position_embeddings", "ALiBi has no table of positions");
    else if (!sheet.has("model.max_position_embeddings"))
        sheet.miss("model.max_position_embeddings", "model.max_position_embeddings is not given");
}

void map_nemo_model(Sheet& sheet, const Wishes& wishes) {
    if (wishes.model.empty()) {
        map_nemo_shape(sheet);
        map_nemo_positions(sheet);
        if (sheet.has("model.num_moe_experts")) sheet.copy(kNemoExperts);
        const Json size =
            sheet.copy({"model.override_vocab_size", "model.vocab_size", Kind::whole});
        if (size.is_null()) sheet.miss("model.vocab_size", "the tokenizer reads it from its files");
        return;
    }
    sheet.put("model", wishes.model, "--model");
    const std::pair<const char*, const char*> stated[] = {{"model.num_layers", "layers"},
                                                          {"model.hidden_size", "hidden"},
                                                          {"model.num_attention_heads", "heads"},
                                                          {"model.ffn_hidden_size", "ffn_hidden"}};
    for (const auto& [key, what] : stated)
        sheet.state(key, what);
    for (const Direct& direct : kNemoModel)
        sheet.ignore(direct.key, "the model is " + wishes.model);
    for (const char* key :
         {"model.activation", "model.normalization", "model.bias", "model.qkv_bias",
          "model.share_embeddings_and_output_weights", "model.position_embedding_type",
          "model.rotary_percentage", "model.rotary_base", "model.override_vocab_size"})
        sheet.ignore(key, "the model is " + wishes.model);
}

void map_nemo_recompute(Sheet& sheet, std::int64_t pipeline) {
    const auto granularity =
        sheet.word({"model.activations_checkpoint_granularity"}, {"selective", "full"});
    const auto method = sheet.word({"model.activations_checkpoint_method"}, {"uniform", "block"});
    const std::int64_t group = sheet.whole({"model.activations_checkpoint_num_layers"}).value_or(1);
    const std::int64_t layers = sheet.whole({"model.num_layers"}).value_or(0);
    const char* const key = "model.activations_checkpoint_granularity";
    if (!granularity)
        sheet.put_usual("layout.recompute", "none", key);
    else if (*granularity == "selective")
        sheet.put("layout.recompute", "selective", key);
    else if (method == "block" && (layers == 0 || group < layers / pipeline))
        sheet.refuse("model.activations_checkpoint_method", "only uniform groups are recomputed");
    else if (method == "block" || group == 1)
        sheet.put("layout.recompute", "full", key);
    else {
        sheet.put("layout.recompute", "every_k", key);
        sheet.put("layout.recompute_every", group, "model.activations_checkpoint_num_layers");
    }
}

std::optional<std::int64_t> map_nemo_layout(Sheet& sheet, const Wishes& wishes) {
    const std::int64_t tensor =
        copied_degree(sheet, "model.tensor_model_parallel_size", "layout.tensor_parallel");
    const std::int64_t pipeline =
        copied_degree(sheet, "model.pipeline_model_parallel_size", "layout.pipeline_parallel");
    const std::int64_t context =
        copied_degree(sheet, "model.context_parallel_size", "layout.context_parallel");
    if (sheet.has("model.num_moe_experts")) {
        // As in Megatron Core, whose degrees these are.
        sheet.copy(
            {"model.expert_model_parallel_size", "layout.expert_parallel", Kind::whole, "1"});
        const auto split = sheet.whole({"model.expert_tensor_parallel_size"});
        put_said(sheet, "model.expert_tensor_parallel_size", "layout.expert_tensor_parallel",
                 split.value_or(tensor));
        const bool spread = sheet.whole({"model.expert_model_parallel_size"}).value_or(1) > 1 ||
                            split.value_or(tensor) > 1;
        map_dispatcher(sheet, "model.moe_token_dispatcher_type", spread);
        map_expert_balance(sheet, "model.moe_router_load_balancing_type",
                           "model.moe_aux_loss_coeff");
        sheet.copy({"model.moe_z_loss_coeff", "training.routing.z_loss", Kind::number});
        map_expert_capacity(sheet, "model.moe_expert_capacity_factor",
                            "model.moe_token_drop_policy",
                            "model.moe_pad_expert_input_to_capacity");
        map_permutation(sheet, "model.moe_permute_fusion");
        map_expert_products(sheet, "model.moe_grouped_gemm");
    }
    if (context > 1) sheet.put("layout.context_algorithm", "ring", "model.context_parallel_size");
    const auto devices = sheet.whole({"trainer.devices"});
    const auto nodes = sheet.whole({"trainer.num_nodes"});
    Ranks ranks = {wishes.gpus, "--gpus", "trainer.devices is not given"};
    if (!wishes.gpus && devices && *devices > 0 && *devices < (1 << 20) &&
        nodes.value_or(1) < (1 << 20))
        ranks = {*devices * nodes.value_or(1), "trainer.devices × trainer.num_nodes", ""};
    const auto data = settle_data_parallel(sheet, ranks, tensor, pipeline, context);
    const auto chunks = sheet.whole({"model.virtual_pipeline_model_parallel_size"});
    const bool interleaved = chunks.value_or(1) > 1;
    if (interleaved)
        sheet.put("layout.virtual_pipeline", *chunks, "model.virtual_pipeline_model_parallel_size");
    sheet.put_usual("layout.schedule", interleaved ? "interleaved" : "1f1b",
                    "model.virtual_pipeline_model_parallel_size");
    const bool sequence = sheet.flag({"model.sequence_parallel"}) && tensor > 1;
    put_said(sheet, "model.sequence_parallel", "layout.sequence_parallel", sequence);
    const auto micro = sheet.whole({"model.micro_batch_size"});
    const auto global = sheet.whole({"model.global_batch_size"});
    if (micro) sheet.put("layout.micro_batch_size", *micro, "model.micro_batch_size");
    if (global) sheet.put("layout.global_batch_size", *global, "model.global_batch_size");
    if (!micro) sheet.miss("layout.micro_batch_size", "model.micro_batch_size is not given", "1");
    if (!global) sheet.miss("layout.global_batch_size", "model.global_batch_size is not given");
    if (micro && global && data)
        check_batch(sheet, "model.global_batch_size", *global, *micro, *data);
    map_nemo_recompute(sheet, pipeline);
    if (sheet.flag({"model.enable_cuda_graph"}))
        sheet.put("training.cuda_graphs", "per_layer", "model.enable_cuda_graph");
    return global;
}

// 16, bf16, "16-mixed", "bf16-mixed", 32.
void map_nemo_precision(Sheet& sheet) {
    const Setting* const said = sheet.find({"trainer.precision"});
    Json value = said == nullptr ? Json(32) : said->value;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const std::string type = text.substr(0, text.find('-'));
    const char* precision = type == "bf16" ? "bf16" : type == "16" ? "fp16" : "fp32";
    if (type != "bf16" && type != "16" && type != "32")
        sheet.report("I002", "trainer.precision", "trainer.precision takes 32, 16 or bf16");
    const bool narrow = type == "bf16" && sheet.flag({"model.fp8"});
    if (narrow)
        sheet.put("training.precision", "fp8", "model.fp8", "the rest in bf16");
    else
        put_said(sheet, "trainer.precision", "training.precision", precision);
    if (narrow)
        sheet.put_usual("training.fp8_recipe", "delayed", "model.fp8");
    else if (sheet.flag({"model.fp8"}))
        sheet.refuse("model.fp8", "FP8 is modelled beside bf16");
    for (const char* key : {"model.fp8_hybrid", "model.fp8_e4m3"})
        sheet.ignore(key,
                     narrow ? "its formats have one cost" : "read where model.fp8 turns FP8 on");
    sheet.put_usual("training.gradient_dtype", type == "bf16" ? "fp32" : "same",
                    "model.optim.grad_sync_dtype");
    constexpr Direct kNemoScales[] = {
        {"model.native_amp_init_scale", "training.loss_scale.initial", Kind::number},
        {"model.native_amp_growth_interval", "training.loss_scale.growth_interval", Kind::whole},
        {"model.hysteresis", "training.loss_scale.hysteresis", Kind::whole}};
    for (const Direct& scale : kNemoScales) {
        if (type == "16")
            sheet.copy(scale);
        else
            sheet.ignore(scale.key, "only gradients in fp16 need it");
    }
    const bool flash = sheet.flag({"model.use_flash_attention"});
    if (!flash) return;
    sheet.put("training.attention_kernel", "flash", "model.use_flash_attention");
}

void map_nemo_optimizer(Sheet& sheet) {
    const auto name = sheet.text({"model.optim.name"});
    const std::string kind = name.value_or("fused_adam");
    const bool shared = kind == "distributed_fused_adam" || kind == "mcore_distributed_optim";
    if (!shared && kind != "fused_adam" && kind != "adamw" && kind != "adam" &&
        kind != "megatron_fused_adam")
        sheet.refuse("model.optim.name", "only AdamW is modelled");
    else
        put_said(sheet, "model.optim.name", "training.optimizer.kind", "adamw");
    put_said(sheet, "model.optim.name", "layout.zero_stage", shared ? 1 : 0);
    const Setting* const betas = sheet.find({"model.optim.betas"});
    if (betas != nullptr && betas->value.is_array() && betas->value.size() == 2) {
        sheet.put("training.optimizer.beta1", betas->value[0], "model.optim.betas");
        sheet.put("training.optimizer.beta2", betas->value[1], "model.optim.betas");
    } else if (betas != nullptr) {
        sheet.report("I002", "model.optim.betas", "model.optim.betas takes two numbers");
    }
    for (const auto& [key, to] :
         {std::pair("model.optim.overlap_grad_sync", "training.overlap_gradient_reduce"),
          std::pair("model.optim.overlap_param_sync", "training.overlap_parameter_gather")}) {
        if (const auto said = sheet.boolean({key})) sheet.put(to, *said, key);
    }
    const auto schedule = sheet.text({"model.optim.sched.name"});
    const bool cosine = schedule == "CosineAnnealing";
    put_said(sheet, "model.optim.sched.name", "training.schedule.decay",
             cosine ? "cosine" : "constant");
}

// What adapters may be beside, as nemo/collections/nlp/parts/peft_config.py has it; the defaults
// are those of its finetuning config.
void map_nemo_targets(Sheet& sheet) {
    constexpr char kKey[] = "model.peft.lora_tuning.target_modules";
    const std::vector<std::pair<std::string, std::vector<const char*>>> known = {
        {"attention_qkv", {"linear_qkv"}},
        {"attention_dense", {"linear_proj"}},
        {"mlp_fc1", {"linear_fc1"}},
        {"mlp_fc2", {"linear_fc2"}},
        {"attention", {"linear_qkv", "linear_proj"}},
        {"mlp", {"linear_fc1", "linear_fc2"}},
        {"all", {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}}};
    const Setting* const said = sheet.find({kKey});
    if (said == nullptr)
        return sheet.put_usual("training.lora.target_modules", Json::array({"linear_qkv"}), kKey);
    Json targets = Json::array();
    const Json words = said->value.is_array() ? said->value : Json::array({said->value});
    for (const Json& word : words) {
        const auto found = std::find_if(known.begin(), known.end(),
                                        [&](const auto& each) { return word == each.first; });
        if (found == known.end())
            return sheet.refuse(kKey, fmt::format("a layer has no linear {}", word.dump()),
                                Changes::model);
        for (const char* linear : found->second)
            if (std::find(targets.begin(), targets.end(), linear) == targets.end())
                targets.push_back(linear);
    }
    sheet.put("training.lora.target_modules", targets, kKey);
}

void map_nemo_adapters(Sheet& sheet) {
    constexpr char kScheme[] = "model.peft.peft_scheme";
    if (!sheet.has(kScheme)) return;
    if (sheet.text({kScheme}) != "lora")
        return sheet.refuse(kScheme,
                            "of schemes that train a part of the weights, lora is modelled",
                            Changes::model);
    constexpr Direct kRank = {"model.peft.lora_tuning.adapter_dim", "training.lora.rank",
                              Kind::whole, "32"};
    sheet.copy(kRank);
    if (sheet.has("model.peft.lora_tuning.alpha"))
        sheet.copy({"model.peft.lora_tuning.alpha", "training.lora.alpha", Kind::number});
    map_nemo_targets(sheet);
    if (sheet.number({"model.peft.lora_tuning.adapter_dropout"}).value_or(0) > 0)
        sheet.refuse("model.peft.lora_tuning.adapter_dropout",
                     "dropout before adapters is not modelled");
}

}  // namespace

Imported import_nemo(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    std::vector<Setting> settings = read_yaml(text, file, out.errors);
    out.unreadable = !out.errors.empty();
    if (out.unreadable) return out;
    leave_nulls(settings, out);
    resolve(settings);
    Sheet sheet(file, std::move(settings), out);
    map_nemo_model(sheet, wishes);
    const auto global = map_nemo_layout(sheet, wishes);
    sheet.copy(kNemoTraining);
    const auto steps = sheet.whole({"trainer.max_steps"});
    const auto sequence = sheet.whole({"model.encoder_seq_length"});
    if (!sequence) sheet.miss("training.sequence_length", "model.encoder_seq_length is not given");
    if (steps && sequence && global && *steps > 0)
        sheet.put("training.tokens",
                  plain(static_cast<double>(*steps) * static_cast<double>(*global) *
                        static_cast<double>(*sequence)),
                  "trainer.max_steps", "steps × global batch × sequence length");
    map_nemo_precision(sheet);
    map_nemo_optimizer(sheet);
    map_nemo_adapters(sheet);
    if (sheet.flag({"model.ub_tp_comm_overlap"}))
        sheet.refuse("model.ub_tp_comm_overlap", "give training.tensor_overlap_parts");
    sheet.put_usual("training.framework", "nemo", "NeMo");
    sheet.settle(nemo_ignored(), nemo_unsupported());
    return out;
}

}  // namespace orrery::plan::imports
