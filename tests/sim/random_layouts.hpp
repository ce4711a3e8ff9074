// Random valid layouts of small scenarios, for properties that must hold whatever is asked for.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "plan/scenario/arithmetic.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {

using theory::set;
using theory::Sets;

inline Sets world(std::int64_t ranks, std::int64_t devices_per_node) {
    return {"model.n_embd=64", "model.n_head=4",
            set("cluster.nodes", (ranks + devices_per_node - 1) / devices_per_node),
            set("cluster.devices_per_node", devices_per_node),
            "cluster.inter_node.nics_per_node=1"};
}

inline Sets joined(Sets a, const Sets& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// A network of the cluster, also one whose switches part groups and whose nodes part devices.
inline Sets random_network(std::int64_t devices_per_node) {
    const auto word = [](std::vector<std::string> values) {
        return *rc::gen::elementOf(std::move(values));
    };
    Sets sets = {"cluster.inter_node.nics_per_node=" + word({"1", "1", "2", "8"})};
    const std::string fabric = word({"", "", "fat_tree", "rail"});
    if (!fabric.empty())
        sets.push_back(
            R"(cluster.inter_node.fabric={"kind": ")" + fabric + R"(", "switch_latency_us": 1, )" +
            (fabric == "rail" && devices_per_node > 1
                 ? R"("cross_rail": ")" + word({"nvlink", "spine"}) + R"(", )"
                 : "") +
            R"("levels": [{"nodes": )" + word({"1", "2", "4"}) + R"(, "oversubscription": )" +
            word({"1", "3"}) + R"(}, {"nodes": 8, "oversubscription": 2}]})");
    const std::string inside = devices_per_node > 1 ? word({"", "", "mesh", "torus"}) : "";
    if (inside == "mesh")
        sets.push_back(R"(cluster.intra_node={"kind": "hybrid_cube_mesh", "bandwidth_GBps": 150, )"
                       R"("latency_us": 2, "host_GBps": 10})");
    if (inside == "torus") {
        const std::int64_t first = devices_per_node % 2 == 0 ? 2 : 1;
        sets.push_back(
            R"(cluster.intra_node={"kind": "torus", "bandwidth_GBps": 150, "latency_us": 1, )"
            R"("shape": [)" +
            std::to_string(first) + ", " + std::to_string(devices_per_node / first) +
            R"(], "wraparound": [true, )" + word({"true", "false"}) + "]}");
    }
    return sets;
}

// A valid small scenario of at most 64 ranks.
inline Sets random_sets() {
    const auto pick = [](std::vector<std::int64_t> values) {
        return *rc::gen::elementOf(std::move(values));
    };
    const auto word = [](std::vector<std::string> values) {
        return *rc::gen::elementOf(std::move(values));
    };
    const std::int64_t tensor = pick({1, 2, 4});
    const std::int64_t pipeline = pick({1, 2, 3, 4});
    const std::int64_t data = pick({1, 2, 3, 4});
    const std::int64_t context = tensor * pipeline * data <= 16 ? pick({1, 1, 2, 4}) : 1;
    const bool exchanges = 4 % (tensor * context) == 0 && pick({0, 1, 2}) == 0;  // heads
    const std::string algorithm = exchanges ? "all_to_all" : word({"ring", "all_gather"});
    const bool any_kernel = context == 1 || exchanges;
    const bool chunked = pipeline > 1 && pick({0, 1, 2}) == 0;
    const std::int64_t chunks = chunked ? pick({2, 3}) : 1;
    const std::int64_t zero = pick({0, 1, 2, 3});
    const std::vector<std::int64_t> groups = plan::divisors(data * context, data * context);
    const std::int64_t zero_group = zero > 0 ? pick(groups) : data * context;
    const std::int64_t micro_batches = chunked ? pipeline * pick({1, 2}) : pick({1, 2, 3, 5});
    const bool sharded = tensor > 1 && pick({0, 1}) == 1;
    std::string precision = word({"fp32", "bf16", "fp16", "fp8"});
    // Eight-bit products have sizes of multiples of 16.
    if (32 / context / (sharded ? tensor : 1) % 16 != 0 && precision == "fp8") precision = "bf16";
    const std::string clip = word({"0", "1"});
    const std::string dropout = word({"0", "0.1"});
    const bool adds_residuals = tensor == 1 && dropout == "0" && precision != "fp8";
    const bool judged = pipeline > 1 && (clip == "1" || precision == "fp16");
    const std::int64_t devices_per_node = pick({1, 2, 3, 4, 6, 8});
    Sets sets = joined(world(tensor * pipeline * data * context, devices_per_node),
                       random_network(devices_per_node));
    if (precision == "fp8") {
        const std::string recipe = word({"delayed", "tensorwise", "rowwise"});
        sets =
            joined(sets, {"cluster.device=h100-sxm", "cluster.profile=profiles/h100-sxm.json",
                          "training.fp8_recipe=" + recipe,
                          "training.fp8_transposes=" + word({"false", "true"}),
                          "training.fp8_stash=" +
                              (recipe == "delayed" ? std::string("fp8") : word({"fp8", "bf16"}))});
        const bool once = (zero < 3 || zero_group == 1) && word({"step", "use"}) == "step";
        sets.push_back(std::string("training.fp8_weights=") + (once ? "step" : "use"));
        if (once && recipe != "rowwise" && !judged)
            sets.push_back("training.fp8_param_gather=" + word({"false", "true"}));
    }
    return joined(
        sets, {set("layout.tensor_parallel", tensor),
               set("layout.pipeline_parallel", pipeline),
               set("layout.data_parallel", data),
               set("layout.context_parallel", context),
               "layout.context_algorithm=" + algorithm,
               set("layout.virtual_pipeline", chunks),
               set("model.n_layer", pipeline * chunks),
               set("layout.global_batch_size", micro_batches * data),
               set("layout.zero_stage", zero),
               zero_group == data * context ? "layout.zero_group_size=all"
                                            : set("layout.zero_group_size", zero_group),
               "layout.reshard_after_forward=" + (zero == 3 ? word({"false", "true"}) : "true"),
               set("training.zero_prefetch", pick({0, 1, 2})),
               "layout.schedule=" + (chunks == 2 ? word({"interleaved", "zb-v", "v-half"})
                                     : chunked   ? "interleaved"
                                                 : word({"1f1b", "gpipe", "zb-h1", "zb-2p"})),
               "layout.recompute=" + word({"none", "selective", "selective_op", "full", "every_k"}),
               std::string("layout.sequence_parallel=") + (sharded ? "true" : "false"),
               "model.tie_word_embeddings=" + word({"false", "true"}),
               "training.optimizer.clip_norm=" + clip,
               "training.precision=" + precision,
               "layout.optimizer_post_validation=" + (judged ? word({"false", "true"}) : "false"),
               "training.dropout=" + dropout,
               "training.dropout_masks=" + word({"stored", "recomputed"}),
               "training.logits_dtype=" + word({"same", "fp32"}),
               "training.loss_logits=" + word({"in_place", "copied", "gathered"}),
               "training.norm_kernel=" + word({"fused", "composed", "fused_add"}),
               "training.residual_kernel=" +
                   (adds_residuals ? word({"own", "epilogue"}) : std::string("own")),
               "training.activation_kernel=" +
                   (precision == "fp8" ? std::string("own") : word({"own", "epilogue"})),
               "training.bias_gradient_kernel=" +
                   (precision == "fp8" ? std::string("own") : word({"own", "epilogue"})),
               "training.attention_kernel=" + (any_kernel ? word({"flash", "unfused"}) : "flash"),
               "training.scatter_gather_transfers=" + word({"false", "true"}),
               "training.recompute_stops_early=" + word({"false", "true"}),
               "training.gathered_inputs=" + word({"again", "kept"}),
               "training.overlap_gradient_reduce=" + word({"false", "true"}),
               "training.overlap_parameter_gather=" + word({"false", "true"}),
               "training.overlap_pipeline_transfers=" + word({"always", "never"}),
               "training.transfer_streams=" + word({"one", "per_peer"}),
               "training.defer_embedding_gradient=" + word({"false", "true"}),
               "training.overlap_tensor_backward=" + word({"false", "true"}),
               "training.gradient_bucket_mb=" + word({"0.01", "100"}),
               "training.launch_us=" + word({"0", "5", "50"}),
               "training.backward_launch_factor=" + word({"1", "0.5"}),
               "training.collective_launch_factor=" + word({"1", "0.2"}),
               "training.transfer_launch_factor=" + word({"1", "20"}),
               "training.column_cast_factor=" + word({"1", "3"}),
               "cluster.slow_devices=" + word({"[]", "[]", R"([{"device": 0, "factor": 1.5}])"})});
}

}  // namespace orrery::sim
