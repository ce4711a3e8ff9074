#include "tests/property/random_scenario.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "plan/scenario/arithmetic.hpp"

namespace orrery::property {
namespace {

constexpr std::int64_t kMostRanks = 32;

const char* const kWorld = R"({
  "model": {"model_type": "gpt2"},
  "cluster": {"nodes": 1, "devices_per_node": 1, "device": "a100-80gb-sxm",
              "profile": "profiles/a100-80gb-sxm.json"},
  "layout": {"global_batch_size": 1},
  "training": {"sequence_length": 16}
})";

// Below `count`, whatever RapidCheck's size: the first cases are as varied as the last.
std::size_t below(std::size_t count) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, count));
}

template <typename T>
T one_of(const std::vector<T>& values) {
    return values[below(values.size())];
}

bool one_in(std::size_t count) {
    return below(count) == count - 1;
}

struct Choice {
    const char* key;
    std::vector<std::string> values;
};

std::vector<std::string> shipped(const char* kind) {
    std::vector<std::string> names;
    const auto folder = std::filesystem::path(ORRERY_SOURCE_DIR) / "scenarios" / kind;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end(), std::greater<>());
    return names;
}

// Keys that may hold any of their values in any scenario, or be left out.
const std::vector<Choice>& free_keys() {
    static const std::vector<std::string> both = {"false", "true"};
    static const std::vector<Choice> keys = {
        {"model.tie_word_embeddings", both},
        {"training.zero_prefetch", {"1", "0", "2"}},
        {"training.framework", shipped("frameworks")},
        {"training.gradient_dtype", {"same", "fp32"}},
        {"training.dropout_masks", {"stored", "recomputed"}},
        {"training.logits_dtype", {"same", "fp32"}},
        {"training.loss_logits", {"in_place", "copied", "gathered"}},
        {"training.norm_kernel", {"fused", "composed"}},
        {"training.attention_kernel", {"flash", "unfused"}},
        {"training.recompute_stops_early", both},
        {"training.overlap_gradient_reduce", both},
        {"training.overlap_parameter_gather", both},
        {"training.overlap_pipeline_transfers", {"always", "interleaved", "never"}},
        {"training.transfer_streams", {"one", "per_peer"}},
        {"training.overlap_tensor_backward", both},
        {"training.defer_embedding_gradient", both},
        {"training.scatter_gather_transfers", both},
        {"training.gradient_bucket_mb", {"100", "0.01", "0.001"}},
        {"training.gradient_bucket_mb_per_rank", {"0", "0.01"}},
        {"training.vocabulary_multiple", {"128", "1", "7"}},
        {"training.launch_us", {"5", "0", "50"}},
        {"training.backward_launch_factor", {"1", "0.5", "2"}},
        {"training.collective_launch_factor", {"1", "0.3"}},
        {"training.transfer_launch_factor", {"1", "20"}},
        {"training.launch_queue", {"1024", "1", "16"}},
        {"training.workspace_mb", {"32", "0"}},
        {"training.attention_factor", {"1", "1.4"}},
        {"training.memory_kernel_factor", {"1", "0.8"}},
        {"training.column_cast_factor", {"1", "3"}},
        {"training.overlap_factor", {"1", "0", "9"}},
        {"training.residual_sd", {"0", "0.05"}},
        {"training.context_mb", {"600", "0"}},
        {"training.communicator_mb", {"150", "0"}},
        {"training.fragmentation", {"0", "0.1"}},
        {"training.dropout", {"0", "0.1"}},
        {"training.tokens", {"0", "1e9"}},
        {"training.optimizer.clip_norm", {"0", "1"}},
        {"training.schedule.decay", {"constant", "cosine"}},
        {"cluster.price_usd_per_gpu_hour", {"0", "2.5"}},
        {"cluster.power_w_per_gpu", {"0", "400"}},
        {"cluster.slow_devices", {"[]", R"([{"device": 0, "factor": 1.5}])"}},
        {"cluster.slow_nodes", {"[]", R"([{"node": 0, "factor": 1.2}])"}},
        {"cluster.stragglers",
         {R"({"slow": []})", R"({"slow": [{"of": "device", "share": 0.2, "factor": 1.3}]})",
          R"({"slow": [{"of": "inter_node", "share": 0.5, "factor": 2},
                       {"of": "intra_node", "share": 0.5, "factor": 2}], "common_sd": 0.02})"}},
        {"cluster.jitter",
         {R"({"distribution": "none", "relative_sd": 0})",
          R"({"distribution": "lognormal", "relative_sd": 0.1})",
          R"({"distribution": "normal", "relative_sd": 0.1, "per": "device"})"}},
    };
    return keys;
}

