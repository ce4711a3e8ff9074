#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRows = 19;
constexpr std::int64_t kVocabulary = 2100;  // more than two pieces
constexpr double kFactor = 0.25, kScale = 0.125;
const float kLossScale = 4;

// Three ranks share out a vocabulary of 2100 that is padded to 2400; one of them holds padding, and
// the last nothing else.
constexpr LogitsPart kParts[] = {
    {kRows, 1100, 0, 1100}, {kRows, 1100, 1100, 1000}, {kRows, 200, 2200, 0}};

std::vector<std::int32_t> targets() {
    std::vector<std::int32_t> found;
    for (std::uint64_t row = 0; row < kRows; ++row)
        found.push_back(static_cast<std::int32_t>(random_word({5, 0, 0}, row) % kVocabulary));
    found[3] = -1;  // ignored
    found[7] = 0;
    found[8] = kVocabulary - 1;
    return found;
}

// Rows of one rank: its columns of the whole, and rubbish in the padding.
Values part_of(const LogitsPart& part, const Values& whole) {
    Values found;
    for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t column = 0; column < part.columns; ++column)
            found.push_back(column < part.valid_columns
                                ? whole[static_cast<std::size_t>(row * kVocabulary +
                                                                 part.first_column + column)]
                                : 3.75);
    return found;
}

Values sum_of_ranks(const std::vector<Tensor>& ranks) {
    Values sum = ranks[0].values();
    for (std::size_t rank = 1; rank < ranks.size(); ++rank)
        for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += ranks[rank].values()[i];
    return sum;
}

Values largest_of_ranks(const std::vector<Tensor>& ranks) {
    Values largest = ranks[0].values();
    for (const Tensor& rank : ranks)
        for (std::size_t i = 0; i < largest.size(); ++i)
            largest[i] = std::max(largest[i], rank.values()[i]);
    return largest;
}

// What ranks with these parts compute, reduced in between as their all-reduces do. Outputs: loss,
// largest, sums, and of each rank the gradient of its logits.
std::vector<Tensor> loss_and_gradients(const World& world, const std::vector<LogitsPart>& parts,
                                       const Values& logits) {
    const std::vector<std::int32_t> target = targets();
    std::vector<Tensor> of_rank, largest, sums;
    for (const LogitsPart& part : parts) {
        of_rank.push_back(world.in(part_of(part, logits)));
        largest.push_back(world.work_out(kRows));
        sums.push_back(world.work_out(2 * kRows));
        world.table.cross_entropy_max({part, of_rank.back().buffer(), largest.back().buffer()},
                                      world.team);
    }
    const Tensor all_largest = world.work_in(largest_of_ranks(largest));
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
        world.table.cross_entropy_sum({parts[rank], target.data(), of_rank[rank].buffer(),
                                       all_largest.buffer(), sums[rank].buffer()},
                                      world.team);
    const Tensor all_sums = world.work_in(sum_of_ranks(sums)), loss = world.work_in({100});
    world.table.cross_entropy({kRows, kFactor, all_sums.buffer(), loss.buffer(), true}, world.team);
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
        world.table.cross_entropy_backward(
            {parts[rank], target.data(), kScale / kLossScale, &kLossScale, all_largest.buffer(),
             all_sums.buffer(), of_rank[rank].buffer()},
            world.team);
    std::vector<Tensor> found = {loss, all_largest, all_sums};
    found.insert(found.end(), of_rank.begin(), of_rank.end());
    return found;
}

const std::vector<LogitsPart> kAlone = {{kRows, kVocabulary, 0, kVocabulary}};
const std::vector<LogitsPart> kThree = {kParts[0], kParts[1], kParts[2]};

