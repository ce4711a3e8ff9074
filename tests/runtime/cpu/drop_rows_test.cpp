// Which choices experts have capacity for, by definition: of a sequence's tokens wherever they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kSamples = 2, kSequence = 24, kChosen = 3, kExperts = 5;

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

// A token of a sequence, and its choices.
struct Token {
    std::int64_t sample = 0, position = 0;
};
std::int64_t number_of(const Token& token) {
    return token.sample * kSequence + token.position;
}

// All choices of the micro-batch, [sample, position, choice]; weights of few values, so that many
// are alike.
struct Choices {
    std::vector<std::int32_t> experts;
    Values weights;
};
Choices some_choices(std::uint32_t seed) {
    std::mt19937 random(seed);
    Choices made;
    for (std::int64_t token = 0; token < kSamples * kSequence; ++token) {
        std::vector<std::int32_t> of(at(kExperts));
        for (std::int64_t i = 0; i < kExperts; ++i)
            of[at(i)] = static_cast<std::int32_t>(i);
        std::shuffle(of.begin(), of.end(), random);
        std::sort(of.begin(), of.begin() + kChosen);
        made.experts.insert(made.experts.end(), of.begin(), of.begin() + kChosen);
        for (std::int64_t i = 0; i < kChosen; ++i)
            made.weights.push_back(static_cast<double>(random() % 4) / 4);
    }
    return made;
}

struct Ranks {
    std::int64_t context = 1, tensor = 1;
    bool zigzag = false;

    std::int64_t rows() const { return kSamples * kSequence / (context * tensor); }
    // Of a context rank, in its order: of each sample one part of the sequence, or two.
    std::vector<Token> held(std::int64_t rank) const {
        std::vector<std::int64_t> parts = {rank};
        if (zigzag) parts.push_back(2 * context - 1 - rank);
        const std::int64_t each = kSequence / context / std::ssize(parts);
        std::vector<Token> tokens;
        for (std::int64_t sample = 0; sample < kSamples; ++sample)
            for (const std::int64_t part : parts)
                for (std::int64_t i = 0; i < each; ++i)
                    tokens.push_back({sample, part * each + i});
        return tokens;
    }
};

// Which of all choices stay: of each unit's and expert's the best.
std::vector<bool> kept_of(const Choices& all, const std::function<std::int64_t(Token)>& unit_of,
                          const std::function<std::int64_t(Token)>& place_of, bool by_position,
                          std::int64_t capacity) {
    std::map<std::pair<std::int64_t, std::int32_t>,
             std::vector<std::tuple<double, std::int64_t, std::int64_t>>>
        wanted;
    for (std::int64_t i = 0; i < std::ssize(all.experts); ++i) {
        const Token token{i / kChosen / kSequence, i / kChosen % kSequence};
        const double weight = by_position ? 0 : all.weights[at(i)];
        wanted[{unit_of(token), all.experts[at(i)]}].emplace_back(-weight, place_of(token), i);
    }
    std::vector<bool> kept(all.experts.size());
    for (auto& [of, candidates] : wanted) {
        std::sort(candidates.begin(), candidates.end());
        for (std::int64_t i = 0; i < std::min(capacity, std::ssize(candidates)); ++i)
            kept[at(std::get<2>(candidates[at(i)]))] = true;
    }
    return kept;
}

struct Dropped {
    std::vector<std::int32_t> kept, counts;
    bool operator==(const Dropped&) const = default;
};

// What the kernel makes of a rank's rows when all of a sequence's ranks have been gathered.
Dropped run(const Choices& all, const Ranks& ranks, std::int64_t context_rank,
            std::int64_t tensor_rank, bool by_position, std::int64_t capacity, bool pads) {
    std::vector<std::int32_t> gathered;
    Values weights;
    for (std::int64_t rank = 0; rank < ranks.context; ++rank)
        for (const Token& token : ranks.held(rank))
            for (std::int64_t i = 0; i < kChosen; ++i) {
                gathered.push_back(all.experts[at(number_of(token) * kChosen + i)]);
                weights.push_back(all.weights[at(number_of(token) * kChosen + i)]);
            }
    Team team(2);
    const World world{baseline_kernels(), team, plan::DType::fp32};
    const Tensor weighed = world.in(weights);
    Dropped made{std::vector<std::int32_t>(at(ranks.rows() * kChosen)),
                 std::vector<std::int32_t>(at(kExperts), 77)};
    DropRows op;
    op.rows = ranks.rows();
    op.chosen = kChosen;
    op.experts = kExperts;
    op.capacity = capacity;
    op.units = kSamples;
    op.tensor_ranks = ranks.tensor;
    op.tensor_rank = tensor_rank;
    op.run = kSequence / ranks.context;
    op.part = {ranks.context, context_rank, ranks.zigzag};
    op.by_position = by_position;
    op.pads = pads;
    op.choice = gathered.data();
    op.weights = weighed.buffer();
    op.kept = made.kept.data();
    op.counts = made.counts.data();
    world.table.drop_rows(op, team);
    return made;
}

