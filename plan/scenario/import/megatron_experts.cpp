// The mixture of experts of a Megatron-LM command line: the family "megatron" has the same keys.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "plan/scenario/import/megatron_parts.hpp"

namespace orrery::plan::imports {
namespace {

using Kind = Direct::Kind;

constexpr const char* kExperts = "--num-experts";
constexpr std::size_t kMostLayers = 10'000;

constexpr Direct kShape[] = {
    {kExperts, "model.num_experts", Kind::whole},
    {"--moe-router-topk", "model.moe_router_topk", Kind::whole, "2"},
    {"--moe-ffn-hidden-size", "model.moe_ffn_hidden_size", Kind::whole},
    {"--moe-shared-expert-intermediate-size", "model.moe_shared_expert_intermediate_size",
     Kind::whole},
    {"--moe-router-pre-softmax", "model.moe_router_pre_softmax", Kind::flag, "false"},
    {"--moe-router-score-function", "model.moe_router_score_function", Kind::text},
    {"--moe-router-topk-scaling-factor", "model.moe_router_topk_scaling_factor", Kind::number},
    {"--moe-router-num-groups", "model.moe_router_num_groups", Kind::whole},
    {"--moe-router-group-topk", "model.moe_router_group_topk", Kind::whole},
    {"--moe-router-enable-expert-bias", "model.moe_router_enable_expert_bias", Kind::flag, "false"},
};

// What is as it is here, or costs nothing.
constexpr Row kAsHere[] = {
    {"--moe-use-legacy-grouped-gemm", "another library's kernel for the same product"},
    {"--moe-router-fusion", "scores are taken and experts chosen in one kernel, as here"},
    {"--moe-shared-expert-overlap", "it runs while rows are on their way, as here"},
    {"--moe-per-layer-logging", "what is logged changes no step"},
    {"--moe-router-padding-for-fp8", "a tile of an expert's rows is priced half empty"},
    {"--moe-router-padding-for-quantization", "a tile of an expert's rows is priced half empty"},
    {"--moe-token-dispatcher-num-sms", "it counts with another dispatcher"},
    {"--moe-flex-dispatcher-backend", "each sends a row once to each rank"},
    {"--moe-enable-deepep", "it counts with --moe-token-dispatcher-type flex"},
};

struct Refused {
    const char* key;
    const char* why;
    Changes changes = Changes::cost;
};

constexpr Refused kRefused[] = {
    {"--moe-shared-expert-gate", "a gate of the shared expert: give a model by --model",
     Changes::model},
    {"--moe-apply-probs-on-input", "experts' results are weighed here, not what they read",
     Changes::model},
    {"--moe-latent-size", "experts of another width than the model's are not modelled",
     Changes::model},
    {"--moe-input-jitter-eps", "noise on what the router reads is not modelled"},
    {"--moe-layer-recompute", "experts are not recomputed by themselves"},
};

// "[0]*3+[1]*58", "([1,0]*2)", "[0,1]" as a list of 0 and 1; null where it is anything else that
// Python would evaluate.
Json frequency_list(std::string text) {
    text.erase(std::remove_if(text.begin(), text.end(),
                              [](char c) { return c == ' ' || c == '(' || c == ')'; }),
               text.end());
    Json list = Json::array();
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find(']', at);
        if (text[at] != '[' || end == std::string::npos) return nullptr;
        const Json part = Json::parse(text.substr(at, end + 1 - at), nullptr, false);
        at = end + 1;
        std::size_t times = 1;
        if (at < text.size() && text[at] == '*') {
            const char* const last = text.data() + text.size();
            const auto [stop, fault] = std::from_chars(text.data() + at + 1, last, times);
            if (fault != std::errc{}) return nullptr;
            at = static_cast<std::size_t>(stop - text.data());
        }
        if (!part.is_array() || times * part.size() > kMostLayers) return nullptr;
        for (std::size_t i = 0; i < times; ++i)
            list.insert(list.end(), part.begin(), part.end());
        if (at < text.size() && text[at++] != '+') return nullptr;
    }
    const bool marks =
        std::all_of(list.begin(), list.end(), [](const Json& one) { return one == 0 || one == 1; });
    return marks && !list.empty() ? list : Json();
}

// An n stands for every n-th layer; Megatron-LM evaluates anything else as Python, of which lists
// are read.
void map_frequency(Sheet& sheet) {
    const Setting* said = sheet.find({"--moe-layer-freq"});
    if (said == nullptr) return;
    const bool number = said->value.is_string() && said->value.get<std::string>().find_first_not_of(
                                                       "0123456789") == std::string::npos;
    const Json list =
        said->value.is_string() ? frequency_list(said->value.get<std::string>()) : Json();
    if (number)
        sheet.copy({"--moe-layer-freq", "model.moe_layer_freq", Kind::whole});
    else if (!list.is_null())
        sheet.put("model.moe_layer_freq", list, "--moe-layer-freq");
    else
        sheet.refuse("--moe-layer-freq", "give a list of 0 and 1 as model.moe_layer_freq",
                     Changes::model);
}

void map_router(Sheet& sheet) {
    map_expert_balance(sheet, "--moe-router-load-balancing-type", "--moe-aux-loss-coeff");
    sheet.copy({"--moe-z-loss-coeff", "training.routing.z_loss", Kind::number});
    const auto type = sheet.word({"--moe-router-dtype"}, {"fp32", "fp64"});
    if (type == "fp64")
        sheet.refuse("--moe-router-dtype", "routers compute in fp32");
    else
        sheet.ignore("--moe-router-dtype", "routers compute in fp32");
    if (sheet.flag({"--moe-router-enable-expert-bias"}))
        sheet.copy({"--moe-router-bias-update-rate", "training.routing.bias_rate", Kind::number});
    else
        sheet.ignore("--moe-router-bias-update-rate",
                     "it counts with --moe-router-enable-expert-bias");
    if (sheet.flag({"--moe-router-force-load-balancing"}))
        sheet.put("training.routing.distribution", "random", "--moe-router-force-load-balancing");
}

void map_expert_degrees(Sheet& sheet, const MegatronFacts& facts) {
    sheet.copy({"--overlap-moe-expert-parallel-comm", "layout.overlap_expert_communication",
                Kind::flag, "false"});
    const auto parallel = sheet.whole({"--expert-model-parallel-size"});
    sheet.copy({"--expert-model-parallel-size", "layout.expert_parallel", Kind::whole, "1"});
    const auto split = sheet.whole({"--expert-tensor-parallel-size"});
    if (split)
        sheet.put("layout.expert_tensor_parallel", *split, "--expert-tensor-parallel-size");
    else
        sheet.put_usual("layout.expert_tensor_parallel", facts.tensor,
                        "--expert-tensor-parallel-size", "--tensor-model-parallel-size");
    const bool spread = parallel.value_or(1) > 1 || split.value_or(facts.tensor) > 1;
    constexpr const char* kType = "--moe-token-dispatcher-type";
    map_dispatcher(sheet, kType, spread);
    if (spread && !sheet.has(kType))
        sheet.put_usual("layout.expert_dispatcher", "allgather", kType);
}

}  // namespace

