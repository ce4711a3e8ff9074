// Layouts that nobody thought of: keys are drawn at random, and those that a rule refuses beside
// others are left out.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plan/scenario/reader.hpp"
#include "tests/parity/layouts.hpp"

namespace orrery::parity {

struct Choice {
    const char* key;
    int one_in;  // how often it is given
    std::vector<std::string> values;
};

// What changes who computes what, where it lies and when, and not what is computed.
inline const std::vector<Choice>& choices() {
    static const std::vector<std::string> both = {"false", "true"};
    static const std::vector<std::string> below = {R"("host")", R"("disk")"};
    static const std::vector<Choice> all = {
        {"layout.virtual_pipeline", 2, {"2"}},
        {"layout.schedule",
         1,
         {"1f1b", "gpipe", "zb-h1", "zb-2p", "interleaved", "zb-v", "v-half", "dualpipe-v"}},
        {"layout.layers_per_stage", 5, {"[1,3]", "[0,4]", "[4,0]", "[0,2,2,0]", "[1,2,1,0]"}},
        {"layout.context_algorithm", 2, {"ring", "all_gather", "all_to_all"}},
        {"layout.recompute",
         2,
         {"selective", "selective_op", "selective_layer", "full", "every_k"}},
        {"layout.recompute_every", 4, {"1", "2"}},
        {"layout.recompute_modules",
         4,
         {R"(["core_attn"])", R"(["mlp"])", R"(["moe"])", R"(["moe_act"])", R"(["layernorm"])",
          R"(["mla_up_proj"])"}},
        {"layout.zero_stage", 1, {"0", "1", "2", "3"}},
        {"layout.zero_group_size", 6, {"1", "2", "4"}},
        {"layout.reshard_after_forward", 4, both},
        {"layout.offload.optimizer", 5, below},
        {"layout.offload.gradients", 5, below},
        {"layout.offload.parameters", 5, below},
        {"layout.offload.activations", 5, below},
        {"layout.offload.prefetch", 4, {"0", "2", "3"}},
        {"layout.vocabulary_parallel", 6, {"interlaced", "vocab-1", "vocab-2"}},
        {"layout.optimizer_post_validation", 6, both},
        {"layout.expert_parallel", 1, {"1", "2", "4", "8"}},
        {"layout.expert_tensor_parallel", 4, {"2"}},
        {"layout.expert_dispatcher", 2, {"alltoall", "deduplicated", "allgather"}},
        {"layout.overlap_expert_communication", 4, both},
        {"training.lora", 5, {R"({"rank": 2, "target_modules": ["linear_qkv", "linear_proj"]})"}},
        {"training.tensor_overlap_parts", 6, {"2"}},
        {"training.gathered_inputs", 3, {"again", "kept"}},
        {"training.loss_chunks", 6, {"2"}},
        {"training.loss_logits", 5, {"copied", "fused"}},
        {"training.attention_kernel", 6, {"unfused"}},
        {"training.deterministic", 6, {"false"}},
        {"training.norm_kernel", 6, {"composed", "fused_add"}},
        {"training.overlap_gradient_reduce", 4, both},
        {"training.overlap_parameter_gather", 4, both},
        {"training.overlap_tensor_backward", 4, both},
        {"training.zero_prefetch", 4, {"0", "2"}},
        {"training.gradient_bucket_mb", 4, {"0.001", "0.02"}},
        {"training.defer_embedding_gradient", 6, both},
        {"training.scatter_gather_transfers", 6, both},
        {"training.recompute_stops_early", 6, both},
        {"training.activation_kernel", 4, {"epilogue"}},
        {"training.residual_kernel", 4, {"epilogue"}},
        {"training.bias_gradient_kernel", 4, {"epilogue"}},
    };
    return all;
}

class Draw {
  public:
    explicit Draw(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t count) {
        return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
    }

    // Of eight ranks at most.
    Sets degrees(bool experts) {
        std::array<std::size_t, 4> ranks = {1u << below(3), 1u << below(3), 1u << below(2),
                                            1u << below(3)};
        while (ranks[0] * ranks[1] * ranks[2] * ranks[3] > 8) {
            std::size_t& one = ranks[below(4)];
            one = std::max<std::size_t>(1, one / 2);
        }
        Sets sets = {fmt::format("layout.tensor_parallel={}", ranks[0]),
                     fmt::format("layout.pipeline_parallel={}", ranks[1]),
                     fmt::format("layout.context_parallel={}", ranks[2]),
                     fmt::format("layout.data_parallel={}", ranks[3])};
        if (ranks[0] > 1 && (experts || below(3) > 0))
            sets.emplace_back("layout.sequence_parallel=true");
        return sets;
    }

    Sets others() {
        Sets sets;
        for (const Choice& choice : choices())
            if (below(static_cast<std::size_t>(choice.one_in)) == 0)
                sets.push_back(
                    fmt::format("{}={}", choice.key, choice.values[below(choice.values.size())]));
        return sets;
    }

  private:
    std::mt19937_64 random_;
};

inline std::string pointer_of(const std::string& set) {
    std::string pointer = '/' + set.substr(0, set.find('='));
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    return pointer;
}

// Leaves out what is refused; nothing where the degrees are.
inline std::optional<Sets> accepted(const char* text, const Sets& model, const Sets& fixed,
                                    Sets drawn) {
    for (;;) {
        Sets all = model;
        all.insert(all.end(), fixed.begin(), fixed.end());
        all.insert(all.end(), drawn.begin(), drawn.end());
        const plan::ReadResult read = plan::read_scenario_text(
            text, "random.json", "", all, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
        if (read.scenario) return all;
        const auto left = std::erase_if(drawn, [&](const std::string& set) {
            const std::string own = pointer_of(set);
            return std::any_of(read.errors.begin(), read.errors.end(), [&](const auto& error) {
                return own.starts_with(error.pointer) || error.pointer.starts_with(own);
            });
        });
        if (left > 0) continue;
        if (drawn.empty()) return std::nullopt;
        drawn.pop_back();  // the fault is of a default beside one of them
    }
}

}  // namespace orrery::parity