struct Device {
    const char* name;
    const char* profile;
    std::vector<std::string> precisions;
};

const std::vector<Device>& devices() {
    static const std::vector<Device> all = {
        {"a100-80gb-sxm", "profiles/a100-80gb-sxm.json", {"bf16", "fp16", "fp32"}},
        {"h100-sxm", "profiles/h100-sxm.json", {"bf16", "fp16", "fp32", "fp8", "fp8"}},
        {"cpu-core", "profiles/cpu-core.json", {"fp32"}},
    };
    return all;
}

class Draft {
  public:
    explicit Draft(const Family& family) : family_(family) {}

    RandomScenario draw() {
        set("model.model_type", family_.model_type);
        for (const char* always : family_.always)
            sets_.push_back(std::string("model.") + always);
        draw_degrees();
        draw_model();
        draw_stages();
        draw_recompute();
        draw_batch();
        draw_zero();
        draw_cluster();
        for (const Choice& choice : free_keys())
            if (one_in(3) && !is_settled(choice.key)) set(choice.key, one_of(choice.values));
        if (!draw_staleness()) {
            draw_lora();
            draw_post_validation();
        }
        return {kWorld, sets_};
    }

  private:
    void set(const std::string& key, const std::string& value) {
        sets_.push_back(key + "=" + value);
    }
    void set(const std::string& key, std::int64_t value) { set(key, std::to_string(value)); }
    void set_model(const char* key, std::int64_t value) { set(std::string("model.") + key, value); }

    // Attention over shares of a sequence in turn stores no scores.
    bool is_settled(const std::string& key) const {
        return in_turn_ && key == "training.attention_kernel";
    }

    void draw_degrees() {
        tensor_ = one_of<std::int64_t>({1, 2, 4});
        pipeline_ = one_of<std::int64_t>({1, 2, 3, 4});
        data_ = one_of<std::int64_t>({1, 2, 3, 4});
        while (tensor_ * pipeline_ * data_ > kMostRanks)
            --data_;
        if (tensor_ * pipeline_ * data_ * 2 <= kMostRanks && one_in(4))
            context_ =
                tensor_ * pipeline_ * data_ * 4 <= kMostRanks ? one_of<std::int64_t>({2, 4}) : 2;
        if (pipeline_ > 1 && one_in(3)) chunks_ = one_of<std::int64_t>({2, 3});
        set("layout.tensor_parallel", tensor_);
        set("layout.pipeline_parallel", pipeline_);
        set("layout.virtual_pipeline", chunks_);
    }

    // Tensor ranks share heads, groups of keys and values, and units of the MLP evenly.
    void draw_model() {
        const std::int64_t kv_heads = tensor_ * one_of<std::int64_t>({1, 2});
        const std::int64_t heads =
            *family_.kv_heads ? kv_heads * one_of<std::int64_t>({1, 2, 4}) : kv_heads;
        const std::int64_t head_dim = one_of<std::int64_t>({16, 8, 64});
        std::int64_t hidden = heads * head_dim;
        if (*family_.head_dim && one_in(2)) {
            hidden = one_of<std::int64_t>({64, 40});
        }
        if (*family_.head_dim) set_model(family_.head_dim, head_dim);
        set_model(family_.hidden, hidden);
        set_model(family_.heads, heads);
        if (*family_.kv_heads) set_model(family_.kv_heads, kv_heads);
        std::int64_t ffn = 4 * hidden / tensor_;  // of a rank
        if (*family_.ffn && (family_.ffn_required || one_in(2)))
            set_model(family_.ffn, tensor_ * (ffn = one_of<std::int64_t>({32, 24})));
        const std::int64_t queries = heads * head_dim / tensor_;
        const std::int64_t keys = kv_heads * head_dim / tensor_;
        for (const std::int64_t size : {hidden, queries, queries + 2 * keys, ffn})
            eight_bit_ = eight_bit_ && size % 16 == 0;
        set_model("vocab_size", one_of<std::int64_t>({128, 101, 1}));
        draw_sequence(heads, kv_heads);
        const std::int64_t share = sequence_ / context_;
        const bool parts = share >= 16 && one_in(3);
        if (parts) set("training.tensor_overlap_parts", 2);
        if (parts || one_in(2))
            set("training.gathered_inputs",
                parts ? "again" : one_of<std::string>({"again", "kept"}));
        if (*family_.positions)
            set_model(family_.positions, sequence_ * one_of<std::int64_t>({1, 2}));
        if (*family_.window && one_in(2))
            set_model(family_.window, in_turn_
                                          ? 2 * sequence_
                                          : one_of<std::int64_t>({sequence_, 2 * sequence_, 3}));
        for (const char* key : family_.switches)
            if (one_in(2)) set(std::string("model.") + key, one_of<std::string>({"false", "true"}));
        const bool sharded = tensor_ > 1 && one_in(2);
        if (sharded) set("layout.sequence_parallel", "true");
        eight_bit_ = eight_bit_ && share / (sharded ? tensor_ : 1) % (parts ? 32 : 16) == 0;
    }

