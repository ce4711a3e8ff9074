// Layouts that nobody thought of: keys are drawn at random, those that a rule refuses beside others
// are left out, and what remains trains the model of one rank, in the memory that the plan says:
// with memory that changes hands full of NaN, and ops late by chance.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include "plan/scenario/reader.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

struct Family {
    const char* name;
    const char* text;
    Sets model;
    bool experts = false;
};
void PrintTo(const Family& family, std::ostream* os) {
    *os << family.name;
}

std::vector<Family> families() {
    Sets further = deepseek_model();
    further.emplace_back("model.num_nextn_predict_layers=1");
    return {{"gpt", kGpt, {}},
            {"llama", kLlama, {}},
            {"mixtral", kMixtral, {}, true},
            {"gpt_oss", kMixtral, gpt_oss_model(), true},
            {"biased_router", kMixtral, biased_router_model(), true},
            {"deepseek_v3", kMixtral, further, true}};
}

struct Choice {
    const char* key;
    int one_in;  // how often it is given
    std::vector<std::string> values;
};

// What changes who computes what, where it lies and when, and not what is computed.
const std::vector<Choice>& choices() {
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
        {"layout.vocabulary_parallel", 6, {"interlaced", "vocab-1"}},
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
        {"training.norm_kernel", 6, {"composed", "fused_add"}},
        {"training.overlap_gradient_reduce", 4, both},
        {"training.overlap_parameter_gather", 4, both},
        {"training.overlap_tensor_backward", 4, both},
        {"training.zero_prefetch", 4, {"0", "2"}},
        {"training.gradient_bucket_mb", 4, {"0.001", "0.02"}},
        {"training.defer_embedding_gradient", 6, both},
        {"training.scatter_gather_transfers", 6, both},
        {"training.recompute_stops_early", 6, both},
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

std::string pointer_of(const std::string& set) {
    std::string pointer = '/' + set.substr(0, set.find('='));
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    return pointer;
}

// Leaves out what is refused; nothing where the degrees are.
std::optional<Sets> accepted(const Family& family, const Sets& fixed, Sets drawn) {
    for (;;) {
        Sets all = family.model;
        all.insert(all.end(), fixed.begin(), fixed.end());
        all.insert(all.end(), drawn.begin(), drawn.end());
        const plan::ReadResult read = plan::read_scenario_text(
            family.text, "random.json", "", all, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
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

class RandomLayouts : public testing::TestWithParam<Family> {};

TEST_P(RandomLayouts, TrainTheModelOfOneRank) {
    const Family& family = GetParam();
    const std::size_t draws = sanitized()                                  ? 4
                              : std::getenv("ORRERY_EVERY_RUN") != nullptr ? 400
                                                                           : 24;
    RunOptions two;
    two.steps = 2;
    const Sets always = {
        "training.precision=fp64",
        R"(cluster.host_memory={"capacity_GB": 1, "bandwidth_GBps": 10, "latency_us": 1})",
        R"(cluster.storage={"capacity_GB": 1, "read_GBps": 1, "write_GBps": 1, "latency_us": 10})"};
    std::map<bool, Trained> alone;  // by whether it is adapters that are trained
    std::size_t trained = 0;
    for (std::size_t seed = 1; seed <= draws; ++seed) {
        Draw draw(seed);
        Sets fixed = always;
        for (const std::string& degree : draw.degrees(family.experts))
            fixed.push_back(degree);
        const std::optional<Sets> sets = accepted(family, fixed, draw.others());
        if (!sets) continue;
        SCOPED_TRACE(fmt::format("{}", fmt::join(*sets, " ")));
        const plan::Scenario asked = scenario(family.text, *sets);
        const bool adapters = asked.training.lora.on();
        if (alone.count(adapters) == 0) {
            Sets one = family.model;
            one.insert(one.end(), always.begin(), always.end());
            for (const std::string& set : *sets)
                if (set.starts_with("training.lora")) one.push_back(set);
            alone[adapters] = train(scenario(family.text, one), two);
        }
        const Trained& expected = alone[adapters];
        RunOptions delayed = two;
        delayed.cpu.poison = true;
        delayed.cpu.delay_seed = seed;
        const Trained run = train(asked, delayed);
        ++trained;
        ASSERT_EQ(run.losses.size(), expected.losses.size());
        for (std::size_t step = 0; step < run.losses.size(); ++step)
            EXPECT_NEAR(run.losses[step], expected.losses[step], 1e-12 * expected.losses[step]);
        const Difference worst = difference(run.gradients, expected.gradients);
        EXPECT_LE(worst.relative, kFp64.gradient) << worst.name;
        EXPECT_EQ(run.gradients.size(), expected.gradients.size());
        EXPECT_EQ(run.disagreement, "");
        for (const runtime::RankMemory& memory : run.result.memory)
            EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
    }
    EXPECT_GE(2 * trained, draws) << "most draws are refused";
}

INSTANTIATE_TEST_SUITE_P(Families, RandomLayouts, testing::ValuesIn(families()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
