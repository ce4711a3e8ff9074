// Transfers between two ranks: rendezvous, in any order within an exchange.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/runtime/comm/worlds.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using Words = std::vector<std::int64_t>;

Transfer send(plan::Rank peer, Words& words, std::int64_t tag = 0) {
    return {peer, Direction::send, words.data(), static_cast<std::int64_t>(words.size() * 8), tag};
}

Transfer receive(plan::Rank peer, Words& words, std::int64_t tag = 0) {
    return {peer, Direction::receive, words.data(), static_cast<std::int64_t>(words.size() * 8),
            tag};
}

// What `from` sends: numbers that nobody else sends.
Words message(plan::Rank from, std::size_t size, std::int64_t tag = 0) {
    Words words(size);
    std::iota(words.begin(), words.end(), 1'000'000 * (from + 1) + 10'000 * tag);
    return words;
}

plan::Mesh pipeline(std::int64_t ranks) {
    plan::Mesh mesh;
    mesh.pipeline = ranks;
    return mesh;
}

class Exchange : public testing::TestWithParam<World> {};

TEST_P(Exchange, GoesRoundARing) {
    for (std::int64_t ranks = 2; ranks <= 8; ++ranks)
        run_world(GetParam(), pipeline(ranks), [&](plan::Rank rank, Communicator& communicator) {
            const plan::Rank next = (rank + 1) % ranks;
            const plan::Rank before = (rank + ranks - 1) % ranks;
            for (const std::size_t size : {0U, 1U, 5000U}) {
                Words out = message(rank, size);
                Words in(size);
                // Ranks name their two transfers in different orders.
                std::vector<Transfer> transfers{send(next, out), receive(before, in)};
                if (rank % 2 == 1) std::swap(transfers[0], transfers[1]);
                communicator.exchange(transfers);
                EXPECT_EQ(in, message(before, size));
            }
        });
}

// Hop after hop every rank sees what every other one had: ring attention's way.
TEST_P(Exchange, HandsOnHopByHop) {
    constexpr std::int64_t kRanks = 5;
    run_world(GetParam(), pipeline(kRanks), [](plan::Rank rank, Communicator& communicator) {
        Words mine = message(rank, 777);
        Words theirs(777);
        for (std::int64_t hop = 1; hop < kRanks; ++hop) {
            const Transfer both[] = {send((rank + 1) % kRanks, mine),
                                     receive((rank + kRanks - 1) % kRanks, theirs)};
            communicator.exchange(both);
            EXPECT_EQ(theirs, message((rank + kRanks - hop) % kRanks, 777));
            std::swap(mine, theirs);
        }
    });
}

TEST_P(Exchange, MeetsByTagAndThenInOrder) {
    run_world(GetParam(), pipeline(2), [](plan::Rank rank, Communicator& communicator) {
        Words a = message(0, 10, 1);
        Words b = message(0, 20, 2);
        Words c = message(0, 20, 3);
        if (rank == 0) {
            const Transfer all[] = {send(1, a, 7), send(1, b, 8), send(1, c, 8)};
            communicator.exchange(all);
        } else {
            Words x(20);
            Words y(20);
            Words z(10);
            const Transfer all[] = {receive(0, x, 8), receive(0, y, 8), receive(0, z, 7)};
            communicator.exchange(all);
            EXPECT_EQ(x, b);
            EXPECT_EQ(y, c);
            EXPECT_EQ(z, a);
        }
    });
}

// One rank issues singly what the other issues as one.
TEST_P(Exchange, MeetsOneByOne) {
    run_world(GetParam(), pipeline(2), [](plan::Rank rank, Communicator& communicator) {
        Words forward = message(0, 3000);
        Words gradient = message(1, 2000);
        Words in(rank == 0 ? 2000 : 3000);
        if (rank == 0) {
            const Transfer both[] = {receive(1, in), send(1, forward)};
            communicator.exchange(both);
            EXPECT_EQ(in, gradient);
        } else {
            const Transfer first = receive(0, in);
            communicator.exchange({&first, 1});
            EXPECT_EQ(in, forward);
            const Transfer second = send(0, gradient);
            communicator.exchange({&second, 1});
        }
    });
}

// All with all at once, each in an order of its own, at any time.
TEST_P(Exchange, GoesCrisscross) {
    constexpr std::int64_t kRanks = 6;
    run_world(GetParam(), pipeline(kRanks), [](plan::Rank rank, Communicator& communicator) {
        std::minstd_rand random(static_cast<unsigned>(rank) + 1);
        for (int round = 0; round < 30; ++round) {
            const std::size_t size = round % 3 == 0 ? 4099 : 5;
            std::vector<Words> out;
            std::vector<Words> in(kRanks, Words(size));
            for (plan::Rank to = 0; to < kRanks; ++to)
                out.push_back(message(rank, size, to));
            std::vector<Transfer> transfers;
            for (plan::Rank other = 0; other < kRanks; ++other) {
                if (other == rank) continue;
                const auto i = static_cast<std::size_t>(other);
                transfers.push_back(send(other, out[i], round));
                transfers.push_back(receive(other, in[i], round));
            }
            std::shuffle(transfers.begin(), transfers.end(), random);
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
            communicator.exchange(transfers);
            in[static_cast<std::size_t>(rank)] = message(rank, size, rank);
            for (plan::Rank other = 0; other < kRanks; ++other)
                EXPECT_EQ(in[static_cast<std::size_t>(other)], message(other, size, rank));
        }
    });
}

TEST_P(Exchange, OfNothingNeedsNobody) {
    run_world(GetParam(), pipeline(2), [](plan::Rank rank, Communicator& communicator) {
        if (rank == 0) communicator.exchange({});
    });
}

// Larger than anything on the way holds: both sides must send and receive at once.
TEST_P(Exchange, OfLargeMessagesInBothDirections) {
    run_world(GetParam(), pipeline(2), [](plan::Rank rank, Communicator& communicator) {
        Words out = message(rank, 4'000'000);
        Words in(out.size());
        const Transfer both[] = {send(1 - rank, out), receive(1 - rank, in)};
        communicator.exchange(both);
        EXPECT_EQ(in, message(1 - rank, out.size()));
    });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Exchange, each_world(),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
