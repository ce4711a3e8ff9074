// The same behaviour over threads and over TCP; and what only connections have: ranks that are
// killed, that are of another run, that never come.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/launch/connect_ranks.hpp"
#include "runtime/launch/handshake.hpp"
#include "runtime/launch/inbox.hpp"
#include "runtime/launch/socket.hpp"
#include "runtime/launch/tcp_plane.hpp"
#include "runtime/launch/thread_planes.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using Bytes = ControlPlane::Bytes;
using Body = std::function<void(ControlPlane&)>;

Bytes bytes(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    return {raw.begin(), raw.end()};
}
std::string text(const Bytes& raw) {
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

enum class Carrier { threads, tcp };

Launch loopback(std::int64_t rank, std::int64_t size, std::int64_t port) {
    return {Launcher::torchrun, rank, size, rank, size, "127.0.0.1", port};
}

// Runs `body` on every rank, each on a thread; the message of the CommunicationError of each, ""
// where it had none.
std::vector<std::string> outcomes(Carrier carrier, std::int64_t size, const Body& body) {
    std::vector<std::string> messages(static_cast<std::size_t>(size));
    auto planes = thread_planes(size);
    const std::int64_t port = free_loopback_port();
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] {
            std::unique_ptr<ControlPlane>& plane = planes[static_cast<std::size_t>(rank)];
            try {
                if (carrier == Carrier::tcp) {
                    plane = nullptr;
                    plane = tcp_plane(loopback(rank, size, port));
                }
                body(*plane);
            } catch (const CommunicationError& error) {
                messages[static_cast<std::size_t>(rank)] = error.what();
            }
            plane = nullptr;
        });
    for (std::thread& thread : threads)
        thread.join();
    return messages;
}

const std::vector<std::string> kAllWell(4);

class Planes : public testing::TestWithParam<Carrier> {};

TEST_P(Planes, RankZerosBytesComeToAll) {
    const Bytes large(3'000'000, std::byte{7});
    const auto messages = outcomes(GetParam(), 4, [&](ControlPlane& plane) {
        for (const Bytes& sent : {bytes("an id"), Bytes(), large}) {
            Bytes data = plane.rank() == 0 ? sent : bytes("other");
            plane.broadcast(data);
            EXPECT_EQ(data, sent);
        }
        plane.finish();
    });
    EXPECT_EQ(messages, kAllWell);
}

TEST_P(Planes, GatherKeepsEachRanksOwnSize) {
    const auto own = [](std::int64_t rank) {
        return std::string(static_cast<std::size_t>(rank * 5000), 'a');
    };
    const auto messages = outcomes(GetParam(), 4, [&](ControlPlane& plane) {
        const std::vector<Bytes> parts = plane.gather(bytes(own(plane.rank())));
        ASSERT_EQ(parts.size(), plane.rank() == 0 ? 4U : 0U);
        for (std::size_t rank = 0; rank < parts.size(); ++rank)
            EXPECT_EQ(text(parts[rank]), own(static_cast<std::int64_t>(rank)));
        const std::vector<Bytes> all = plane.all_gather(bytes(own(plane.rank())));
        ASSERT_EQ(all.size(), 4U);
        for (std::size_t rank = 0; rank < all.size(); ++rank)
            EXPECT_EQ(text(all[rank]), own(static_cast<std::int64_t>(rank)));
        plane.finish();
    });
    EXPECT_EQ(messages, kAllWell);
}

// ((1e16 + 1) + 1) + 1 is 1e16: each 1 is half of what a double there can tell. Another order of
// the same addends is 1e16 + 4 or so.
TEST_P(Planes, SumsInTheOrderOfRanks) {
    const auto messages = outcomes(GetParam(), 4, [&](ControlPlane& plane) {
        EXPECT_EQ(plane.sum(plane.rank() == 0 ? 1e16 : 1.0), 1e16);
        EXPECT_EQ(plane.sum(plane.rank() == 3 ? 1e16 : 1.0), 1e16 + 4);
        plane.barrier();
        plane.finish();
    });
    EXPECT_EQ(messages, kAllWell);
}

