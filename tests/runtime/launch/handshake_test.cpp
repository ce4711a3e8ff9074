// The meeting of ranks as a model: every order in which what ranks of two runs say to two ranks 0
// can come, with nobody else's bytes let in.
#include "runtime/launch/handshake.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

Nonce nonce(int number) {
    Nonce nonce{};
    nonce[0] = static_cast<std::byte>(number);
    return nonce;
}

// One attempt of a rank at a rank 0, of whatever runs: messages go back and forth until both are
// done; the two sides never wait for each other without a message on its way.
struct Attempt {
    Approach rank;
    Arrival zero;
    std::vector<std::byte> to_zero, to_rank;

    Attempt(const RunKey& of_rank, const RunKey& of_zero, std::int64_t number, std::int64_t size)
        : rank(of_rank, nonce(static_cast<int>(number)), number, size),
          zero(of_zero, nonce(100 + static_cast<int>(number))),
          to_zero(rank.hello()) {}

    // Delivers what can be delivered; false where nothing can.
    bool step() {
        if (zero.wanted() > 0 && to_zero.size() >= zero.wanted()) {
            to_rank = zero.take(to_zero);
            to_zero.clear();
            return true;
        }
        if (rank.state() == Approach::State::challenge && to_rank.size() >= rank.wanted()) {
            to_zero = rank.take(to_rank);
            to_rank.clear();
            return true;
        }
        return false;
    }
};

TEST(Handshake, TakesInItsOwnAloneInEveryOrder) {
    const RunKey ours = run_key("a", ""), theirs = run_key("b", "");
    for (std::int64_t size = 2; size <= 4; ++size) {
        // Ranks 1 … size−1 of both runs come to the port that rank 0 of `ours` holds.
        struct Comer {
            bool own;
            std::int64_t rank;
        };
        std::vector<Comer> comers;
        for (const bool own : {true, false})
            for (std::int64_t rank = 1; rank < size; ++rank)
                comers.push_back({own, rank});
        // Each has three deliveries at most: an order of all is a word over the comers.
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < comers.size(); ++i)
            order.insert(order.end(), 3, i);
        std::int64_t orders = 0;
        do {
            std::vector<Attempt> attempts;
            for (const Comer& comer : comers)
                attempts.emplace_back(comer.own ? ours : theirs, ours, comer.rank, size);
            for (const std::size_t i : order)
                attempts[i].step();
            for (std::size_t i = 0; i < comers.size(); ++i) {
                const Arrival::State at_zero = attempts[i].zero.state();
                if (comers[i].own) {
                    ASSERT_EQ(at_zero, Arrival::State::proven);
                    ASSERT_EQ(attempts[i].zero.rank(), comers[i].rank);
                } else {
                    ASSERT_EQ(attempts[i].rank.state(), Approach::State::stranger);
                    ASSERT_NE(at_zero, Arrival::State::proven);
                }
            }
        } while (++orders < 20'000 && std::next_permutation(order.begin(), order.end()));
        EXPECT_GT(orders, size == 2 ? 19 : 1000);
    }
}

TEST(Handshake, EachFlippedBitMakesAStranger) {
    const RunKey key = run_key("run", "secret");
    Attempt good(key, key, 1, 2);
    const std::vector<std::byte> hello = good.to_zero;
    ASSERT_TRUE(good.step());
    const std::vector<std::byte> challenge = good.to_rank;
    ASSERT_TRUE(good.step());
    const std::vector<std::byte> proof = good.to_zero;
    for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit) {
        Arrival zero(key, nonce(101));
        zero.take(hello);
        std::vector<std::byte> bad = proof;
        bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        zero.take(bad);
        ASSERT_EQ(zero.state(), Arrival::State::stranger) << bit;
    }
    for (std::size_t bit = 0; bit < 8 * challenge.size(); ++bit) {
        Approach rank(key, nonce(1), 1, 2);
        std::vector<std::byte> bad = challenge;
        bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        EXPECT_TRUE(rank.take(bad).empty());
        ASSERT_EQ(rank.state(), Approach::State::stranger) << bit;
    }
    for (std::size_t bit = 0; bit < 8 * hello.size(); ++bit) {  // rank, size and nonce are marked
        Arrival zero(key, nonce(101));
        std::vector<std::byte> bad = hello;
        bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        const auto reply = zero.take(bad);
        if (zero.state() == Arrival::State::stranger) continue;
        Approach rank(key, nonce(1), 1, 2);
        rank.take(reply);
        ASSERT_EQ(rank.state(), Approach::State::stranger) << bit;
    }
}

// Who hears a whole meeting can do nothing with it in the next: the nonces are others.
TEST(Handshake, WhatWasSaidOnceIsWorthNothingAgain) {
    const RunKey key = run_key("run", "secret");
    Attempt good(key, key, 1, 2);
    const std::vector<std::byte> hello = good.to_zero;
    good.step();
    good.step();
    Arrival next(key, nonce(7));
    next.take(hello);
    next.take(good.to_zero);
    EXPECT_EQ(next.state(), Arrival::State::stranger);
}

TEST(Handshake, NoTwoPairsOfNameAndSecretAreOneKey) {
    const std::set<RunKey> keys = {run_key("ab", ""), run_key("a", "b"), run_key("", "ab"),
                                   run_key("b", "a"), run_key("ab", "ab")};
    EXPECT_EQ(keys.size(), 5U);
}

TEST(Handshake, ARefusalIsPlainText) {
    const RunKey key = run_key("run", "");
    Attempt attempt(key, key, 1, 2);
    while (attempt.step()) {
    }
    ASSERT_EQ(attempt.rank.state(), Approach::State::length);
    const auto answer = answer_of("\x1b[31mno\nmore");
    attempt.rank.take(std::span(answer).first(8));
    attempt.rank.take(std::span(answer).subspan(8));
    EXPECT_EQ(attempt.rank.state(), Approach::State::refused);
    EXPECT_EQ(attempt.rank.refusal(), "?[31mno\nmore");
}

TEST(Handshake, ALongRefusalIsNoRefusal) {
    const RunKey key = run_key("run", "");
    Attempt attempt(key, key, 1, 2);
    while (attempt.step()) {
    }
    const std::vector<std::byte> length(8, std::byte{0x7f});
    attempt.rank.take(length);
    EXPECT_EQ(attempt.rank.state(), Approach::State::stranger);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
