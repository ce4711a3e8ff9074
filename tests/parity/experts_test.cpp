// Mixtures of experts: every layout trains the model of one rank, and what is promised to the last
// bit is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "runtime/executor/expert_room.hpp"
#include "runtime/train/model_state.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"
#include "tests/runtime/checkpoint/faulty_files.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

struct Case {
    std::string precision;
    bool shared = false;
    bool sigmoid = false;
    NamedLayout layout;
    bool balanced = false;
};

void PrintTo(const Case& c, std::ostream* os) {
    *os << c.precision << " " << c.layout.name;
}

// Scores by themselves, and what every token goes through beside its experts.
plan::Scenario scenario_of(const Case& c) {
    Sets sets = c.layout.sets;
    sets.push_back("training.precision=" + c.precision);
    if (c.balanced) sets.emplace_back("training.routing.balance_loss=0.1");
    plan::Scenario made = scenario(kMixtral, sets);
    for (plan::LayerSpec& kind : made.model.kinds) {
        auto& experts = std::get<plan::ExpertMlp>(kind.mlp);
        if (c.shared) experts.shared_ffn = 48;
        experts.shared_gate = c.shared && c.balanced;
        if (!c.sigmoid) continue;
        experts.routing.score = plan::RouterScore::sigmoid;
        experts.routing.factor = 2.5;
    }
    return made;
}

// In fp32 a token whose experts are a rounding apart goes to another one in another layout, after
// which losses are 1e-5 apart: such are rare in few steps.
RunOptions steps_of(const Case& c) {
    RunOptions options;
    if (c.precision == "fp32") options.steps = std::min<std::int64_t>(8, usual_steps());
    return options;
}

Trained train_case(const Case& c, const RunOptions& options) {
    return train(scenario_of(c), options);
}

const Trained& alone(const Case& c) {
    static std::map<std::string, Trained> runs;
    const std::string key = c.precision + (c.shared ? " shared" : "") +
                            (c.sigmoid ? " sigmoid" : "") + (c.balanced ? " balanced" : "");
    const auto found = runs.find(key);
    if (found != runs.end()) return found->second;
    Case one = c;
    one.layout = {};
    return runs[key] = train_case(one, steps_of(c));
}

class ExpertLayouts : public testing::TestWithParam<Case> {};

TEST_P(ExpertLayouts, TrainTheModelOfOneRank) {
    const Case& c = GetParam();
    const Trained& reference = alone(c);
    const Trained run = train_case(c, steps_of(c));
    expect_same_training(run, reference, c.precision == "fp64" ? kFp64 : kFp32);
}

// Of every token of the batch two experts are chosen, in each layer; and not all alike often.
TEST(ExpertCounts, AreOfAllTokensOfTheStep) {
    RunOptions one;
    one.steps = 1;
    const plan::Scenario tested = scenario(
        kMixtral, layout("", {"data_parallel=2", "expert_parallel=2", "recompute=full"}).sets);
    const Trained run = train(tested, one);
    ASSERT_EQ(run.expert_counts.size(), 4U);
    const std::int64_t tokens = tested.layout.global_batch_size * tested.training.sequence_length;
    for (const std::vector<std::int64_t>& of_layer : run.expert_counts) {
        ASSERT_EQ(of_layer.size(), 8U);
        EXPECT_EQ(std::accumulate(of_layer.begin(), of_layer.end(), std::int64_t{0}), 2 * tokens);
        EXPECT_NE(of_layer, std::vector<std::int64_t>(8, 2 * tokens / 8));
    }
    EXPECT_TRUE(train(scenario(kLlama, {}), one).expert_counts.empty());
}

