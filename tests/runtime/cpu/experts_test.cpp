// Rows on their way to experts and back, and what experts make of them.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/runtime/cpu/expert_world.hpp"
#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

// Rows of a matrix.
Values row_of(const Values& matrix, std::int64_t row, std::int64_t width) {
    return {matrix.begin() + row * width, matrix.begin() + (row + 1) * width};
}
void append(Values& to, const Values& row) {
    to.insert(to.end(), row.begin(), row.end());
}

constexpr std::int64_t kWidth = 1031;  // more than a piece

TEST(Permute, CopiesRowsByExpertThenByToken) {
    for (const ExpertGroup& group : some_groups()) {
        const Values x = exact_numbers(group.tokens * kWidth, 1);
        const Values weights = exact_numbers(group.tokens * group.chosen, 2);
        Values expected, expected_weights;
        for (const Sent& row : permuted_rows(group, 0)) {
            append(expected, row_of(x, row.token, kWidth));
            expected_weights.push_back(weights[at(row.token * group.chosen + row.slot)]);
        }
        const Computation run = [&](const World& world) {
            const Tensor tx = world.in(x), tweights = world.work_in(weights);
            const Tensor y = world.out(expected.size());
            const Tensor permuted = world.work_out(expected_weights.size());
            world.table.permute(
                {group.tokens, kWidth, group.chosen, group.experts, tx.buffer(),
                 group.choices[0].data(), tweights.buffer(), y.buffer(), permuted.buffer()},
                world.team);
            return std::vector{y, permuted};
        };
        EXPECT_EQ(in_fp64(run), (std::vector{expected, expected_weights}));
        expect_everywhere(run, 0);
    }
}

TEST(GroupRows, OrdersRowsByExpertAndBack) {
    for (const ExpertGroup& group : some_groups())
        for (std::int64_t member = 0; member < group.ranks; ++member) {
            const std::vector<Sent> by_member = received_rows(group, member);
            const std::vector<Sent> by_expert = grouped_rows(group, member);
            const auto rows = static_cast<std::int64_t>(by_member.size());
            constexpr std::int64_t kRoom = 3;  // that is not in use
            Values x, expected;
            const auto of = [](const Sent& row) {
                return exact_numbers(7, static_cast<std::uint32_t>(1 + row.member * 100 +
                                                                   row.token * 10 + row.slot));
            };
            for (const Sent& row : by_member)
                append(x, of(row));
            for (const Sent& row : by_expert)
                append(expected, of(row));
            const Values unused(kRoom * 7, std::nan(""));
            append(x, unused);
            const Computation run = [&](const World& world) {
                const Tensor from = world.in(x), y = world.out(x.size()),
                             back = world.out(x.size());
                const ExpertPlaces places = group.places(member);
                world.table.group_rows({7, places, false, from.buffer(), y.buffer()}, world.team);
                world.table.group_rows({7, places, true, y.buffer(), back.buffer()}, world.team);
                const auto used = [&](const Tensor& all) {
                    Values values = all.values();
                    for (std::int64_t i = rows * 7; i < (rows + kRoom) * 7; ++i)
                        EXPECT_TRUE(std::isnan(values[at(i)])) << "written beyond rows in use";
                    values.resize(at(rows * 7));
                    return world.in(values);
                };
                return std::vector{used(y), used(back)};
            };
            const Values whole(x.begin(), x.begin() + rows * 7);
            EXPECT_EQ(in_fp64(run), (std::vector{expected, whole}));
            expect_everywhere(run, 0);
        }
}

// The sets of ranks of a token's experts, of which it may have several; how many tokens go to each.
struct Copies {
    std::int64_t sets = 0, most = 0;
    std::vector<std::vector<std::int32_t>> of_tokens{};  // of each member, [tokens, most]
    std::vector<std::int32_t> counts{};                  // [ranks, sets]
};

