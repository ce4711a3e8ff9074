// Experts that take up to their capacity: what is dropped is the same in every layout, and so is
// what is trained.
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

const Sets kTight = {"training.precision=fp64", "training.routing.capacity_factor=0.8",
                     "training.routing.balance_loss=0.1"};

Sets of_layout(const NamedLayout& layout, Sets sets) {
    sets.insert(sets.end(), layout.sets.begin(), layout.sets.end());
    return sets;
}

struct Case {
    NamedLayout layout;
    bool by_position = false;

    Sets routing() const {
        Sets sets = kTight;
        if (by_position) sets.emplace_back("training.routing.drop_policy=position");
        return sets;
    }
};

void PrintTo(const Case& c, std::ostream* os) {
    *os << c.layout.name;
}

class ExpertCapacity : public testing::TestWithParam<Case> {};

TEST_P(ExpertCapacity, DropsAndTrainsWhatOneRankDoes) {
    static std::map<bool, Trained> runs;
    const Case& c = GetParam();
    if (runs.count(c.by_position) == 0)
        runs[c.by_position] = train(scenario(kMixtral, c.routing()), {});
    const Trained& alone = runs.at(c.by_position);
    const Trained run = train(scenario(kMixtral, of_layout(c.layout, c.routing())), {});
    expect_same_training(run, alone, kFp64);
    EXPECT_EQ(run.dropped_rows, alone.dropped_rows);
    for (const std::int64_t dropped : alone.dropped_rows)
        EXPECT_GT(dropped, 0);
}

std::vector<Case> cases() {
    std::vector<Case> all;
    bool by_position = false;
    std::size_t turn = 0;
    for (const NamedLayout& layout : expert_layouts())
        if (turn++ % 2 == 0) all.push_back({layout, by_position = !by_position});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, ExpertCapacity, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.layout.name; });

// Of each sequence an expert takes ⌈2·16/8 · 0.5⌉ = 2 of the rows that chose it.
TEST(ExpertCapacityCounts, AreWhatExpertsHaveNoRoomFor) {
    RunOptions one;
    one.steps = 1;
    const Trained run =
        train(scenario(kMixtral, {"training.precision=fp64", "layout.global_batch_size=1",
                                  "training.routing.capacity_factor=0.5"}),
              one);
    ASSERT_EQ(run.dropped_rows.size(), run.expert_counts.size());
    for (std::size_t layer = 0; layer < run.dropped_rows.size(); ++layer) {
        std::int64_t over = 0;
        for (const std::int64_t count : run.expert_counts[layer])
            over += std::max<std::int64_t>(0, count - 2);
        EXPECT_EQ(run.dropped_rows[layer], over);
    }
}

// Capacity for every row is none.
TEST(ExpertCapacityBitwise, EnoughForAllDropsNothing) {
    const Sets where = layout("", {"data_parallel=2", "expert_parallel=2"}).sets;
    Sets roomy = where;
    roomy.emplace_back("training.routing.capacity_factor=4");  // 16 rows, all of a sequence's
    const Trained run = train(scenario(kMixtral, roomy), {}),
                  all = train(scenario(kMixtral, where), {});
    EXPECT_EQ(run.losses, all.losses);
    EXPECT_EQ(run.parameters, all.parameters);
    EXPECT_EQ(run.dropped_rows, std::vector<std::int64_t>(4, 0));
}

