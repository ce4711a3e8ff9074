// Dropout, residual_add and the embeddings: which elements are kept, and which rows are read.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;

constexpr std::int64_t kRows = 23, kWidth = 1033;
constexpr std::size_t kElements = kRows * kWidth;
constexpr DropoutKey kKey{{11, 22, 33}, 0.3};

// Of an element with this global index, by the rule of runtime/random.hpp.
double factor_of(const DropoutKey& key, std::uint64_t index) {
    return random_word(key.random, index) >= key.p * 0x1p32 ? 1 / (1 - key.p) : 0;
}

// Runs of 5 elements that lie 9 apart, from 6 on: 6 … 10, 15 … 19, and so on.
constexpr ElementIndex kRuns{6, 5, 9};

TEST(Dropout, KeepsByGlobalIndex) {
    const Values x = exact_numbers(kElements, 1);
    for (const ElementIndex& index :
         {ElementIndex{}, ElementIndex{(1ULL << 34) + 3, 0, 0}, kRuns}) {
        Values expected = x, kept;
        for (std::size_t i = 0; i < kElements; ++i) {
            const std::uint64_t global = index.run == 0 ? index.first + i : 6 + i / 5 * 9 + i % 5;
            const double factor = factor_of(kKey, global);
            expected[i] *= factor;
            kept.push_back(factor != 0 ? 1 : 0);
        }
        const Computation run = [&](const World& world) {
            const Tensor tx = world.in(x), y = world.out(kElements);
            const Tensor mask(DType::u8, kElements);
            world.table.dropout({kElements, kKey, index, tx.buffer(), y.buffer(), mask.buffer()},
                                world.team);
            return std::vector{y, mask};
        };
        expect_equal_in_fp64(in_fp64(run)[0], expected, 1);
        EXPECT_EQ(in_fp64(run)[1], kept);
        expect_everywhere(run, 2);
    }
}

// 23 759 elements: the share that is kept is within 5 standard errors of 1 − p.
TEST(Dropout, KeepsItsShare) {
    double kept = 0;
    for (std::uint64_t i = 0; i < kElements; ++i)
        kept += factor_of(kKey, i) != 0 ? 1 : 0;
    const double n = kElements;
    EXPECT_NEAR(kept / n, 1 - kKey.p, 5 * std::sqrt(kKey.p * (1 - kKey.p) / n));
}

TEST(Dropout, BackwardIsTheSameByMaskAndByKey) {
    const Values dy = exact_numbers(kElements, 1);
    Values expected = dy, mask;
    for (std::size_t i = 0; i < kElements; ++i) {
        const double factor = factor_of(kKey, 6 + i / 5 * 9 + i % 5);
        expected[i] *= factor;
        mask.push_back(factor != 0 ? 1 : 0);
    }
    for (const bool stored : {false, true}) {
        const Computation run = [&](const World& world) {
            const Tensor dx = world.in(dy), tmask(DType::u8, mask);
            world.table.dropout_backward({kElements, kKey, kRuns, dx.buffer(), dx.buffer(),
                                          stored ? tmask.buffer() : Buffer{}},
                                         world.team);
            return std::vector{dx};
        };
        expect_equal_in_fp64(in_fp64(run)[0], expected, 1);
        expect_everywhere(run, 2);
    }
}

struct ResidualCase {
    int biases;
    bool positions;
    double p;
};