Copies copies_of(const ExpertGroup& group) {
    Team team(2);
    Copies copies;
    copies.sets = group.ranks / group.split;
    copies.most = std::min(group.chosen, copies.sets);
    copies.counts.resize(at(group.ranks * copies.sets));
    for (std::int64_t member = 0; member < group.ranks; ++member) {
        std::vector<std::int32_t>& own =
            copies.of_tokens.emplace_back(at(group.tokens * copies.most));
        kernels().choose_ranks({group.tokens, group.chosen, group.experts / copies.sets,
                                copies.sets, group.choices[at(member)].data(), own.data(),
                                copies.counts.data() + member * copies.sets},
                               team);
    }
    return copies;
}

TEST(ChooseRanks, NamesEachSetOfATokensExpertsOnce) {
    for (const ExpertGroup& group : some_groups()) {
        const Copies copies = copies_of(group);
        std::vector<std::int32_t> counts(copies.counts.size());
        for (std::int64_t member = 0; member < group.ranks; ++member)
            for (std::int64_t token = 0; token < group.tokens; ++token) {
                std::set<std::int32_t> sets;
                for (std::int64_t i = 0; i < group.chosen; ++i)
                    sets.insert(group.choices[at(member)][at(token * group.chosen + i)] /
                                static_cast<std::int32_t>(group.experts / copies.sets));
                std::vector<std::int32_t> expected(sets.begin(), sets.end());
                for (const std::int32_t set : sets)
                    ++counts[at(member * copies.sets + set)];
                expected.resize(at(copies.most), -1);
                const auto own = copies.of_tokens[at(member)].begin() + token * copies.most;
                EXPECT_EQ(std::vector<std::int32_t>(own, own + copies.most), expected);
            }
        EXPECT_EQ(copies.counts, counts);
    }
}

// A copy is its token's row, with the row's experts and weights: what lies by expert then is what
// group_rows makes of a row for each expert; back, a copy has the sum of its token's local experts.
TEST(SpreadRows, BringsCopiesWhereARowForEachExpertWouldLie) {
    for (const ExpertGroup& group : some_groups())
        for (std::int64_t member = 0; member < group.ranks; ++member) {
            const Copies copies = copies_of(group);
            constexpr std::int64_t kNarrow = 7;
            const auto row = [&](std::int64_t from, std::int64_t token) {
                return exact_numbers(kNarrow, static_cast<std::uint32_t>(1 + from * 100 + token));
            };
            const auto weight = [&](std::int64_t from, std::int64_t token, std::int64_t slot) {
                return static_cast<double>(1 + from * 1000 + token * 10 + slot);
            };
            const std::vector<Sent> rows = grouped_rows(group, member);
            Values x, weights, sums, kept;
            std::vector<std::int32_t> choice;
            for (std::int64_t from = 0; from < group.ranks; ++from)
                for (std::int64_t token = 0; token < group.tokens; ++token) {
                    Values sum(kNarrow), own(at(group.chosen));
                    bool here = false;
                    for (std::size_t i = 0; i < rows.size(); ++i) {
                        if (rows[i].member != from || rows[i].token != token) continue;
                        here = true;
                        own[at(rows[i].slot)] = weight(from, token, rows[i].slot);
                        for (std::size_t j = 0; j < sum.size(); ++j)
                            sum[j] += row(from, token)[j];
                    }
                    if (!here) continue;
                    append(x, row(from, token));
                    append(sums, sum);
                    append(kept, own);
                    for (std::int64_t slot = 0; slot < group.chosen; ++slot) {
                        weights.push_back(weight(from, token, slot));
                        choice.push_back(group.choices[at(from)][at(token * group.chosen + slot)]);
                    }
                }
            Values expected, expected_weights;
            for (const Sent& sent : rows) {
                append(expected, row(sent.member, sent.token));
                expected_weights.push_back(weight(sent.member, sent.token, sent.slot));
            }
            const std::int64_t tokens = static_cast<std::int64_t>(choice.size()) / group.chosen;
            const Computation run = [&](const World& world) {
                const Tensor from = world.in(x), by = world.work_in(weights);
                const Tensor y = world.out(expected.size()), back = world.out(x.size());
                const Tensor w = world.work_out(expected_weights.size()),
                             w_back = world.work_out(weights.size());
                SpreadRows op{kNarrow, group.chosen,  tokens,        group.places(member),
                              false,   choice.data(), from.buffer(), y.buffer()};
                world.table.spread_rows(op, world.team);
                op.apart = true;
                op.x = y.buffer();
                op.y = back.buffer();
                world.table.spread_rows(op, world.team);
                SpreadWeights weigh{group.chosen,  op.copies,   op.places, false,
                                    choice.data(), by.buffer(), w.buffer()};
                world.table.spread_weights(weigh, world.team);
                weigh.apart = true;
                weigh.x = w.buffer();
                weigh.y = w_back.buffer();
                world.table.spread_weights(weigh, world.team);
                return std::vector{y, back, w, w_back};
            };
            EXPECT_EQ(in_fp64(run), (std::vector{expected, sums, expected_weights, kept}));
            expect_everywhere(run, 0);
        }
}