// Every layout in one precision, which take turns, as do the ways to route.
std::vector<Case> cases() {
    std::vector<Case> all;
    std::size_t turn = 0;
    for (const NamedLayout& layout : expert_layouts()) {
        all.push_back(
            {turn % 2 == 0 ? "fp64" : "fp32", turn % 3 == 1, turn % 5 == 2, layout, turn % 4 >= 2});
        ++turn;
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, ExpertLayouts, testing::ValuesIn(cases()), [](const auto& tested) {
    return tested.param.precision + "_" + tested.param.layout.name;
});

// In a row: who has experts, how many have shares of the same ones.
NamedLayout spread(std::vector<std::string> keys, int ranks, int split = 1) {
    keys.push_back("expert_parallel=" + std::to_string(ranks));
    keys.push_back("expert_tensor_parallel=" + std::to_string(split));
    return layout("", keys);
}

double first_loss(const NamedLayout& where) {
    RunOptions one;
    one.steps = 1;
    return train_case({"fp32", true, false, where}, one).losses[0];
}

// A token's row is multiplied as if it were alone, so it does not matter where, nor with whom. The
// loss of a batch is summed over ranks before micro-batches, which one order of data ranks has in
// common.
TEST(ExpertsBitwise, FirstLossDoesNotDependOnWhereExpertsAre) {
    const double two = first_loss(spread({"data_parallel=2"}, 1));
    EXPECT_EQ(first_loss(spread({"data_parallel=2"}, 2)), two);
    EXPECT_EQ(first_loss(spread({"data_parallel=2", "pipeline_parallel=2"}, 2)), two);
    EXPECT_EQ(first_loss(spread({"data_parallel=2", "zero_stage=3"}, 2)), two);
    const double four = first_loss(spread({"data_parallel=4"}, 1));
    EXPECT_EQ(first_loss(spread({"data_parallel=4"}, 2)), four);
    EXPECT_EQ(first_loss(spread({"data_parallel=4"}, 4)), four);
    EXPECT_EQ(first_loss(spread({"data_parallel=4", "zero_stage=1"}, 2)), four);
    const double tensor =
        first_loss(spread({"data_parallel=2", "tensor_parallel=2", "sequence_parallel=true"}, 1));
    for (const int ranks : {2, 4})
        EXPECT_EQ(first_loss(spread(
                      {"data_parallel=2", "tensor_parallel=2", "sequence_parallel=true"}, ranks)),
                  tensor);
}

TEST(ExpertsBitwise, ShardsOfOptimizerStatesDoNotChangeTheModel) {
    const Case whole{"fp32", false, false, spread({"data_parallel=4"}, 2)};
    Case sharded = whole;
    sharded.layout.sets.push_back("layout.zero_stage=1");
    expect_same_bits(train_case(sharded, {}), train_case(whole, {}));
}

TEST(ExpertsBitwise, PipelinesComputeWhatOneStageDoes) {
    const Case one{"fp32", true, false, spread({"data_parallel=2"}, 2)};
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
        Case stages = one;
        stages.layout.sets.insert(
            stages.layout.sets.end(),
            {"layout.pipeline_parallel=2", std::string("layout.schedule=") + schedule});
        expect_same_bits(train_case(stages, {}), train_case(one, {}));
    }
}

// Sums of two have one order, be they made where the experts are or where the token is.
TEST(ExpertsBitwise, CopiesToRanksTrainWhatARowForEachExpertDoes) {
    for (const char* precision : {"fp32", "bf16"})
        for (const NamedLayout& where :
             {spread({"data_parallel=4"}, 4), spread({"data_parallel=4"}, 2),
              spread({"data_parallel=2", "tensor_parallel=2", "sequence_parallel=true"}, 2)}) {
            const Case rows{precision, true, false, where};
            Case copies = rows;
            copies.layout.sets.emplace_back("layout.expert_dispatcher=deduplicated");
            const Trained sent = train_case(copies, {});
            expect_same_bits(sent, train_case(rows, {}));
            EXPECT_EQ(sent.expert_counts, train_case(rows, {}).expert_counts);
        }
}

// Of more than two, what a rank has is summed before what ranks have.
TEST(Experts, OfManyChosenTrainTheSameModelHoweverRowsGoOut) {
    for (const NamedLayout& where :
         {spread({"data_parallel=4"}, 2), spread({"data_parallel=4"}, 2, 2)}) {
        Sets sets = where.sets;
        sets.insert(sets.end(), {"model.num_experts_per_tok=5", "training.precision=fp64"});
        const Trained rows = train(scenario(kMixtral, sets), {});
        for (const char* dispatcher : {"deduplicated", "allgather"}) {
            Sets other = sets;
            other.push_back(std::string("layout.expert_dispatcher=") + dispatcher);
            expect_same_training(train(scenario(kMixtral, other), {}), rows, kFp64);
        }
    }
}