TEST(ResidualAdd, AddsBranchBiasesAndDropout) {
    constexpr std::int64_t kPositions = 12;
    const PositionRows position_rows{10, 7, 2};  // row 0 has position 7, entry 9 of the table
    const Values branch = exact_numbers(kElements, 1), x = exact_numbers(kElements, 2);
    const Values bias[] = {exact_numbers(kWidth, 3), exact_numbers(kWidth, 4)};
    const Values table = exact_numbers(kPositions * kWidth, 5);
    for (const ResidualCase& c :
         {ResidualCase{0, false, 0}, ResidualCase{1, false, 0.3}, ResidualCase{2, false, 0.3},
          ResidualCase{0, true, 0.3}, ResidualCase{0, true, 0}}) {
        const DropoutKey key{kKey.random, c.p};
        Values expected(kElements);
        for (std::size_t i = 0; i < kElements; ++i) {
            double sum = branch[i];
            for (int b = 0; b < c.biases; ++b)
                sum += bias[b][i % kWidth];
            const std::size_t position = (7 + i / kWidth) % 10 + 2;
            if (c.positions) sum += table[position * kWidth + i % kWidth];
            expected[i] = sum * factor_of(key, 100 + i) + (c.positions ? 0 : x[i]);
        }
        const Computation run = [&](const World& world) {
            const Tensor y = world.in(x), tbranch = world.in(branch), ttable = world.in(table);
            const Tensor first = world.in(bias[0]), second = world.in(bias[1]);
            const Tensor mask(DType::u8, kElements);
            ResidualAdd op{kRows, kWidth, tbranch.buffer(), {}, {}, position_rows, {}, key, {},
                           {},    {}};
            (c.positions ? op.positions : op.x) = c.positions ? ttable.buffer() : y.buffer();
            if (c.biases > 0) op.biases[0] = first.buffer();
            if (c.biases > 1) op.biases[1] = second.buffer();
            op.index.first = 100;
            op.y = y.buffer();
            op.mask = c.p > 0 ? mask.buffer() : Buffer{};
            world.table.residual_add(op, world.team);
            return std::vector{y, mask};
        };
        expect_equal_in_fp64(in_fp64(run)[0], expected, 2);
        const Values mask = in_fp64(run)[1];
        for (std::size_t i = 0; i < kElements && c.p > 0; ++i)
            ASSERT_EQ(mask[i], factor_of(key, 100 + i) != 0 ? 1 : 0);
        expect_everywhere(run, 8);
    }
}

constexpr std::int64_t kEntries = 9;
constexpr VocabularyPart kPart{4, kEntries};  // of tokens 0 … 15

std::vector<std::int32_t> tokens() {
    std::vector<std::int32_t> found;
    for (std::uint64_t row = 0; row < kRows; ++row)
        found.push_back(static_cast<std::int32_t>(random_word({5, 0, 0}, row) % 16));
    return found;
}

TEST(Embedding, LooksUpItsPartOfTheVocabulary) {
    const Values table = exact_numbers(kEntries * kWidth, 1);
    const std::vector<std::int32_t> rows = tokens();
    Values expected;
    for (const std::int32_t token : rows)
        for (std::int64_t i = 0; i < kWidth; ++i)
            expected.push_back(token >= 4 && token < 4 + kEntries
                                   ? 2.5 * table[static_cast<std::size_t>((token - 4) * kWidth + i)]
                                   : 0);
    const Computation run = [&](const World& world) {
        const Tensor ttable = world.in(table), y = world.out(kElements);
        world.table.embedding({kRows, kWidth, kPart, 2.5, rows.data(), ttable.buffer(), y.buffer()},
                              world.team);
        return std::vector{y};
    };
    EXPECT_EQ(in_fp64(run)[0], expected);
    expect_everywhere(run, 0);
}

// By tokens, and by positions: row r has position (7 + r) mod 10 and entry + 2.
TEST(Embedding, BackwardScattersRowsIntoTheTable) {
    const Values dy = exact_numbers(kElements, 1), before = exact_numbers(kEntries * kWidth, 2);
    const std::vector<std::int32_t> rows = tokens();
    for (const bool by_token : {true, false})
        for (const bool accumulate : {true, false}) {
            Values expected = accumulate ? before : Values(before.size());
            for (std::size_t row = 0; row < kRows; ++row) {
                const std::int64_t entry =
                    by_token ? rows[row] - 4 : (7 + static_cast<std::int64_t>(row)) % 10 + 2;
                if (entry < 0 || entry >= kEntries) continue;
                for (std::size_t i = 0; i < kWidth; ++i)
                    expected[static_cast<std::size_t>(entry) * kWidth + i] +=
                        0.5 * dy[row * kWidth + i];
            }
            const Computation run = [&](const World& world) {
                const Tensor tdy = world.in(dy);
                const Tensor dtable = accumulate ? world.in(before) : world.out(before.size());
                world.table.embedding_backward({kRows,
                                                kWidth,
                                                by_token ? kPart : VocabularyPart{0, kEntries},
                                                0.5,
                                                by_token ? rows.data() : nullptr,
                                                {10, 7, 2},
                                                tdy.buffer(),
                                                dtable.buffer(),
                                                accumulate},
                                               world.team);
                return std::vector{dtable};
            };
            EXPECT_EQ(in_fp64(run)[0], expected);  // multiples of 1/128 below 2^8: exact
            expect_everywhere(run, 0);
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