// A token that goes to fewer ranks than it might has no rows for the rest.
TEST(Permute, SendsNothingForChoicesThatAreNone) {
    const std::vector<std::int32_t> choice = {1, -1, 0, 1, -1, -1};
    const ExpertPlaces places{2, 1, 1, 0, nullptr};
    const Values x = {1, 2, 3};
    const Computation run = [&](const World& world) {
        const Tensor from = world.in(x), sent = world.out(3), y = world.out(3);
        world.table.permute({3, 1, 2, 2, from.buffer(), choice.data(), {}, sent.buffer(), {}},
                            world.team);
        Unpermute op;
        op.rows = 3;
        op.width = 1;
        op.chosen = 2;
        op.places = places;
        op.returned = sent.buffer();
        op.choice = choice.data();
        op.y = y.buffer();
        world.table.unpermute(op, world.team);
        return std::vector{sent, y};
    };
    EXPECT_EQ(in_fp64(run), (std::vector<Values>{{2, 1, 2}, {1, 4, 0}}));
    expect_everywhere(run, 0);
}

// Sums are in the order of experts, then of shares, and rounded once: numbers are exact here, and
// so are sums of a few.
TEST(Unpermute, AddsUpWhatComesBackForAToken) {
    for (const ExpertGroup& group : some_groups())
        for (std::int64_t member = 0; member < group.ranks; member += 2) {
            const std::vector<Returned> rows = returned_rows(group, member);
            const auto returned = static_cast<std::int64_t>(rows.size());
            ASSERT_EQ(returned, group.tokens * group.chosen * group.split);
            const Values x = exact_numbers(returned * kWidth, 3);
            const Values dweights = exact_numbers(returned, 4);
            Values expected(at(group.tokens * kWidth));
            Values expected_dweights(at(group.tokens * group.chosen));
            for (std::int64_t row = 0; row < returned; ++row) {
                const Sent& sent = rows[at(row)].row;
                for (std::int64_t i = 0; i < kWidth; ++i)
                    expected[at(sent.token * kWidth + i)] += x[at(row * kWidth + i)];
                expected_dweights[at(sent.token * group.chosen + sent.slot)] += dweights[at(row)];
            }
            const Computation run = [&](const World& world) {
                const Tensor from = world.in(x), y = world.out(expected.size());
                const Tensor tdw = world.work_in(dweights);
                const Tensor out = world.work_out(expected_dweights.size());
                Unpermute op;
                op.rows = group.tokens;
                op.width = kWidth;
                op.chosen = group.chosen;
                op.places = group.places(member);
                op.places.counts = nullptr;
                op.returned = from.buffer();
                op.choice = group.choices[at(member)].data();
                op.returned_dweights = tdw.buffer();
                op.y = y.buffer();
                op.dweights = out.buffer();
                world.table.unpermute(op, world.team);
                return std::vector{y, out};
            };
            EXPECT_EQ(in_fp64(run), (std::vector{expected, expected_dweights}));
            expect_everywhere(run, 0);
        }
}