TEST(CrossEntropy, LossIsItsFormulaHoweverTheVocabularyIsShared) {
    const Values logits = exact_numbers(kRows * kVocabulary, 1);
    const std::vector<std::int32_t> target = targets();
    double expected = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
        if (target[row] < 0) continue;
        double sum = 0;
        for (std::size_t i = 0; i < kVocabulary; ++i)
            sum += std::exp(logits[row * kVocabulary + i]);
        expected +=
            std::log(sum) - logits[row * kVocabulary + static_cast<std::size_t>(target[row])];
    }
    for (const auto& parts : {kAlone, kThree}) {
        const Computation run = [&](const World& world) {
            return loss_and_gradients(world, parts, logits);
        };
        EXPECT_NEAR(in_fp64(run)[0][0], 100 + kFactor * expected, 1e-12 * expected);
        expect_everywhere(run, 2000);  // roundings of sums of 2100 exponentials
    }
}

// One request or two: the same bits, of rows that are ignored too.
TEST(CrossEntropy, FindsTheLargestLogitInTheSamePass) {
    const Values logits = exact_numbers(kRows * kVocabulary, 1);
    const std::vector<std::int32_t> target = targets();
    const Computation run = [&](const World& world) {
        const LogitsPart all = kAlone[0];
        const Tensor of_rows = world.in(part_of(all, logits));
        const Tensor largest = world.work_out(kRows), found = world.work_out(kRows);
        const Tensor sums = world.work_out(2 * kRows), both = world.work_out(2 * kRows);
        world.table.cross_entropy_max({all, of_rows.buffer(), largest.buffer()}, world.team);
        world.table.cross_entropy_sum(
            {all, target.data(), of_rows.buffer(), largest.buffer(), sums.buffer()}, world.team);
        world.table.cross_entropy_sum(
            {all, target.data(), of_rows.buffer(), found.buffer(), both.buffer(), true},
            world.team);
        EXPECT_EQ(found.values(), largest.values());
        EXPECT_EQ(both.values(), sums.values());
        return std::vector<Tensor>{both};
    };
    expect_everywhere(run, 2000);  // roundings of sums of 2100 exponentials
}

// Parts that find a largest logit of their own are joined to what one maximum of all gives.
TEST(CrossEntropy, PartsAreJoinedToTheSumsOfWholeRows) {
    const Values logits = exact_numbers(kRows * kVocabulary, 1);
    const std::vector<std::int32_t> target = targets();
    const std::int64_t width = kVocabulary / 3;
    ASSERT_EQ(width * 3, static_cast<std::int64_t>(kVocabulary));
    const Computation run = [&](const World& world) {
        Values sums, largest;
        for (std::int64_t part = 0; part < 3; ++part) {
            const LogitsPart of{kRows, width, part * width, width};
            const Tensor own = world.in(part_of(of, logits));
            const Tensor own_largest = world.work_out(kRows), own_sums = world.work_out(2 * kRows);
            world.table.cross_entropy_max({of, own.buffer(), own_largest.buffer()}, world.team);
            world.table.cross_entropy_sum(
                {of, target.data(), own.buffer(), own_largest.buffer(), own_sums.buffer()},
                world.team);
            const Values s = own_sums.values(), l = own_largest.values();
            sums.insert(sums.end(), s.begin(), s.end());
            largest.insert(largest.end(), l.begin(), l.end());
        }
        const Tensor part_sums = world.work_in(sums), part_largest = world.work_in(largest);
        std::vector<Tensor> joined = {world.work_out(2 * kRows), world.work_out(kRows)};
        world.table.cross_entropy_join(
            {kRows, 3, width, target.data(), part_sums.buffer(), part_largest.buffer(),
             joined[0].buffer(), joined[1].buffer()},
            world.team);
        return joined;
    };
    const auto found = in_fp64(run);
    for (std::size_t row = 0; row < kRows; ++row) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * kVocabulary);
        const double largest = *std::max_element(begin, begin + kVocabulary);
        double sum = 0;
        for (std::size_t i = 0; i < kVocabulary; ++i)
            sum += std::exp(begin[static_cast<std::ptrdiff_t>(i)] - largest);
        EXPECT_EQ(found[1][row], largest) << row;
        EXPECT_NEAR(found[0][2 * row], target[row] < 0 ? 1 : sum, 1e-12 * sum) << row;
        EXPECT_NEAR(found[0][2 * row + 1], target[row] < 0 ? 0 : begin[target[row]] - largest,
                    1e-12)
            << row;
    }
    expect_everywhere(run, 2000);  // roundings of sums of 700 exponentials, scaled once more
}

