// Runs that cannot go on: every rank ends, and says why.
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/comm/threads/thread_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;
using plan::GroupKind;
using plan::Rank;

struct Outcome {
    std::vector<std::string> messages;  // of the CommunicationError that each rank got; "": none
    std::string thrown;                 // by run_ranks
    Rank finder = -1;                   // the rank whose own message that is
};

plan::Mesh tensor(std::int64_t ranks) {
    plan::Mesh mesh;
    mesh.tensor = ranks;
    return mesh;
}

template <typename Thrown = CommunicationError, typename Body>
Outcome outcome(const plan::Mesh& mesh, const Body& body, const ThreadWorldOptions& options = {}) {
    Outcome result;
    result.messages.resize(static_cast<std::size_t>(mesh.ranks()));
    try {
        run_ranks(mesh, options, [&](Rank rank, Communicator& communicator) {
            try {
                body(rank, communicator);
            } catch (const CommunicationError& error) {
                result.messages[static_cast<std::size_t>(rank)] = error.what();
                throw;
            }
        });
        ADD_FAILURE() << "the run ended well";
    } catch (const Thrown& error) {
        result.thrown = error.what();
    }
    for (std::size_t rank = 0; rank < result.messages.size(); ++rank)
        if (result.messages[rank] == result.thrown) result.finder = static_cast<Rank>(rank);
    return result;
}

// Two ranks come with different calls; whichever comes second finds it. `calls`: as they are told.
void expect_mismatch(const Outcome& outcome, const std::vector<std::string>& calls) {
    ASSERT_GE(outcome.finder, 0) << outcome.thrown;
    const auto finder = static_cast<std::size_t>(outcome.finder);
    const std::size_t other = 1 - finder;
    const std::string fault =
        fmt::format("rank {} calls {} in its tensor group (ranks 0 1), where rank {} calls {}",
                    finder, calls[finder], other, calls[other]);
    EXPECT_EQ(outcome.thrown, fault);
    EXPECT_EQ(outcome.messages[other], fmt::format("rank {} cannot go on with {}: rank {} ended "
                                                   "the run: {}",
                                                   other, calls[other], finder, fault));
}

std::vector<float> some(std::size_t elements) {
    return std::vector<float>(elements, 1);
}

TEST(Faults, OtherOperation) {
    expect_mismatch(outcome(tensor(2),
                            [](Rank rank, Communicator& communicator) {
                                auto data = some(8);
                                communicator.set_label(rank == 0 ? "proj" : "fc2");
                                if (rank == 0)
                                    communicator.all_reduce(GroupKind::tensor, DType::fp32,
                                                            data.data(), 8);
                                else
                                    communicator.all_gather(GroupKind::tensor, DType::fp32,
                                                            data.data() + 4, data.data(), 8);
                            }),
                    {"all_reduce of 8 fp32 for \"proj\"", "all_gather of 8 fp32 for \"fc2\""});
}

TEST(Faults, OtherCount) {
    expect_mismatch(outcome(tensor(2),
                            [](Rank rank, Communicator& communicator) {
                                auto data = some(5000);
                                communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(),
                                                        rank == 0 ? 5000 : 3);
                            }),
                    {"all_reduce of 5000 fp32", "all_reduce of 3 fp32"});
}

TEST(Faults, OtherElementType) {
    expect_mismatch(outcome(tensor(2),
                            [](Rank rank, Communicator& communicator) {
                                auto data = some(8);
                                auto result = some(8);
                                communicator.all_to_all(GroupKind::tensor,
                                                        rank == 0 ? DType::fp16 : DType::bf16,
                                                        data.data(), result.data(), 8);
                            }),
                    {"all_to_all of 8 fp16", "all_to_all of 8 bf16"});
}

TEST(Faults, OtherRoot) {
    expect_mismatch(outcome(tensor(2),
                            [](Rank rank, Communicator& communicator) {
                                auto data = some(8);
                                communicator.broadcast(GroupKind::tensor, DType::i32, data.data(),
                                                       8, rank);
                            }),
                    {"broadcast of 8 i32 from member 0", "broadcast of 8 i32 from member 1"});
}

TEST(Faults, OtherReduction) {
    expect_mismatch(outcome(tensor(2),
                            [](Rank rank, Communicator& communicator) {
                                auto data = some(8);
                                communicator.all_reduce(
                                    GroupKind::tensor, DType::fp32, data.data(), 8,
                                    rank == 0 ? Reduction::sum : Reduction::max);
                            }),
                    {"all_reduce of 8 fp32", "all_reduce of 8 fp32 (max)"});
}