TEST_P(Planes, AnAbortEndsRanksThatWaitAndRanksThatComeLater) {
    for (std::int64_t guilty = 0; guilty < 4; ++guilty) {
        const std::string told = fmt::format("rank {} ended the run: no token 9", guilty);
        const auto messages = outcomes(GetParam(), 4, [&](ControlPlane& plane) {
            plane.barrier();
            if (plane.rank() == guilty) {
                plane.abort("no token 9");
                plane.abort("a second reason");
            }
            if (plane.rank() == (guilty + 1) % 4) {  // is busy with something else
                for (;;) {
                    plane.check();
                    std::this_thread::yield();
                }
            }
            for (;;)
                plane.barrier();
        });
        EXPECT_EQ(messages, std::vector<std::string>(4, told));
    }
}

TEST_P(Planes, ARankThatLeavesEndsTheRun) {
    for (const std::int64_t guilty : {0, 2}) {
        const auto messages = outcomes(GetParam(), 4, [&](ControlPlane& plane) {
            plane.barrier();
            if (plane.rank() == guilty) return;
            plane.finish();
        });
        std::vector<std::string> expected(
            4,
            fmt::format("rank {} ended the run: it left before the others had finished", guilty));
        expected[static_cast<std::size_t>(guilty)] = "";
        EXPECT_EQ(messages, expected);
    }
}

TEST_P(Planes, RanksThatDoNotDoTheSame) {
    const auto messages = outcomes(GetParam(), 2, [&](ControlPlane& plane) {
        if (plane.rank() == 0)
            plane.gather({});
        else
            plane.finish();
    });
    EXPECT_EQ(messages[0],
              "rank 0 ended the run: it calls gather of the control plane, where rank 1 calls "
              "finish");
    EXPECT_EQ(messages[1], messages[0]);
}

INSTANTIATE_TEST_SUITE_P(Carriers, Planes, testing::Values(Carrier::threads, Carrier::tcp),
                         [](const auto& tested) {
                             return tested.param == Carrier::tcp ? "Tcp" : "Threads";
                         });

// What a rank of its own process said with its exit; -1: it was killed.
struct Process {
    pid_t id = 0;
    int pipe = -1;
};

Process start(const std::function<std::string()>& body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t id = fork();
    if (id == 0) {
        close(ends[0]);
        std::string said;
        try {
            said = body();
        } catch (const std::exception& error) {
            said = error.what();
        }
        const bool written =
            write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
        _exit(written ? 0 : 1);
    }
    close(ends[1]);
    return {id, ends[0]};
}

std::string said(const Process& process) {
    std::string all;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(process.pipe, buffer, sizeof buffer)) > 0;)
        all.append(buffer, static_cast<std::size_t>(got));
    close(process.pipe);
    int status = 0;
    waitpid(process.id, &status, 0);
    return WIFSIGNALED(status) ? "killed" : all;
}

TEST(TcpPlane, AKilledRankEndsTheOthers) {
    for (const std::int64_t guilty : {0, 2}) {
        const std::int64_t port = free_loopback_port();
        std::vector<Process> processes;
        for (std::int64_t rank = 0; rank < 4; ++rank)
            processes.push_back(start([&]() -> std::string {
                const auto plane = tcp_plane(loopback(rank, 4, port));
                plane->barrier();
                if (rank == guilty) raise(SIGKILL);
                plane->barrier();
                return "went on";
            }));
        for (std::int64_t rank = 0; rank < 4; ++rank)
            EXPECT_EQ(
                said(processes[static_cast<std::size_t>(rank)]),
                rank == guilty
                    ? "killed"
                    : fmt::format("rank {} has died or was cut off: its connection ended", guilty));
    }
}

std::string refusal(const std::function<void()>& attempt) {
    try {
        attempt();
    } catch (const CommunicationError& error) {
        return error.what();
    }
    return "";
}

using namespace std::chrono_literals;

TEST(TcpPlane, RefusesARankOfAnotherRunWithBothSizes) {
    const std::int64_t port = free_loopback_port();
    std::string at_zero, at_three;
    std::thread zero([&] { at_zero = refusal([&] { tcp_plane(loopback(0, 8, port)); }); });
    std::thread three([&] { at_three = refusal([&] { tcp_plane(loopback(3, 4, port)); }); });
    zero.join();
    three.join();
    EXPECT_EQ(at_zero, "rank 3 is of a run of 4 ranks, rank 0 of one of 8");
    EXPECT_EQ(at_three, at_zero);
}

