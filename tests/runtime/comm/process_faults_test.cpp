// Runs of processes that cannot go on: every rank ends, and says why, with host, op and peer. Ranks
// are threads with a connection each; that a process dies is tested in tests/cli.
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/comm/processes/clock_offset.hpp"
#include "runtime/comm/processes/process_communicator.hpp"
#include "runtime/comm/processes/tcp_transport.hpp"
#include "tests/runtime/comm/worlds.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;
using plan::DType;
using plan::GroupKind;
using plan::Rank;
using testing::AnyOf;

// Of the CommunicationError that each rank got; "": none.
using Messages = std::vector<std::string>;

Messages messages_of(std::int64_t ranks, const std::function<void(plan::Rank, Communicator&)>& body,
                     std::chrono::milliseconds timeout = 10min) {
    Messages messages(static_cast<std::size_t>(ranks));
    plan::Mesh mesh;
    mesh.tensor = ranks;
    EXPECT_ANY_THROW(run_world(
        World::tcp, mesh,
        [&](plan::Rank rank, Communicator& communicator) {
            try {
                body(rank, communicator);
                communicator.barrier(GroupKind::world);
            } catch (const CommunicationError& error) {
                messages[static_cast<std::size_t>(rank)] = error.what();
                throw;
            }
        },
        timeout));
    return messages;
}

std::string on_host(Rank rank) {
    return named(World::tcp, rank);
}

// Either rank finds it, or is told before it does. `calls`: as they are told.
void expect_mismatch_of(const std::vector<std::string>& calls,
                        const std::function<void(plan::Rank, Communicator&)>& body) {
    const Messages messages = messages_of(2, body);
    const auto found = [&](Rank finder) {
        const auto own = static_cast<std::size_t>(finder);
        return fmt::format("{} calls {} in its tensor group (ranks 0 1), where {} calls {}",
                           on_host(finder), calls[own], on_host(1 - finder), calls[1 - own]);
    };
    for (const Rank rank : {0, 1}) {
        const auto own = static_cast<std::size_t>(rank);
        EXPECT_THAT(
            messages[own],
            AnyOf(found(rank),
                  fmt::format("{} cannot go on with {} in its tensor group (ranks 0 1): {} "
                              "ended the run: {}",
                              on_host(rank), calls[own], on_host(1 - rank), found(1 - rank))));
    }
}

std::vector<float> ones(std::size_t elements) {
    return std::vector<float>(elements, 1);
}

TEST(ProcessFaults, OtherOperation) {
    expect_mismatch_of({"all_reduce of 8 fp32 for \"proj\"", "all_gather of 8 fp32 for \"fc2\""},
                       [](Rank rank, Communicator& communicator) {
                           auto data = ones(8);
                           communicator.set_label(rank == 0 ? "proj" : "fc2");
                           if (rank == 0)
                               communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(),
                                                       8);
                           else
                               communicator.all_gather(GroupKind::tensor, DType::fp32,
                                                       data.data() + 4, data.data(), 8);
                       });
}

TEST(ProcessFaults, OtherCountTypeRootAndReduction) {
    expect_mismatch_of({"all_reduce of 5000 fp32", "all_reduce of 3 fp32"},
                       [](Rank rank, Communicator& communicator) {
                           auto data = ones(5000);
                           communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(),
                                                   rank == 0 ? 5000 : 3);
                       });
    expect_mismatch_of({"all_to_all of 8 fp16", "all_to_all of 8 bf16"},
                       [](Rank rank, Communicator& communicator) {
                           auto data = ones(8), result = ones(8);
                           communicator.all_to_all(GroupKind::tensor,
                                                   rank == 0 ? DType::fp16 : DType::bf16,
                                                   data.data(), result.data(), 8);
                       });
    expect_mismatch_of({"all_reduce of 8 fp32", "all_reduce of 8 fp32 (max)"},
                       [](Rank rank, Communicator& communicator) {
                           auto data = ones(8);
                           communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), 8,
                                                   rank == 0 ? Reduction::sum : Reduction::max);
                       });
}