TEST(DropRows, KeepsOfEachSequenceWhatItsExpertsHaveCapacityFor) {
    for (const Ranks& ranks :
         {Ranks{}, Ranks{1, 2}, Ranks{2, 1}, Ranks{2, 1, true}, Ranks{2, 3, true}, Ranks{3, 2}})
        for (const bool by_position : {false, true})
            for (const std::int64_t capacity : {1, 7, 14, 30}) {
                const Choices all = some_choices(static_cast<std::uint32_t>(capacity));
                const std::vector<bool> kept = kept_of(
                    all, [](Token token) { return token.sample; },
                    [](Token token) { return token.position; }, by_position, capacity);
                std::vector<std::int32_t> sums(at(kExperts));
                for (std::int64_t c = 0; c < ranks.context; ++c)
                    for (std::int64_t t = 0; t < ranks.tensor; ++t) {
                        Dropped expected;
                        expected.counts.resize(at(kExperts));
                        const std::vector<Token> held = ranks.held(c);
                        for (std::int64_t row = 0; row < ranks.rows(); ++row)
                            for (std::int64_t i = 0; i < kChosen; ++i) {
                                const std::int64_t choice =
                                    number_of(held[at(t * ranks.rows() + row)]) * kChosen + i;
                                const std::int32_t expert = all.experts[at(choice)];
                                expected.kept.push_back(kept[at(choice)] ? expert : -1);
                                if (kept[at(choice)]) ++expected.counts[at(expert)];
                            }
                        const Dropped found = run(all, ranks, c, t, by_position, capacity, false);
                        EXPECT_EQ(found, expected);
                        for (std::int64_t i = 0; i < kExperts; ++i)
                            sums[at(i)] += found.counts[at(i)];
                        expected.counts.assign(at(kExperts), static_cast<std::int32_t>(capacity));
                        EXPECT_EQ(run(all, ranks, c, t, by_position, capacity, true), expected);
                    }
                for (const std::int32_t sum : sums)
                    EXPECT_LE(sum, kSamples * capacity);
            }
}

// A weight that is no number comes last, and decides nothing else.
TEST(DropRows, PutsWeightsThatAreNoneLast) {
    Choices all = some_choices(3);
    for (std::size_t i = 0; i < all.weights.size(); i += 5)
        all.weights[i] = std::nan("");
    Choices least = all;
    for (std::size_t i = 0; i < all.weights.size(); i += 5)
        least.weights[i] = -1;
    EXPECT_EQ(run(all, {}, 0, 0, false, 9, false), run(least, {}, 0, 0, false, 9, false));
}

// Rows by expert, each expert's at a multiple of its capacity, zeros behind them.
TEST(Permute, FillsRowsUpToTheCapacity) {
    constexpr std::int64_t kWidth = 3, kCapacity = 3;
    const std::vector<std::int32_t> choice = {0, 2, -1, 2, 0, -1};  // of three tokens
    const Values x = exact_numbers(3 * kWidth, 1), weights = exact_numbers(6, 2);
    Values expected(at(3 * kCapacity * kWidth), 0), expected_weights(at(3 * kCapacity), 0);
    const auto stands = [&](std::int64_t place, std::int64_t of) {
        for (std::int64_t i = 0; i < kWidth; ++i)
            expected[at(place * kWidth + i)] = x[at(of / 2 * kWidth + i)];
        expected_weights[at(place)] = weights[at(of)];
    };
    stands(0, 0);
    stands(1, 4);
    stands(6, 1);
    stands(7, 3);
    const Computation run = [&](const World& world) {
        const Tensor tx = world.in(x), tweights = world.work_in(weights);
        const Tensor y = world.out(expected.size());
        const Tensor permuted = world.work_out(expected_weights.size());
        Permute op{
            3,          kWidth,           2, 3, tx.buffer(), choice.data(), tweights.buffer(),
            y.buffer(), permuted.buffer()};
        op.capacity = kCapacity;
        world.table.permute(op, world.team);
        return std::vector{y, permuted};
    };
    EXPECT_EQ(in_fp64(run), (std::vector{expected, expected_weights}));
    expect_everywhere(run, 0);
}

// Of what comes back a token has its kept rows; a weight that was dropped has no gradient.
TEST(Unpermute, SumsWhatWasKept) {
    constexpr std::int64_t kWidth = 2, kCapacity = 3;
    const std::vector<std::int32_t> choice = {0, 2, -1, 2, -1, -1};
    const Values returned = exact_numbers(3 * kCapacity * kWidth, 4),
                 returned_dweights = exact_numbers(3 * kCapacity, 5);
    Values expected(at(3 * kWidth), 0), dweights(6, 0);
    for (const auto& [slot, place] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {1, 6}, {3, 7}}) {
        for (std::int64_t i = 0; i < kWidth; ++i)
            expected[at(slot / 2 * kWidth + i)] += returned[at(place * kWidth + i)];
        dweights[at(slot)] = returned_dweights[at(place)];
    }
    const Computation run = [&](const World& world) {
        const Tensor from = world.in(returned), dfrom = world.work_in(returned_dweights);
        const Tensor y = world.out(expected.size()), dw = world.work_out(dweights.size());
        Unpermute op{3,
                     kWidth,
                     2,
                     {3, 1, 1, 0, nullptr},
                     from.buffer(),
                     choice.data(),
                     dfrom.buffer(),
                     y.buffer(),
                     dw.buffer()};
        op.capacity = kCapacity;
        world.table.unpermute(op, world.team);
        return std::vector{y, dw};
    };
    EXPECT_EQ(in_fp64(run), (std::vector{expected, dweights}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