TEST(TcpPlane, RefusesTheSameRankTwice) {
    const std::int64_t port = free_loopback_port();
    std::vector<std::string> messages(3);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 3; ++i)
        threads.emplace_back([&, i] {
            messages[i] = refusal([&] { tcp_plane(loopback(i == 0 ? 0 : 1, 3, port)); });
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(messages, std::vector<std::string>(3, "rank 1 has come twice"));
}

TEST(TcpPlane, ListsTheRanksThatDoNotCome) {
    const std::int64_t port = free_loopback_port();
    std::string at_zero, at_one;
    std::thread zero([&] { at_zero = refusal([&] { tcp_plane(loopback(0, 4, port), 2s); }); });
    std::thread one([&] { at_one = refusal([&] { tcp_plane(loopback(1, 4, port), 2s); }); });
    zero.join();
    one.join();
    EXPECT_EQ(at_zero, fmt::format("ranks 2 3 of 4 did not come to rank 0 at 127.0.0.1:{}", port));
    EXPECT_EQ(at_one, at_zero);
}

TEST(TcpPlane, NobodyAtTheMeetingPoint) {
    const std::int64_t port = free_loopback_port();
    EXPECT_EQ(refusal([&] { tcp_plane(loopback(1, 2, port), 50ms); }),
              fmt::format("nobody to be reached at 127.0.0.1:{}: Connection refused", port));
}

TEST(TcpPlane, APortThatIsTaken) {
    const Socket taken = listen_at("127.0.0.1", 0);
    const std::int64_t port = listening_port(taken);
    EXPECT_EQ(refusal([&] { tcp_plane(loopback(0, 2, port)); }),
              fmt::format("rank 0 cannot wait at port {}: Address already in use; MASTER_PORT says "
                          "another",
                          port));
}

TEST(TcpPlane, PassesOverStrangersAtItsPort) {
    const std::int64_t port = free_loopback_port();
    const auto now = std::chrono::steady_clock::now;
    std::thread zero([&] { tcp_plane(loopback(0, 2, port))->finish(); });
    {
        const Socket silent = connect_before("127.0.0.1", port, now() + 60s);
        const Socket web = connect_before("127.0.0.1", port, now() + 60s);
        web.send_all(bytes("GET / HTTP/1.1\r\nHost: gpu1\r\nUser-Agent: scan\r\n\r\n"));
    }
    tcp_plane(loopback(1, 2, port))->finish();
    zero.join();
}

// Another's run comes first, or alone: it is no part of this one, and costs it nothing.
TEST(TcpPlane, PassesOverRanksOfAnotherRun) {
    const std::int64_t port = free_loopback_port();
    Launch zero = loopback(0, 3, port);
    zero.run = "torchrun\nours\n0";
    std::string at_zero, at_other, of_other_secret;
    std::thread first([&] { at_zero = refusal([&] { tcp_plane(zero)->finish(); }); });
    const auto come = [&](std::int64_t rank, const std::string& run, const std::string& secret,
                          std::chrono::milliseconds patience) {
        Launch launch = zero;
        launch.rank = rank;
        launch.run = run;
        launch.secret = secret;
        return refusal([&] { tcp_plane(launch, patience)->finish(); });
    };
    at_other = come(1, "torchrun\ntheirs\n0", "", 2s);
    of_other_secret = come(1, zero.run, "guessed", 2s);
    std::vector<std::string> at_ours(2);
    std::thread two([&] { at_ours[1] = come(2, zero.run, "", 60s); });
    at_ours[0] = come(1, zero.run, "", 60s);
    two.join();
    first.join();
    EXPECT_EQ(at_zero, "");
    EXPECT_EQ(at_ours, std::vector<std::string>(2));
    const std::string said =
        fmt::format("what listens at 127.0.0.1:{} is not rank 0 of this run", port);
    EXPECT_EQ(at_other, said);
    EXPECT_EQ(of_other_secret, said);
}

// Silent, junk, cut off, of another version, plausible without the key, and replayed.
TEST(TcpPlane, AreHeldUpByNoneOfThreeHundredStrangers) {
    const std::int64_t port = free_loopback_port();
    const auto now = std::chrono::steady_clock::now;
    std::string at_zero;
    std::thread zero(
        [&] { at_zero = refusal([&] { tcp_plane(loopback(0, 2, port))->finish(); }); });
    const RunKey other = run_key("", "other");
    const Approach plausible(other, new_nonce(), 1, 2);
    std::vector<Socket> strangers;
    for (int i = 0; i < 300; ++i) {
        strangers.push_back(connect_before("127.0.0.1", port, now() + 60s));
        const Socket& stranger = strangers.back();
        std::vector<std::byte> hello = plausible.hello();
        if (i % 6 == 1) stranger.send_all(bytes("GET / HTTP/1.1\r\nHost: gpu1\r\n\r\n"));
        if (i % 6 == 2) stranger.send_all(std::span(hello).first(20));
        if (i % 6 == 3) {
            hello[8] = std::byte{9};
            stranger.send_all(hello);
        }
        if (i % 6 == 4) {
            hello.resize(hello.size() + 32);  // with a mark that is none
            stranger.send_all(hello);
        }
        if (i % 6 == 5) {  // what rank 0 said to it, said back
            stranger.send_all(hello);
            std::vector<std::byte> challenge(48);
            EXPECT_TRUE(stranger.receive_all(challenge, now() + 60s));
            stranger.send_all(std::span(challenge).last(32));
        }
    }
    EXPECT_EQ(refusal([&] { tcp_plane(loopback(1, 2, port), 4s)->finish(); }), "")
        << "within less than a silent one is given";
    zero.join();
    EXPECT_EQ(at_zero, "");
}

TEST(TcpPlane, ARankZeroThatSaysNothingAfterItsWelcomeIsNotWaitedForForEver) {
    const std::int64_t port = free_loopback_port();
    std::thread zero([&] {
        const auto plane = tcp_plane(loopback(0, 2, port));
        std::this_thread::sleep_for(400ms);
    });
    const auto plane = tcp_plane(loopback(1, 2, port));
    plane->set_patience(100ms);
    EXPECT_EQ(refusal([&] {
                  Bytes data;
                  plane->broadcast(data);
              }),
              "rank 0 has not said anything for 0.1 s");
    zero.join();
}

TEST(ListeningHost, IsOneAddressWhereThereIsOne) {
    EXPECT_EQ(listening_host("127.0.0.1", true), "127.0.0.1");
    EXPECT_EQ(listening_host("localhost", false), "localhost");
    EXPECT_EQ(listening_host("0.0.0.0", false), "0.0.0.0");
    EXPECT_EQ(listening_host("no-such-host.invalid", false), "0.0.0.0");
    EXPECT_EQ(listening_host("192.0.2.7", false), "0.0.0.0") << "not of this machine (RFC 5737)";
}

TEST(TcpPlane, MeetsByNameAndAtEveryAddress) {
    for (const char* host : {"localhost", "0.0.0.0"}) {
        const std::int64_t port = free_loopback_port();
        Launch first = loopback(0, 2, port), second = loopback(1, 2, port);
        first.host = host;
        std::thread zero([&] { tcp_plane(first)->finish(); });
        tcp_plane(second)->finish();
        zero.join();
    }
}

TEST(ConnectRanks, ARunOfOneNeedsNobody) {
    const auto plane = connect_ranks(Launch{});
    EXPECT_EQ(plane->sum(0.5), 0.5);
    plane->finish();
}

// Rank 0 leaves once it has told all: that its connection then ends is no end of the run, whether
// its word has been taken yet or not.
TEST(Inbox, ARunThatHasFinishedDoesNotEndWithItsFirstRank) {
    Inbox inbox(2);
    inbox.put(0, MessageKind::broadcast, {});
    inbox.put(0, MessageKind::finish, {});
    EXPECT_FALSE(inbox.end("rank 0 has died or was cut off"));
    EXPECT_EQ(inbox.take(0).kind, MessageKind::broadcast);
    EXPECT_EQ(inbox.take(0).kind, MessageKind::finish);
    EXPECT_NO_THROW(inbox.check());
    // Of rank 0's own: one that has finished may still be cut off before all have.
    Inbox of_first(2);
    of_first.put(1, MessageKind::finish, {});
    EXPECT_TRUE(of_first.end("rank 1 has died or was cut off"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