    // Context-parallel ranks share out the sequence, each with a chunk from either end, or exchange
    // tokens for heads.
    void draw_sequence(std::int64_t heads, std::int64_t kv_heads) {
        sequence_ =
            context_ > 1 ? one_of<std::int64_t>({32, 64}) : one_of<std::int64_t>({16, 32, 4});
        set("training.sequence_length", sequence_);
        if (context_ == 1) return;
        set("layout.context_parallel", context_);
        const std::int64_t ranks = tensor_ * context_;
        in_turn_ = heads % ranks != 0 || kv_heads % ranks != 0 || one_in(2);
        set("layout.context_algorithm",
            in_turn_ ? one_of<std::string>({"ring", "all_gather"}) : "all_to_all");
        if (in_turn_) set("training.attention_kernel", std::string("flash"));
    }

    // Even, or a count for each stage; the first and the last may hold no layer.
    void draw_stages() {
        const std::int64_t stages = pipeline_ * chunks_;
        largest_stage_ = one_of<std::int64_t>({1, 2, 3});
        std::int64_t layers = stages * largest_stage_;
        if (one_in(3)) {
            layers = largest_stage_ = 0;
            std::string counts;
            for (std::int64_t stage = 0; stage < stages; ++stage) {
                const bool end = stage == 0 || stage + 1 == stages;
                std::int64_t count = one_of<std::int64_t>({1, 2, 3});
                if (end && stages > 2 && one_in(3)) count = 0;
                layers += count;
                largest_stage_ = std::max(largest_stage_, count);
                counts += (counts.empty() ? "" : ",") + std::to_string(count);
            }
            set("layout.layers_per_stage", "[" + counts + "]");
        }
        set_model(family_.layers, layers);
        if (chunks_ == 2)
            schedule_ = one_of<std::string>({"interleaved", "zb-v", "v-half", "dualpipe-v"});
        else if (chunks_ > 2)
            schedule_ = "interleaved";
        else if (one_in(2))
            schedule_ = one_of<std::string>({"1f1b", "gpipe", "zb-h1", "zb-2p"});
        if (!schedule_.empty()) set("layout.schedule", schedule_);
    }

    // Groups of layers lie within a stage.
    void draw_recompute() {
        const auto recompute = one_of<std::string>(
            {"none", "selective", "selective_op", "selective_layer", "full", "every_k"});
        set("layout.recompute", recompute);
        const bool groups = recompute == "every_k" && !one_in(3);
        if (!groups && recompute != "selective_layer") return;
        set("layout.recompute_every",
            1 + static_cast<std::int64_t>(below(static_cast<std::size_t>(largest_stage_))));
    }

    void draw_batch() {
        const std::int64_t micro_batch = one_of<std::int64_t>({1, 2});
        std::int64_t micro_batches = one_of<std::int64_t>({1, 2, 3, 5});
        if (schedule_ == "interleaved") micro_batches = pipeline_ * one_of<std::int64_t>({1, 2});
        if (schedule_ == "dualpipe-v") micro_batches += 2 * pipeline_ - 1;
        set("layout.micro_batch_size", micro_batch);
        set("layout.global_batch_size", micro_batch * micro_batches * data_);
    }