// Two roots: both send and go on, to where neither has what it needs.
TEST(ProcessFaults, TwoRootsAreFoundInTheNextCall) {
    const Messages messages = messages_of(2, [](Rank rank, Communicator& communicator) {
        auto data = ones(8);
        communicator.broadcast(GroupKind::tensor, DType::i32, data.data(), 8, rank);
    });
    for (const std::string& message : messages)
        EXPECT_THAT(message, testing::HasSubstr("broadcast of 8 i32 from member"));
}

TEST(ProcessFaults, TransferOfOtherSizeIsFoundByItsReceiver) {
    const Messages messages = messages_of(2, [](Rank rank, Communicator& communicator) {
        auto data = ones(10);
        communicator.set_label(rank == 0 ? "0SEND_F3" : "1RECV_F3");
        const Transfer transfer{1 - rank, rank == 0 ? Direction::send : Direction::receive,
                                data.data(), rank == 0 ? 40 : 36, 3};
        communicator.exchange({&transfer, 1});
    });
    const std::string found = fmt::format(
        "{} receives 36 bytes with tag 3 for \"1RECV_F3\", where {} sends 40 bytes for "
        "\"0SEND_F3\"",
        on_host(1), on_host(0));
    EXPECT_EQ(messages[1], found);
    EXPECT_EQ(messages[0],
              fmt::format("{} cannot go on with barrier for \"0SEND_F3\" in its world group "
                          "(ranks 0 1): {} ended the run: {}",
                          on_host(0), on_host(1), found));
}

TEST(ProcessFaults, CollectiveWhereATransferIsNeeded) {
    const Messages messages = messages_of(2, [](Rank rank, Communicator& communicator) {
        auto data = ones(8);
        const Transfer transfer{0, Direction::receive, data.data(), 32, 5};
        if (rank == 1) communicator.exchange({&transfer, 1});
    });
    EXPECT_EQ(messages[1], fmt::format("{} calls exchange of 1 transfer, where {} calls barrier in "
                                       "its world group",
                                       on_host(1), on_host(0)));
}

struct NoRoom : std::runtime_error {
    using std::runtime_error::runtime_error;
};

TEST(ProcessFaults, RankThatThrows) {
    Messages messages = messages_of(3, [](Rank rank, Communicator& communicator) {
        auto data = ones(8);
        communicator.set_label("norm");
        if (rank == 2) throw NoRoom("no room for step 5");
        communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), 7);
    });
    for (const Rank rank : {0, 1})
        EXPECT_EQ(
            messages[static_cast<std::size_t>(rank)],
            fmt::format("{} cannot go on with all_reduce of 7 fp32 for \"norm\" in its tensor "
                        "group (ranks 0 1 2): {} ended the run: no room for step 5",
                        on_host(rank), on_host(2)));
    EXPECT_EQ(messages[2], "");
}

// It hangs for as long as the others wait.
TEST(ProcessFaults, RankThatHangs) {
    std::atomic<int> told = 0;
    const Messages messages = messages_of(
        3,
        [&](Rank rank, Communicator& communicator) {
            auto data = ones(8);
            communicator.set_label("qkv");
            while (rank == 2 && told < 2)
                std::this_thread::sleep_for(1ms);
            try {
                communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), 8);
            } catch (const CommunicationError&) {
                ++told;
                throw;
            }
        },
        300ms);
    const std::string call = "all_reduce of 8 fp32 for \"qkv\" in its tensor group (ranks 0 1 2)";
    const auto waits = [&](Rank rank) {
        return fmt::format("{} waits in {}, since 0.3 s, for {}", on_host(rank), call, on_host(2));
    };
    const auto is_told = [&](Rank rank, Rank by) {
        return fmt::format("{} cannot go on with {}: {} ended the run: {}", on_host(rank), call,
                           on_host(by), waits(by));
    };
    EXPECT_THAT(messages[0], AnyOf(waits(0), is_told(0, 1)));
    EXPECT_THAT(messages[1], AnyOf(waits(1), is_told(1, 0)));
    EXPECT_THAT(messages[2], AnyOf(is_told(2, 0), is_told(2, 1)));
}