// A part's gradients by its own sums, rescaled by those of whole rows, are those by whole rows: of
// logits, and of what a product with the weight makes of them.
TEST(CrossEntropy, RescaledGradientsAreThoseByWholeRows) {
    constexpr std::int64_t kWidth = 5;
    const std::vector<std::int32_t> target = targets();
    const Values logits = exact_numbers(kRows * kVocabulary, 1);
    const Values weight = exact_numbers(kVocabulary * kWidth, 2);
    const auto row_of = [&](std::int64_t word, std::int64_t i) {
        return weight[static_cast<std::size_t>(word * kWidth + i)];
    };
    const auto input_gradient = [&](const LogitsPart& part, const Values& dlogits) {
        Values dx(kRows * kWidth);
        for (std::int64_t at = 0; at < kRows * kWidth; ++at)
            for (std::int64_t c = 0; c < part.valid_columns; ++c)
                dx[static_cast<std::size_t>(at)] +=
                    dlogits[static_cast<std::size_t>(at / kWidth * part.columns + c)] *
                    row_of(part.first_column + c, at % kWidth);
        return dx;
    };
    for (const double soft_cap : {0.0, 5.0}) {
        const auto capped = [&](LogitsPart part) {
            part.soft_cap = soft_cap;
            return part;
        };
        // Sums and largest of these logits, which become gradients by them.
        struct Made {
            Tensor gradients, sums, largest;
        };
        const auto by_own_sums = [&](const World& world, const LogitsPart& part, const Values& of) {
            Made made{world.in(of), world.work_out(2 * kRows), world.work_out(kRows)};
            world.table.cross_entropy_max({part, made.gradients.buffer(), made.largest.buffer()},
                                          world.team);
            world.table.cross_entropy_sum({part, target.data(), made.gradients.buffer(),
                                           made.largest.buffer(), made.sums.buffer()},
                                          world.team);
            world.table.cross_entropy_backward(
                {part, target.data(), kScale, &kLossScale, made.largest.buffer(),
                 made.sums.buffer(), made.gradients.buffer()},
                world.team);
            return made;
        };
        for (const LogitsPart& of : kParts) {
            const LogitsPart part = capped(of);
            Values words(kRows * kWidth);
            for (std::int64_t at = 0; at < kRows * kWidth; ++at) {
                const std::int64_t word = target[static_cast<std::size_t>(at / kWidth)];
                const std::int64_t column = word - part.first_column;
                if (word >= 0 && column >= 0 && column < part.valid_columns)
                    words[static_cast<std::size_t>(at)] = row_of(word, at % kWidth);
            }
            const auto found = in_fp64([&](const World& world) {
                const Made whole =
                    by_own_sums(world, capped({kRows, kVocabulary, 0, kVocabulary}), logits);
                const Made own = by_own_sums(world, part, part_of(part, logits));
                const Tensor part_dx = world.in(input_gradient(part, own.gradients.values()));
                const Tensor looked_up = world.in(words), dx = world.out(kRows * kWidth);
                world.table.cross_entropy_rescale(
                    {part, target.data(), kScale, &kLossScale, kWidth, own.sums.buffer(),
                     own.largest.buffer(), whole.sums.buffer(), whole.largest.buffer(),
                     part_dx.buffer(), looked_up.buffer(), own.gradients.buffer(), dx.buffer()},
                    world.team);
                Values expected = part_of(part, whole.gradients.values());
                for (std::int64_t at = 0; at < kRows * part.columns; ++at)
                    if (at % part.columns >= part.valid_columns)
                        expected[static_cast<std::size_t>(at)] = 0;
                return std::vector<Tensor>{own.gradients, dx, world.in(expected),
                                           world.in(input_gradient(part, expected))};
            });
            expect_equal_in_fp64(found[0], found[2], 100);  // of an exponential and a quotient
            expect_equal_in_fp64(found[1], found[3], 100 + 2 * kVocabulary);  // … of each term
        }
    }
}

