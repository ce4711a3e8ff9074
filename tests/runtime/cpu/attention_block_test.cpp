// Attention of the shares of several ranks is the attention of one rank that has all: keys that
// come round one rank at a time and are merged by lse, and keys that are gathered.
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr double kScale = 0.4;
constexpr double kSlopes[] = {0.5, 0.25, 0.125, 0.0625};

struct Case {
    std::string name;
    std::int64_t ranks;
    AttentionShape shape;  // of the whole sequence
    bool slopes = false;
    double p = 0;
};

// Chunks of 150 cross the edges of tiles of 128 queries, those of 300 also of 256 keys.
const Case kCases[] = {{"two ranks", 2, {2, 24, 3, 3, 8}},
                       {"grouped", 4, {2, 40, 4, 2, 4}},
                       {"tiles", 2, {1, 1200, 1, 1, 5}},
                       {"slopes and dropout", 3, {2, 36, 4, 2, 4}, true, 0.3},
                       {"narrow values", 2, {2, 24, 3, 3, 8, 5}},
                       {"wide values", 3, {1, 36, 4, 2, 3, 7}, false, 0.1}};

std::size_t size_of(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// Everything of one rank that has all.
struct Whole {
    Values qkv, dcontext, context, lse, dqkv;
};

// Elements of a row, in the rows of a rank's share: [samples · share, width].
class Shares {
  public:
    explicit Shares(const Case& c) : c_(c), rows_(c.shape.sequence / c.ranks) {}

    SequencePart part(std::int64_t rank) const { return {c_.ranks, rank, true}; }
    AttentionShape shape() const {
        AttentionShape shape = c_.shape;
        shape.sequence = rows_;
        return shape;
    }

    // Columns [first, first + width) of rows of `of` columns.
    Values of(const Values& whole, std::int64_t rank, std::int64_t of_width, std::int64_t first,
              std::int64_t width) const {
        Values share;
        for (std::int64_t row = 0; row < c_.shape.batch * rows_; ++row) {
            const std::int64_t sample = row / rows_;
            const std::int64_t position = part(rank).position_of(row % rows_, rows_);
            const auto at =
                whole.begin() + (sample * c_.shape.sequence + position) * of_width + first;
            share.insert(share.end(), at, at + width);
        }
        return share;
    }
    Values qkv(const Whole& whole, std::int64_t rank) const {
        const std::int64_t width = c_.shape.qkv_width();
        return of(whole.qkv, rank, width, 0, width);
    }
    Values keys(const Values& rows, std::int64_t rank) const {
        const std::int64_t width = c_.shape.qkv_width(), q = width - c_.shape.kv_width();
        return of(rows, rank, width, q, width - q);
    }
    Values context(const Values& rows, std::int64_t rank) const {
        const std::int64_t width = c_.shape.context_width();
        return of(rows, rank, width, 0, width);
    }
    // [batch, heads, sequence] to [batch, heads, share].
    Values lse(const Values& whole, std::int64_t rank) const {
        Values share;
        for (std::int64_t map = 0; map < c_.shape.maps(); ++map)
            for (std::int64_t row = 0; row < rows_; ++row)
                share.push_back(
                    whole[size_of(map * c_.shape.sequence + part(rank).position_of(row, rows_))]);
        return share;
    }

  private:
    const Case& c_;
    std::int64_t rows_;
};

AttentionMask mask_of(const Case& c) {
    return {0, c.slopes ? kSlopes : nullptr};
}
AttentionDropout dropout_of(const Case& c) {
    return {{{12345, 6, 7}, c.p}, 3, 2, 9};
}

Whole whole_of(const Case& c) {
    Whole whole;
    const std::int64_t rows = c.shape.batch * c.shape.sequence;
    whole.qkv = exact_numbers(rows * c.shape.qkv_width(), 1);
    whole.dcontext = exact_numbers(rows * c.shape.context_width(), 2);
    const auto found = in_fp64([&](const World& world) {
        const Tensor qkv = world.in(whole.qkv), dcontext = world.in(whole.dcontext);
        const Tensor context = world.out(whole.dcontext.size());
        const Tensor lse = world.work_out(size_of(c.shape.maps() * c.shape.sequence));
        const Tensor dqkv = world.out(whole.qkv.size());
        world.table.attention({c.shape, mask_of(c), dropout_of(c), kScale, qkv.buffer(),
                               context.buffer(), lse.buffer()},
                              world.team);
        world.table.attention_backward(
            {c.shape, mask_of(c), dropout_of(c), kScale, dcontext.buffer(), qkv.buffer(),
             context.buffer(), lse.buffer(), dqkv.buffer()},
            world.team);
        return std::vector{context, lse, dqkv};
    });
    whole.context = found[0];
    whole.lse = found[1];
    whole.dqkv = found[2];
    return whole;
}

Values gathered(const Shares& shares, const Case& c, const Values& rows) {
    Values all;
    for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
        const Values share = shares.keys(rows, rank);
        all.insert(all.end(), share.begin(), share.end());
    }
    return all;
}