    // Shard groups are equal parts of the data ranks.
    void draw_zero() {
        const std::int64_t stage = one_of<std::int64_t>({0, 1, 2, 3});
        set("layout.zero_stage", stage);
        if (stage > 0 && one_in(2))
            set("layout.zero_group_size",
                one_of(plan::divisors(data_ * context_, data_ * context_)));
        if (stage == 3 && one_in(2)) set("layout.reshard_after_forward", "false");
    }

    // Of sizes that have no whole blocks.
    void draw_eight_bit() {
        const auto recipe = one_of<std::string>({"delayed", "tensorwise", "rowwise"});
        set("training.fp8_recipe", recipe);
        if (one_in(3)) set("training.fp8_weights", std::string("use"));
        if (recipe != "delayed" && one_in(3))
            set("training.fp8_stash", one_of<std::string>({"fp8", "bf16"}));
        if (one_in(3)) set("training.fp8_transposes", std::string("false"));
    }

    // There must be something to validate: the last word on the norm is this.
    void draw_post_validation() {
        if (pipeline_ == 1 || !one_in(3)) return;
        set("layout.optimizer_post_validation", "true");
        set("training.optimizer.clip_norm", "1");
    }

    // Of states that are shared out, where a step need know nothing of those before it: the last
    // word on ZeRO is this.
    // What adapters are beside (S037) is left out.
    void draw_lora() {
        const auto excluded = [](const std::string& set) {
            return set == "layout.recompute=selective_op" || set == "training.precision=fp8" ||
                   set == "training.tensor_overlap_parts=2" ||
                   set.find("layers_per_stage=[0") != std::string::npos ||
                   (set.find("layers_per_stage") != std::string::npos &&
                    set.find(",0") != std::string::npos);
        };
        if (std::string(family_.model_type) == "gpt_oss" || !one_in(4) ||
            std::any_of(sets_.begin(), sets_.end(), excluded))
            return;
        set("training.tensor_overlap_parts", 1);
        set("training.lora.rank", one_of<std::int64_t>({1, 2}));
        if (one_in(2))
            set("training.lora.target_modules",
                one_of<std::string>({R"(["linear_qkv"])", R"(["linear_proj", "linear_fc1"])",
                                     R"(["linear_fc2"])"}));
    }

    bool draw_staleness() {
        const auto drawn = [&](const char* key) {
            return std::find(sets_.begin(), sets_.end(), key) != sets_.end();
        };
        if (drawn("training.precision=fp8") || drawn("training.precision=fp16") ||
            drawn("layout.reshard_after_forward=false") || !one_in(4))
            return false;
        set("layout.zero_stage", 1);
        set("layout.data_parallel_mode", std::string("parameter_server"));
        if (one_in(2)) set("layout.staleness", one_of<std::int64_t>({0, 1, 2, 4}));
        return true;
    }

    // Nodes that groups fill, share or straddle; sometimes with devices to spare.
    void draw_cluster() {
        const Device& device = devices()[below(devices().size())];
        set("cluster.device", device.name);
        set("cluster.profile", device.profile);
        std::string precision = one_of(device.precisions);
        if (precision == "fp8" && !eight_bit_) precision = "bf16";
        set("training.precision", precision);
        if (precision == "fp8") draw_eight_bit();
        if (precision == "fp16" && one_in(2))
            set("training.loss_scale", one_of<std::string>({"dynamic", "1024"}));
        const std::int64_t ranks = tensor_ * pipeline_ * context_ * data_;
        const std::int64_t per_node = one_of<std::int64_t>({8, 1, 2, 3, 4, 6});
        const std::int64_t nodes = (ranks + per_node - 1) / per_node + (one_in(4) ? 1 : 0);
        set("cluster.nodes", nodes);
        set("cluster.devices_per_node", per_node);
        if (per_node > 1) draw_inside(per_node);
        if (nodes > 1) draw_between();
        const bool fills = nodes * per_node / (tensor_ * pipeline_ * context_) == data_;
        if (!fills || one_in(2)) set("layout.data_parallel", data_);
    }