TEST(CrossEntropy, RescalesEverywhereAlike) {
    constexpr std::int64_t kWidth = 1500;  // more than a piece
    const std::vector<std::int32_t> target = targets();
    Values sums, largest, part_sums, part_largest;
    for (std::int64_t row = 0; row < kRows; ++row) {
        part_sums.insert(part_sums.end(), {1.0 + static_cast<double>(row), -0.5});
        sums.insert(sums.end(), {32.0 + static_cast<double>(row), -1.5});
        part_largest.push_back(1.25);
        largest.push_back(1.75);
    }
    expect_everywhere(
        [&](const World& world) {
            const LogitsPart& part = kParts[1];
            std::vector<Tensor> found = {world.in(exact_numbers(kRows * part.columns, 3)),
                                         world.out(kRows * kWidth)};
            const Tensor dx = world.in(exact_numbers(kRows * kWidth, 4)),
                         words = world.in(exact_numbers(kRows * kWidth, 5)),
                         own_sums = world.work_in(part_sums),
                         own_largest = world.work_in(part_largest), whole = world.work_in(sums),
                         highest = world.work_in(largest);
            world.table.cross_entropy_rescale(
                {part, target.data(), kScale, &kLossScale, kWidth, own_sums.buffer(),
                 own_largest.buffer(), whole.buffer(), highest.buffer(), dx.buffer(),
                 words.buffer(), found[0].buffer(), found[1].buffer()},
                world.team);
            return found;
        },
        8);
}

TEST(CrossEntropy, BackwardIsTheGradient) {
    const Values logits = exact_numbers(kRows * kVocabulary, 1);
    const auto found =
        in_fp64([&](const World& world) { return loss_and_gradients(world, kAlone, logits); });
    Values gradient = found[3];
    for (double& g : gradient)
        g *= kFactor / kScale;  // backward has a scale of its own
    expect_gradient(
        [&](const Values& x) {
            return in_fp64(
                [&](const World& world) { return loss_and_gradients(world, kAlone, x); })[0][0];
        },
        logits, gradient);
    for (std::size_t i = 0; i < kVocabulary; ++i)
        EXPECT_EQ(gradient[3 * kVocabulary + i], 0);  // of the ignored row
}

TEST(CrossEntropy, GradientsOfSharedLogitsArePartsOfTheWhole) {
    const Values logits = exact_numbers(kRows * kVocabulary, 1);
    const auto gradients = [&](const std::vector<LogitsPart>& parts) {
        return in_fp64(
            [&](const World& world) { return loss_and_gradients(world, parts, logits); });
    };
    const Values whole = gradients(kAlone)[3];
    const std::vector<Values> shared = gradients(kThree);
    for (std::size_t rank = 0; rank < kThree.size(); ++rank) {
        Values expected = part_of(kThree[rank], whole);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (static_cast<std::int64_t>(i) % kThree[rank].columns >= kThree[rank].valid_columns)
                expected[i] = 0;  // padding
        expect_equal_in_fp64(shared[3 + rank], expected, 10);
    }
}

TEST(CrossEntropy, OfLargeLogitsIsFinite) {
    Values logits(kRows * kVocabulary, 28672);
    for (std::size_t i = 0; i < logits.size(); i += 3)
        logits[i] = -28672;
    expect_everywhere(
        [&](const World& world) {
            const auto found = loss_and_gradients(world, kAlone, logits);
            EXPECT_TRUE(std::isfinite(found[0].values()[0]));
            return std::vector{found[0]};
        },
        100);
}

TEST(CrossEntropy, OfNaNIsNaN) {
    Values logits = exact_numbers(kRows * kVocabulary, 1);
    logits[5] = std::nan("");
    for (const KernelTable* table : {&baseline_kernels(), &kernels()})
        for (const plan::DType type : {plan::DType::bf16, plan::DType::fp32, plan::DType::fp64}) {
            Team team(1);
            const auto found = loss_and_gradients({*table, team, type}, kAlone, logits);
            EXPECT_TRUE(std::isnan(found[0].values()[0]));
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