TEST(Faults, TransferOfOtherSize) {
    const Outcome found = outcome(tensor(2), [](Rank rank, Communicator& communicator) {
        auto data = some(10);
        communicator.set_label(rank == 0 ? "0SEND_F3" : "1RECV_F3");
        const Transfer transfer{1 - rank, rank == 0 ? Direction::send : Direction::receive,
                                data.data(), rank == 0 ? 40 : 36, 3};
        communicator.exchange({&transfer, 1});
    });
    const std::string sends = "rank 0 sends 40 bytes";
    const std::string receives = "rank 1 receives 36 bytes";
    if (found.finder == 0)
        EXPECT_EQ(found.thrown,
                  sends + " with tag 3 for \"0SEND_F3\", where " + receives + " for \"1RECV_F3\"");
    else
        EXPECT_EQ(found.thrown,
                  receives + " with tag 3 for \"1RECV_F3\", where " + sends + " for \"0SEND_F3\"");
    EXPECT_GE(found.finder, 0);
}

// Both wait for a message that the other does not send: they would for ever.
TEST(Faults, TransferWithoutPartner) {
    const Outcome found = outcome(tensor(2), [](Rank rank, Communicator& communicator) {
        auto data = some(1);
        const Transfer transfer{1 - rank, rank == 0 ? Direction::send : Direction::receive,
                                data.data(), 4, rank};
        communicator.exchange({&transfer, 1});
    });
    const std::string waits[] = {
        "rank 0 waits in exchange of 1 transfer (4 bytes with tag 0 to rank 1) for rank 1",
        "rank 1 waits in exchange of 1 transfer (4 bytes with tag 1 from rank 0) for rank 0"};
    const auto finder = static_cast<std::size_t>(found.finder);
    EXPECT_EQ(found.thrown,
              "ranks wait for one another: " + waits[finder] + "; " + waits[1 - finder]);
}

// Three ranks, each in a group that the next one does not come to.
TEST(Faults, CircleOfGroups) {
    plan::Mesh mesh;
    mesh.tensor = 2;
    mesh.data = 2;  // tensor groups 0 1, 2 3; data groups 0 2, 1 3
    const Outcome found = outcome(mesh, [](Rank rank, Communicator& communicator) {
        // 0 waits for 1, 1 for 3, 3 for 2, 2 for 0.
        communicator.barrier(rank == 0 || rank == 3 ? GroupKind::tensor : GroupKind::data);
    });
    EXPECT_EQ(found.thrown.rfind("ranks wait for one another: rank", 0), 0U) << found.thrown;
    for (const char* part : {"rank 0 waits in barrier in its tensor group (ranks 0 1) for rank 1",
                             "rank 1 waits in barrier in its data group (ranks 1 3) for rank 3",
                             "rank 2 waits in barrier in its data group (ranks 0 2) for rank 0",
                             "rank 3 waits in barrier in its tensor group (ranks 2 3) for rank 2"})
        EXPECT_NE(found.thrown.find(part), std::string::npos) << found.thrown;
    for (Rank rank = 0; rank < 4; ++rank) {
        if (rank == found.finder) continue;
        EXPECT_NE(found.messages[static_cast<std::size_t>(rank)].find(fmt::format(
                      "rank {} ended the run: ranks wait for one another", found.finder)),
                  std::string::npos);
    }
}

struct DiskFull : std::runtime_error {
    using std::runtime_error::runtime_error;
};

TEST(Faults, RankThatThrows) {
    const Outcome found = outcome<DiskFull>(tensor(3), [](Rank rank, Communicator& communicator) {
        auto data = some(8);
        communicator.set_label("norm");
        if (rank == 2) throw DiskFull("no room for step 5");
        communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), 7);
    });
    EXPECT_EQ(found.thrown, "no room for step 5");
    EXPECT_EQ(found.messages[0],
              "rank 0 cannot go on with all_reduce of 7 fp32 for \"norm\": "
              "rank 2 ended the run: no room for step 5");
    EXPECT_EQ(found.messages[1],
              "rank 1 cannot go on with all_reduce of 7 fp32 for \"norm\": "
              "rank 2 ended the run: no room for step 5");
    EXPECT_EQ(found.messages[2], "");
}

TEST(Faults, RankThatThrowsNoException) {
    EXPECT_THROW(run_ranks(tensor(2), {},
                           [](Rank rank, Communicator& communicator) {
                               if (rank == 0) throw 42;
                               EXPECT_THROW(communicator.barrier(GroupKind::world),
                                            CommunicationError);
                           }),
                 int);
}

TEST(Faults, RankThatLeavesACollective) {
    const Outcome found = outcome(tensor(2), [](Rank rank, Communicator& communicator) {
        auto data = some(8);
        communicator.set_label("head");
        if (rank == 0) communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), 8);
    });
    EXPECT_EQ(found.thrown,
              "rank 0 waits in all_reduce of 8 fp32 for \"head\" in its tensor group (ranks 0 1) "
              "for rank 1, which has left the run");
    EXPECT_EQ(found.messages[0], found.thrown);
}