// As an executor does: its main thread fails while its communication thread waits.
TEST(ProcessFaults, AbortFreesTheOwnCommunicationThread) {
    const Messages messages = messages_of(2, [](Rank rank, Communicator& communicator) {
        auto never = ones(1);
        const Transfer from_zero{0, Direction::receive, never.data(), 4, 1};
        if (rank == 1) return communicator.exchange({&from_zero, 1});
        std::thread communication([&] {
            auto data = ones(5000);
            const Transfer transfer{1, Direction::receive, data.data(), 20000, 0};
            EXPECT_THROW(communicator.exchange({&transfer, 1}), CommunicationError);
        });
        communicator.abort("kernel failed");
        communication.join();
        throw NoRoom("kernel failed: no room");
    });
    EXPECT_THAT(messages[1],
                testing::EndsWith(fmt::format("{} ended the run: kernel failed", on_host(0))));
}

TEST(ProcessFaults, WhatARankWaitsForCanBeAsked) {
    std::atomic<bool> asked = false;
    plan::Mesh mesh;
    mesh.tensor = 2;
    run_world(World::tcp, mesh, [&](Rank rank, Communicator& communicator) {
        if (rank == 1) {
            while (!asked)
                std::this_thread::sleep_for(1ms);
            return communicator.barrier(GroupKind::tensor);
        }
        std::thread observer([&] {
            std::optional<Waiting> waiting;
            do {
                waiting = communicator.waiting();
            } while (!waiting || waiting->ranks.empty());
            EXPECT_EQ(waiting->call, "barrier for \"head\" in its tensor group (ranks 0 1)");
            EXPECT_EQ(waiting->ranks, std::vector<Rank>{1});
            asked = true;
        });
        communicator.set_label("head");
        communicator.barrier(GroupKind::tensor);
        observer.join();
        EXPECT_FALSE(communicator.waiting());
    });
}

// Clocks that are 1,000 s before rank 0's and 2,000 s behind it: more than any message takes.
TEST(ClockOffset, IsWhatAClockIsWrongBy) {
    plan::Mesh mesh;
    mesh.tensor = 4;
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t wrong_by[] = {0, 1000 * kSecond, 0, -2000 * kSecond};
    run_world(World::tcp, mesh, [&](Rank rank, Communicator& communicator) {
        const std::int64_t wrong = wrong_by[rank];
        const std::vector<Rank> elsewhere = {1, 3};
        const std::int64_t offset = clock_offset(communicator, elsewhere, [&] {
            const auto now = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() + wrong;
        });
        EXPECT_NEAR(static_cast<double>(offset), static_cast<double>(-wrong),
                    wrong == 0 ? 0.0 : 100.0 * kSecond);
    });
}