// What a rank has of a micro-batch is the same wherever experts are, with as many tensor and
// context ranks; as rows that fill up are zeros, they change nothing.
TEST(ExpertCapacityOfARank, IsTheSameWhereverExpertsAre) {
    for (const std::vector<std::string>& cut :
         std::vector<std::vector<std::string>>{{},
                                               {"micro_batch_size=2"},
                                               {"tensor_parallel=2", "sequence_parallel=true"},
                                               {"context_parallel=2"}}) {
        Sets sets = kTight;
        sets.emplace_back("training.routing.capacity_of=rank");
        const auto trained = [&](std::vector<std::string> keys, bool pads) {
            keys.insert(keys.end(), cut.begin(), cut.end());
            Sets all = of_layout(layout("", keys), sets);
            if (pads) all.emplace_back("training.routing.pad_to_capacity=true");
            return train(scenario(kMixtral, all), {});
        };
        const Trained alone = trained({}, false);
        EXPECT_GT(
            std::accumulate(alone.dropped_rows.begin(), alone.dropped_rows.end(), std::int64_t{0}),
            0);
        for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
                 {"data_parallel=2", "expert_parallel=2"},
                 {"data_parallel=2", "expert_parallel=2", "pipeline_parallel=2"},
                 {"data_parallel=4", "expert_parallel=2", "expert_tensor_parallel=2"},
                 {"data_parallel=4", "expert_parallel=2", "zero_stage=2"}})
            for (const bool pads : {false, true}) {
                const Trained run = trained(keys, pads);
                expect_same_training(run, alone, kFp64);
                EXPECT_EQ(run.dropped_rows, alone.dropped_rows);
            }
        expect_same_training(trained({}, true), alone, kFp64);
    }
}

// With the same tokens on a rank, however rows go out.
TEST(ExpertCapacityBitwise, DroppedRowsAndFirstLossDoNotDependOnDispatcherOrLayout) {
    const auto first = [](std::vector<std::string> keys) {
        RunOptions one;
        one.steps = 1;
        return train(scenario(kMixtral, of_layout(layout("", keys),
                                                  {"training.routing.capacity_factor=0.8"})),
                     one);
    };
    const Trained two = first({"data_parallel=4"});
    for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
             {"expert_parallel=2"},
             {"expert_parallel=4"},
             {"expert_parallel=4", "expert_dispatcher=deduplicated"},
             {"expert_parallel=4", "expert_dispatcher=allgather"},
             {"expert_parallel=2", "pipeline_parallel=2"},
             {"expert_parallel=2", "zero_stage=1"}}) {
        std::vector<std::string> all = keys;
        all.emplace_back("data_parallel=4");
        const Trained run = first(all);
        EXPECT_EQ(run.losses, two.losses);
        EXPECT_EQ(run.expert_counts, two.expert_counts);
        EXPECT_EQ(run.dropped_rows, two.dropped_rows);
    }
}

// The same where a micro-batch is one sequence.
TEST(BalanceOfMicroBatches, IsThatOfTheirSequenceWhereTheyHaveOne) {
    const Sets sequence = {"training.routing.balance_loss=0.1"};
    Sets batch = sequence;
    batch.emplace_back("training.routing.balance_of=micro_batch");
    EXPECT_EQ(train(scenario(kMixtral, batch), {}).parameters,
              train(scenario(kMixtral, sequence), {}).parameters);
}

// Of two sequences: another loss than of each, and the same on all ranks that share them out.
TEST(BalanceOfMicroBatches, IsTheSameInEveryLayoutOfTheMicroBatch) {
    Sets sets = {"training.precision=fp64", "training.routing.balance_loss=1"};
    const auto trained = [&](std::vector<std::string> keys) {
        keys.emplace_back("micro_batch_size=2");
        return train(scenario(kMixtral, of_layout(layout("", keys), sets)), {});
    };
    const Trained of_sequences = trained({});
    sets.emplace_back("training.routing.balance_of=micro_batch");
    const Trained alone = trained({});
    EXPECT_GT(difference(alone.gradients, of_sequences.gradients).relative, 1e-6);
    for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
             {"data_parallel=2", "expert_parallel=2"},
             {"tensor_parallel=2", "sequence_parallel=true", "expert_parallel=2"},
             {"tensor_parallel=4", "sequence_parallel=true"},
             {"context_parallel=2", "data_parallel=2", "expert_parallel=4"},
             {"pipeline_parallel=2", "data_parallel=2", "zero_stage=1"}})
        expect_same_training(trained(keys), alone, kFp64);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