    void draw_inside(std::int64_t per_node) {
        const auto kind =
            one_of<std::string>({"nvswitch", "xgmi", "pcie", "host", "hybrid_cube_mesh", "torus"});
        std::string more;
        if (kind == "hybrid_cube_mesh") more = R"(, "host_GBps": 10)";
        if (kind == "torus") {
            const std::int64_t first = per_node % 2 == 0 ? 2 : 1;
            more = R"(, "shape": [)" + std::to_string(first) + ", " +
                   std::to_string(per_node / first) + "]";
            if (one_in(2)) more += R"(, "wraparound": [true, false])";
        }
        set("cluster.intra_node",
            R"({"kind": ")" + kind + R"(", "bandwidth_GBps": 200, "latency_us": 2)" + more + "}");
    }

    void draw_between() {
        const auto fabric = one_of<std::string>({"", "fat_tree", "rail"});
        std::string network = R"({"kind": ")" + one_of<std::string>({"infiniband", "ethernet"}) +
                              R"(", "nics_per_node": )" + one_of<std::string>({"1", "8", "3"}) +
                              R"(, "bandwidth_Gbps": 200, "latency_us": 5)";
        if (fabric.empty())
            network += R"(, "oversubscription": )" + one_of<std::string>({"1", "2.5"});
        else
            network += R"(, "fabric": {"kind": ")" + fabric + R"(", "levels": [{"nodes": )" +
                       one_of<std::string>({"1", "2"}) + R"(, "oversubscription": )" +
                       one_of<std::string>({"1", "2.5"}) + R"(}, {"nodes": 4}]})";
        set("cluster.inter_node", network + "}");
    }

    const Family& family_;
    std::vector<std::string> sets_;
    std::string schedule_;   // empty: the default
    bool eight_bit_ = true;  // whether all sizes are multiples of 16
    bool in_turn_ = false;   // attention sees one share of a sequence after another
    std::int64_t tensor_ = 1, pipeline_ = 1, data_ = 1, context_ = 1, chunks_ = 1, sequence_ = 1,
                 largest_stage_ = 1;
};

}  // namespace

// Type, layers, hidden, heads, kv_heads, head_dim, MLP, whether it must be given, positions,
// window, switches, always.
const std::vector<Family>& families() {
    static const char* const kLayers = "num_hidden_layers";
    static const char* const kHidden = "hidden_size";
    static const char* const kHeads = "num_attention_heads";
    static const char* const kKvHeads = "num_key_value_heads";
    static const char* const kFfn = "intermediate_size";
    static const char* const kPositions = "max_position_embeddings";
    static const char* const kWindow = "sliding_window";
    static const std::vector<Family> all = {
        {"gpt2",
         "n_layer",
         "n_embd",
         "n_head",
         "",
         "",
         "n_inner",
         false,
         "n_positions",
         "",
         {},
         {}},
        {"llama",
         kLayers,
         kHidden,
         kHeads,
         kKvHeads,
         "head_dim",
         kFfn,
         true,
         "",
         "",
         {"attention_bias", "mlp_bias"},
         {}},
        {"mistral",
         kLayers,
         kHidden,
         kHeads,
         kKvHeads,
         "head_dim",
         kFfn,
         true,
         "",
         kWindow,
         {},
         {}},
        {"qwen2",
         kLayers,
         kHidden,
         kHeads,
         kKvHeads,
         "",
         kFfn,
         true,
         "",
         kWindow,
         {"use_sliding_window"},
         {"max_window_layers=0"}},
        {"gemma",
         kLayers,
         kHidden,
         kHeads,
         kKvHeads,
         "head_dim",
         kFfn,
         true,
         "",
         "",
         {"attention_bias"},
         {}},
        {"opt",
         kLayers,
         kHidden,
         kHeads,
         "",
         "",
         "ffn_dim",
         true,
         kPositions,
         "",
         {"enable_bias"},
         {}},
        {"gpt_neox",
         kLayers,
         kHidden,
         kHeads,
         "",
         "",
         kFfn,
         true,
         "",
         "",
         {"use_parallel_residual", "attention_bias"},
         {}},
        {"bloom", "n_layer", kHidden, "n_head", "", "", "", false, "", "", {}, {}},
        {"falcon",
         kLayers,
         kHidden,
         kHeads,
         "num_kv_heads",
         "",
         "ffn_hidden_size",
         false,
         "",
         "",
         {"new_decoder_architecture", "parallel_attn", "bias", "alibi"},
         {"multi_query=false"}},
    };
    return all;
}

RandomScenario random_scenario(const Family& family) {
    return Draft(family).draw();
}

}  // namespace orrery::property