// Somebody else's connection, at the port of a rank.
TEST(ProcessFaults, StrangersAtAPortAreShownOut) {
    Socket listening = listen_at("127.0.0.1", 0);
    const std::int64_t port = listening_port(listening);
    TcpTransportOptions zero, one;
    zero.addresses = one.addresses = {{"127.0.0.1", port}, {"", 0}};
    zero.meeting = one.meeting = 77;
    zero.key = one.key = run_key("run", "secret");
    zero.listening = std::move(listening);
    one.rank = 1;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    const Socket silent = connect_before("127.0.0.1", port, deadline);
    const Socket web = connect_before("127.0.0.1", port, deadline);
    const std::string request = "GET / HTTP/1.1\r\nHost: node1\r\n\r\n";
    web.send_all(std::as_bytes(std::span(request)));
    // Each has one thing wrong: the secret, the meeting, whom it is for, who it is from.
    std::vector<Socket> forged;
    for (const auto& greeting :
         {greeting_of(run_key("run", "guess"), 77, 1, 0), greeting_of(zero.key, 78, 1, 0),
          greeting_of(zero.key, 77, 1, 1), greeting_of(zero.key, 77, 0, 0),
          greeting_of(zero.key, 77, 2, 0)}) {
        forged.push_back(connect_before("127.0.0.1", port, deadline));
        forged.back().send_all(greeting);
    }
    TcpTransportOptions other = std::move(one);
    const auto at_zero = tcp_transport(std::move(zero));
    const auto at_one = tcp_transport(std::move(other));
    MessageHead head;
    head.bytes = 3;
    const std::vector<std::byte> body(3, std::byte{9});
    at_one->send(0, head, body.data());
    const std::vector<Rank> from = {1};
    std::optional<MessageHead> come;
    while (!come) {
        at_zero->progress(from, 100ms);
        come = at_zero->take_head(1);
    }
    std::vector<std::byte> received(3);
    at_zero->receive(1, received.data());
    while (!at_zero->received(1))
        at_zero->progress(from, 100ms);
    EXPECT_EQ(received, body);
}

// Of what was not asked for yet, no more than there is room for.
TEST(ProcessFaults, MoreThanMayBeHeldIsRefused) {
    Socket listening = listen_at("127.0.0.1", 0);
    TcpTransportOptions zero, one;
    zero.addresses = one.addresses = {{"127.0.0.1", listening_port(listening)}, {"", 0}};
    zero.listening = std::move(listening);
    one.rank = 1;
    const auto at_zero = tcp_transport(std::move(zero)), at_one = tcp_transport(std::move(one));
    plan::Mesh mesh;
    mesh.tensor = 2;
    ProcessCommunicatorOptions options;
    options.abort = [](std::string_view) {};
    options.most_early_bytes = 3000;
    ProcessCommunicator communicator(mesh, 0, *at_zero, options);
    const std::vector<std::byte> body(2000);
    MessageHead head;
    head.call.operation = Operation::exchange;
    head.call.label = "send";
    head.bytes = 2000;
    for (const std::int64_t tag : {5, 6}) {
        head.tag = tag;
        at_one->send(0, head, body.data());
    }
    EXPECT_THAT([&] { communicator.barrier(GroupKind::tensor); },
                testing::ThrowsMessage<CommunicationError>(
                    "rank 1 sends 2000 bytes with tag 6 for \"send\" before rank 0 asks for them, "
                    "which holds 2000 of others already and has no room for these"));
}

TEST(MessageHeads, ComeBackAsTheyWere) {
    MessageHead head;
    head.call = {Operation::all_reduce, GroupKind::data, DType::bf16, 12, 3, Reduction::max, "qkv"};
    head.part = 5;
    head.tag = -2;
    head.bytes = 24;
    const std::vector<std::byte> bytes = head.encoded();
    EXPECT_EQ(head_length(bytes), bytes.size());
    const MessageHead back = read_head(bytes);
    EXPECT_TRUE(same_call(back.call, head.call));
    EXPECT_EQ(back.call.group, head.call.group);
    EXPECT_EQ(back.label, "qkv");
    EXPECT_EQ(back.part, 5U);
    EXPECT_EQ(back.tag, -2);
    EXPECT_EQ(back.bytes, 24);
    head.call.label = std::string_view(
        "a label longer than any that a plan has, and longer than "
        "what a head may hold of one, of which the first bytes are "
        "kept: enough to find the op in the plan's text, which is "
        "all that it is for, when a rank has to tell another what "
        "it was doing when it went wrong");
    EXPECT_EQ(head.encoded().size(), kLongestHead);
    EXPECT_EQ(read_head(head.encoded()).label, head.call.label.substr(0, 256));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