// The attention of one rank; `ring`: to one rank's keys after the other's, its own first.
std::vector<Tensor> attend(const World& world, const Case& c, const Whole& whole, std::int64_t rank,
                           bool ring) {
    const Shares shares(c);
    const Tensor qkv = world.in(shares.qkv(whole, rank));
    const Tensor context = world.out(shares.context(whole.context, rank).size());
    const Tensor sums = world.work_out(context.values().size());
    const Tensor lse = world.work_out(size_of(shares.shape().maps() * shares.shape().sequence));
    Attention op{shares.shape(), mask_of(c),       dropout_of(c), kScale,
                 qkv.buffer(),   context.buffer(), lse.buffer(),  shares.part(rank)};
    if (!ring) {
        const Tensor all = world.in(gathered(shares, c, whole.qkv));
        op.keys = {all.buffer(), 0, c.ranks};
        world.table.attention(op, world.team);
        return {context, lse};
    }
    op.sums = sums.buffer();
    for (std::int64_t hop = 0; hop < c.ranks; ++hop) {
        const std::int64_t owner = (rank - hop + c.ranks) % c.ranks;
        const Tensor keys = world.in(shares.keys(whole.qkv, owner));
        op.keys = {keys.buffer(), owner, 1};
        op.continues = hop > 0;
        op.ends = hop + 1 == c.ranks;
        world.table.attention(op, world.team);
    }
    return {context, lse};
}

TEST(AttentionBlock, SharesAttendAsTheWholeDoes) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Whole whole = whole_of(c);
        const Shares shares(c);
        for (std::int64_t rank = 0; rank < c.ranks; ++rank)
            for (const bool ring : {false, true}) {
                SCOPED_TRACE(std::to_string(rank) + (ring ? " ring" : " gathered"));
                const Computation run = [&](const World& world) {
                    return attend(world, c, whole, rank, ring);
                };
                const std::vector<Values> found = in_fp64(run);
                expect_equal_in_fp64(found[0], shares.context(whole.context, rank), 1000);
                expect_equal_in_fp64(found[1], shares.lse(whole.lse, rank), 1000);
                // 16-bit sums over the hops are not rounded before the last.
                if (rank == 0) expect_everywhere(run, 1000);
            }
    }
}

// dq of a rank, and what it finds of each rank's keys.
struct Gradients {
    Values dq;
    std::vector<Values> dkv;  // by owner
};