// One expert that every token goes to, with weight 1.
TEST(ExpertsBitwise, OneExpertIsTheDenseModel) {
    const Sets one_expert = {"model.num_local_experts=1", "model.num_experts_per_tok=1"};
    for (const char* precision : {"fp32", "bf16"})
        for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
                 {}, {"data_parallel=2"}, {"pipeline_parallel=2"}}) {
            Sets where = layout("", keys).sets;
            where.insert(where.end(), {"model.intermediate_size=96", "model.rope_theta=10000",
                                       "model.rms_norm_eps=1e-6",
                                       std::string("training.precision=") + precision});
            Sets of_experts = where;
            of_experts.insert(of_experts.end(), one_expert.begin(), one_expert.end());
            // By the names of the dense model.
            const runtime::FirstWeights random = runtime::random_weights(1234, 0.02, 4);
            RunOptions options;
            options.first_weights = [&](const plan::Parameter& parameter, const std::string& name,
                                        std::int64_t element) {
                std::string dense = name;
                if (const std::size_t at = dense.find("experts."); at != std::string::npos)
                    dense.erase(at, 8);
                double value = 0;
                random(parameter, dense, element, {&value, 1});
                return value;
            };
            const Trained experts = train(scenario(kMixtral, of_experts), options);
            const Trained dense = train(scenario(kLlama, where), options);
            EXPECT_EQ(experts.losses, dense.losses);
            EXPECT_EQ(experts.norms, dense.norms);
            for (const auto& [name, values] : dense.parameters) {
                std::string there = name;
                if (const std::size_t at = name.find("/fc"); at != std::string::npos)
                    there.insert(at + 1, "experts.");
                EXPECT_EQ(experts.parameters.at(there), values) << name;
            }
        }
}

// Every rank of a run ends, those with room, too, and says why.
TEST(ExpertRoom, EndsTheRunWhenMoreRowsComeThanThereIsRoomFor) {
    for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
             {"data_parallel=2"},
             {"data_parallel=2", "pipeline_parallel=2"},
             {"data_parallel=2", "expert_dispatcher=deduplicated"}}) {
        Sets sets = spread(keys, 2).sets;
        sets.push_back("layout.expert_row_bound=1");
        const plan::Scenario tight = scenario(kMixtral, sets);
        RunOptions one;
        one.steps = 2;
        try {
            train(tight, one);
            ADD_FAILURE() << "rows of two ranks came to be as many on each, in all layers";
        } catch (const runtime::ExpertRoomError& error) {
            EXPECT_NE(std::string(error.what()).find("layout.expert_row_bound="), std::string::npos)
                << error.what();
        }
    }
}

// What comes to experts of what a checkpoint of another layout holds.
TEST(ExpertCheckpoints, OfOneLayoutAreThoseOfAnother) {
    const std::string path = testing::TempDir() + "experts-resharded";
    runtime::UnsynchronisedFiles files;
    RunOptions options;
    options.steps = 2;
    options.checkpoint.emplace();
    options.checkpoint->path = path;
    options.checkpoint->every_steps = 2;
    options.checkpoint->files = &files;
    const std::vector<NamedLayout> layouts = {
        spread({}, 1), spread({"data_parallel=4"}, 4),
        spread({"data_parallel=4", "zero_stage=1"}, 2, 2),
        spread({"data_parallel=4", "zero_stage=3"}, 2),
        spread({"tensor_parallel=2", "sequence_parallel=true", "pipeline_parallel=2"}, 2)};
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        std::filesystem::remove_all(path);
        const Trained saved = train_case({"fp64", true, false, layouts[i]}, options);
        const NamedLayout& other = layouts[(i + 1) % layouts.size()];
        RunOptions resumed = options;
        resumed.checkpoint->resume = true;
        resumed.steps = 4;
        const Trained rest = train_case({"fp64", true, false, other}, resumed);
        std::filesystem::remove_all(path);
        resumed.checkpoint->resume = false;
        const Trained whole = train_case({"fp64", true, false, layouts[i]}, resumed);
        ASSERT_EQ(rest.losses.size(), 2U);
        for (std::size_t step = 0; step < 2; ++step)
            EXPECT_LE(std::abs(rest.losses[step] / whole.losses[step + 2] - 1), 1e-13);
        EXPECT_LE(difference(rest.parameters, whole.parameters).relative, 1e-10);
        EXPECT_LE(difference(rest.moments, whole.moments).relative, 1e-10);
        std::filesystem::remove_all(path);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