void map_dispatcher(Sheet& sheet, const char* key, bool spread) {
    const auto type = sheet.word({key}, {"allgather", "alltoall", "alltoall_seq", "flex"});
    if (type == "alltoall" || type == "alltoall_seq")
        sheet.ignore(key, "rows are exchanged so");
    else if (type && !spread)
        sheet.ignore(key, "all experts are on each rank");
    else if (type)
        sheet.put("layout.expert_dispatcher", *type == "flex" ? "deduplicated" : "allgather", key);
}

void map_expert_products(Sheet& sheet, const char* key) {
    if (sheet.flag({key}))
        sheet.put("training.expert_products", "grouped", key);
    else
        sheet.put_usual("training.expert_products", "one_by_one", key);
}

void map_permutation(Sheet& sheet, const char* key) {
    if (sheet.flag({key}))
        sheet.put("training.permute_kernel", "fused", key);
    else
        sheet.put_usual("training.permute_kernel", "indexed", key);
}

void map_expert_balance(Sheet& sheet, const char* type_key, const char* coefficient) {
    const auto type =
        sheet.word({type_key}, {"aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"})
            .value_or("aux_loss");
    const bool counts = sheet.number({coefficient}).value_or(0) > 0;
    if (!counts || type != "aux_loss")
        sheet.ignore(type_key, "it counts with a coefficient of its loss");
    else if (sheet.has(type_key))
        sheet.put("training.routing.balance_of", "micro_batch", type_key);
    else
        sheet.put_usual("training.routing.balance_of", "micro_batch", type_key);
    if (type == "aux_loss" || type == "seq_aux_loss")
        sheet.copy({coefficient, "training.routing.balance_loss", Kind::number});
    else
        sheet.refuse(coefficient,
                     "experts are balanced within each sequence (seq_aux_loss) or micro-batch "
                     "(aux_loss), or by a bias");
}

// Of what a rank has of a micro-batch.
void map_expert_capacity(Sheet& sheet, const char* factor, const char* policy, const char* pads) {
    if (sheet.number({factor}).value_or(0) <= 0) {
        for (const char* key : {factor, policy, pads})
            sheet.ignore(key, "no token is dropped where experts have no capacity");
        return;
    }
    sheet.copy({factor, "training.routing.capacity_factor", Kind::number});
    sheet.put("training.routing.capacity_of", "rank", factor);
    sheet.copy({policy, "training.routing.drop_policy", Kind::text});
    sheet.copy({pads, "training.routing.pad_to_capacity", Kind::flag, "false"});
}

void map_megatron_experts(Sheet& sheet, const Wishes& wishes, const MegatronFacts& facts) {
    if (!sheet.has(kExperts)) return;
    if (wishes.model.empty()) {
        sheet.copy(kShape);
        map_frequency(sheet);
    } else {
        for (const Direct& direct : kShape)
            sheet.ignore(direct.key, "the model is " + wishes.model);
        sheet.ignore("--moe-layer-freq", "the model is " + wishes.model);
    }
    map_router(sheet);
    map_expert_capacity(sheet, "--moe-expert-capacity-factor", "--moe-token-drop-policy",
                        "--moe-pad-expert-input-to-capacity");
    map_permutation(sheet, "--moe-permute-fusion");
    map_expert_products(sheet, "--moe-grouped-gemm");
    for (const Row& row : kAsHere)
        sheet.ignore(row.key, row.why);
    for (const Refused& refused : kRefused)
        sheet.refuse(refused.key, refused.why, refused.changes);
    map_expert_degrees(sheet, facts);
}

}  // namespace orrery::plan::imports