Gradients differentiate(const World& world, const Case& c, const Whole& whole, std::int64_t rank,
                        bool ring) {
    const Shares shares(c);
    const Tensor qkv = world.in(shares.qkv(whole, rank));
    const Tensor context = world.in(shares.context(whole.context, rank));
    const Tensor dcontext = world.in(shares.context(whole.dcontext, rank));
    const Tensor lse = world.work_in(shares.lse(whole.lse, rank));
    const AttentionShape shape = shares.shape();
    const Tensor dq =
        world.work_out(size_of(shape.batch * shape.sequence * shape.heads * shape.head_dim));
    AttentionBackward op{shares.shape(), mask_of(c),       dropout_of(c), kScale, dcontext.buffer(),
                         qkv.buffer(),   context.buffer(), lse.buffer(),  {}};
    op.part = shares.part(rank);
    op.dq = dq.buffer();
    Gradients found;
    if (!ring) {
        const Tensor all = world.in(gathered(shares, c, whole.qkv));
        const Tensor dall = world.out(all.values().size());
        op.keys = {all.buffer(), 0, c.ranks};
        op.dkv = dall.buffer();
        world.table.attention_backward(op, world.team);
        const Values values = dall.values();
        const auto size = static_cast<std::ptrdiff_t>(values.size()) / c.ranks;
        for (std::int64_t owner = 0; owner < c.ranks; ++owner)
            found.dkv.emplace_back(values.begin() + owner * size,
                                   values.begin() + (owner + 1) * size);
        found.dq = dq.values();
        return found;
    }
    found.dkv.resize(size_of(c.ranks));
    for (std::int64_t hop = 0; hop < c.ranks; ++hop) {
        const std::int64_t owner = (rank - hop + c.ranks) % c.ranks;
        const Tensor keys = world.in(shares.keys(whole.qkv, owner));
        const Tensor dkeys = world.out(keys.values().size());
        op.keys = {keys.buffer(), owner, 1};
        op.dkv = dkeys.buffer();
        op.continues = hop > 0;
        world.table.attention_backward(op, world.team);
        found.dkv[size_of(owner)] = dkeys.values();
    }
    found.dq = dq.values();
    return found;
}

TEST(AttentionBlock, TheirGradientsAddUpToThoseOfTheWhole) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Whole whole = whole_of(c);
        const Shares shares(c);
        const std::int64_t width = c.shape.qkv_width(), q = width - c.shape.kv_width();
        for (const bool ring : {false, true}) {
            std::vector<Values> dkv(size_of(c.ranks));
            for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
                SCOPED_TRACE(std::to_string(rank) + (ring ? " ring" : " gathered"));
                Gradients found;
                in_fp64([&](const World& world) {
                    found = differentiate(world, c, whole, rank, ring);
                    return std::vector<Tensor>{};
                });
                expect_equal_in_fp64(found.dq, shares.of(whole.dqkv, rank, width, 0, q), 1000);
                for (std::size_t owner = 0; owner < dkv.size(); ++owner) {
                    dkv[owner].resize(found.dkv[owner].size());
                    for (std::size_t i = 0; i < dkv[owner].size(); ++i)
                        dkv[owner][i] += found.dkv[owner][i];
                }
            }
            for (std::int64_t owner = 0; owner < c.ranks; ++owner)
                expect_equal_in_fp64(dkv[size_of(owner)], shares.keys(whole.dqkv, owner), 1000);
        }
    }
}

// The chunks of all ranks are the sequence, each of its tokens once, and the pairs of a query and a
// key before it are as many on each.
TEST(SequencePart, AZigzagCoversTheSequenceAndBalancesIt) {
    for (const std::int64_t ranks : {1, 2, 3, 8})
        for (const std::int64_t rows : {2, 6}) {
            std::vector<int> seen(size_of(ranks * rows));
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                const SequencePart part{ranks, rank, true};
                std::int64_t pairs = 0;
                for (std::int64_t row = 0; row < rows; ++row) {
                    const std::int64_t position = part.position_of(row, rows);
                    ++seen[size_of(position)];
                    pairs += position + 1;
                }
                // Half of rows·s, and half of each query's own pair.
                EXPECT_EQ(2 * pairs, rows * (ranks * rows) + rows);
            }
            EXPECT_EQ(std::vector<int>(seen.size(), 1), seen);
        }
}

TEST(SequencePart, PartsInARowAreInOrder) {
    for (std::int64_t rank = 0; rank < 3; ++rank)
        for (std::int64_t row = 0; row < 5; ++row)
            EXPECT_EQ((SequencePart{3, rank, false}.position_of(row, 5)), rank * 5 + row);
    EXPECT_EQ((SequencePart{}.position_of(4, 7)), 4);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