// Each expert adds its own constant to a row: what a token has in the end is its row times k, and
// the sum of its experts' constants. All kernels on the way, of all members.
TEST(Permute, AndAllOrdersAfterItBringEveryRowToItsExpert) {
    Team team(2);
    const KernelTable& table = kernels();
    for (const ExpertGroup& group : some_groups()) {
        std::vector<Values> permuted, worked;
        for (std::int64_t member = 0; member < group.ranks; ++member) {
            const Tensor x(plan::DType::fp64,
                           exact_numbers(group.tokens, static_cast<std::uint32_t>(member + 1)));
            const Tensor y(plan::DType::fp64, group.tokens * group.chosen);
            table.permute({group.tokens,
                           1,
                           group.chosen,
                           group.experts,
                           x.buffer(),
                           group.choices[at(member)].data(),
                           {},
                           y.buffer(),
                           {}},
                          team);
            permuted.push_back(y.values());
        }
        // As the messages of all_to_all_v are cut by ExpertPlaces.
        for (std::int64_t member = 0; member < group.ranks; ++member) {
            const ExpertPlaces places = group.places(member);
            Values received;
            for (std::int64_t from = 0; from < group.ranks; ++from) {
                std::int64_t first = 0;
                for (std::int64_t to = 0; to < member / group.split * group.split;
                     to += group.split)
                    first += places.sent(from, to);
                const Values& all = permuted[at(from)];
                received.insert(received.end(), all.begin() + first,
                                all.begin() + first + places.sent(from, member));
            }
            const auto rows = static_cast<std::int64_t>(received.size());
            ASSERT_EQ(places.received(member), rows);
            const Tensor from(plan::DType::fp64, received);
            const Tensor grouped(plan::DType::fp64, rows), back(plan::DType::fp64, rows);
            table.group_rows({1, places, false, from.buffer(), grouped.buffer()}, team);
            Values by_expert = grouped.values();
            std::int64_t row = 0;
            for (std::int64_t i = 0; i < places.local(); ++i)
                for (std::int64_t n = 0; n < places.rows_of(places.first_of(member) + i); ++n)
                    by_expert[at(row++)] +=
                        1024.0 * static_cast<double>(1 + places.first_of(member) + i);
            const Tensor done(plan::DType::fp64, by_expert);
            table.group_rows({1, places, true, done.buffer(), back.buffer()}, team);
            worked.push_back(back.values());
        }
        for (std::int64_t member = 0; member < group.ranks; ++member) {
            Values returned;
            for (std::int64_t by = 0; by < group.ranks; ++by) {
                const ExpertPlaces places = group.places(by);
                std::int64_t first = 0;
                for (std::int64_t before = 0; before < member; ++before)
                    first += places.sent(before, by);
                const Values& all = worked[at(by)];
                returned.insert(returned.end(), all.begin() + first,
                                all.begin() + first + places.sent(member, by));
            }
            const Tensor from(plan::DType::fp64, returned), y(plan::DType::fp64, group.tokens);
            Unpermute op;
            op.rows = group.tokens;
            op.width = 1;
            op.chosen = group.chosen;
            op.places = group.places(member);
            op.returned = from.buffer();
            op.choice = group.choices[at(member)].data();
            op.y = y.buffer();
            table.unpermute(op, team);
            const Values x = exact_numbers(group.tokens, static_cast<std::uint32_t>(member + 1));
            for (std::int64_t token = 0; token < group.tokens; ++token) {
                double expected = 0;
                for (std::int64_t slot = 0; slot < group.chosen; ++slot)
                    expected +=
                        x[at(token)] +
                        1024.0 * (1 + group.choices[at(member)][at(token * group.chosen + slot)]);
                EXPECT_EQ(y.values()[at(token)], expected * static_cast<double>(group.split));
            }
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