TEST(Faults, RankThatLeavesATransfer) {
    const Outcome found = outcome(tensor(2), [](Rank rank, Communicator& communicator) {
        auto data = some(8);
        const Transfer transfer{1, Direction::receive, data.data(), 32, 5};
        if (rank == 0) communicator.exchange({&transfer, 1});
    });
    EXPECT_EQ(
        found.thrown,
        "rank 0 waits in exchange of 1 transfer (32 bytes with tag 5 from rank 1) for rank 1, "
        "which has left the run");
}

// A rank that has done all of its part may leave, whoever is still on the way out.
TEST(Faults, NoneWhereRanksLeaveInTurn) {
    run_ranks(tensor(4), {}, [](Rank rank, Communicator& communicator) {
        std::this_thread::sleep_for(std::chrono::milliseconds(rank));
        communicator.barrier(GroupKind::world);
    });
}

TEST(Faults, RankThatHangs) {
    ThreadWorldOptions options;
    options.timeout = std::chrono::milliseconds(50);
    std::atomic<int> told = 0;
    const Outcome found = outcome(
        tensor(3),
        [&](Rank rank, Communicator& communicator) {
            auto data = some(8);
            communicator.set_label("qkv");
            while (rank == 2 && told < 2)  // it hangs for as long as the others wait
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            try {
                communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), 8);
            } catch (const CommunicationError&) {
                ++told;
                throw;
            }
        },
        options);
    EXPECT_EQ(found.thrown,
              fmt::format("rank {} waits in all_reduce of 8 fp32 for \"qkv\" in its tensor group "
                          "(ranks 0 1 2), since 0.05 s, for rank 2; rank 2 waits for nobody",
                          found.finder));
    EXPECT_EQ(
        found.messages[2],
        fmt::format("rank 2 cannot go on with all_reduce of 8 fp32 for \"qkv\": rank {} ended "
                    "the run: {}",
                    found.finder, found.thrown));
}

TEST(Faults, AbortEndsAllRanks) {
    const Outcome found = outcome(tensor(3), [](Rank rank, Communicator& communicator) {
        if (rank == 1) {
            communicator.abort("interrupted");
            communicator.abort("a second thought");
        }
        communicator.barrier(GroupKind::world);
    });
    EXPECT_EQ(found.thrown, "rank 1 ended the run: interrupted");
    for (Rank rank = 0; rank < 3; ++rank)
        EXPECT_EQ(
            found.messages[static_cast<std::size_t>(rank)],
            fmt::format("rank {} cannot go on with barrier: rank 1 ended the run: interrupted",
                        rank));
}

// As an executor does: its main thread fails while its communication thread waits.
TEST(Faults, AbortFreesTheOwnCommunicationThread) {
    const Outcome found = outcome<DiskFull>(tensor(2), [](Rank rank, Communicator& communicator) {
        if (rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            communicator.barrier(GroupKind::tensor);
        }
        std::thread communication([&] {
            auto data = some(5000);
            const Transfer transfer{1, Direction::send, data.data(), 20000, 0};
            EXPECT_THROW(communicator.exchange({&transfer, 1}), CommunicationError);
        });
        communicator.abort("kernel failed");
        communication.join();
        throw DiskFull("kernel failed: no room");
    });
    EXPECT_EQ(found.thrown, "kernel failed: no room");
    EXPECT_EQ(found.messages[1],
              "rank 1 cannot go on with barrier: rank 0 ended the run: kernel failed");
}

// One rank fails at any time while the others communicate out of memory that they free as soon as a
// call is over: for the sanitizers to watch.
TEST(Faults, NobodyReadsTheMemoryOfARankThatIsOut) {
    plan::Mesh mesh;
    mesh.tensor = 3;
    mesh.data = 2;
    for (unsigned trial = 0; trial < 40; ++trial)
        EXPECT_THROW(run_ranks(mesh, {},
                               [&](Rank rank, Communicator& communicator) {
                                   if (rank == 5) {
                                       std::this_thread::sleep_for(
                                           std::chrono::microseconds(trial * 97 % 1500));
                                       throw DiskFull("any time");
                                   }
                                   while (rank < 3) {
                                       auto data = some(20000);
                                       communicator.all_reduce(GroupKind::tensor, DType::fp32,
                                                               data.data(), 20000);
                                   }
                                   while (true) {  // ranks 3 and 4, with each other
                                       auto out = some(20000);
                                       auto in = some(20000);
                                       const Transfer both[] = {
                                           {7 - rank, Direction::send, out.data(), 80000, 0},
                                           {7 - rank, Direction::receive, in.data(), 80000, 0}};
                                       communicator.exchange(both);
                                   }
                               }),
                     DiskFull);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
