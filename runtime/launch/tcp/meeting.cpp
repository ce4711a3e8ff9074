#include "runtime/launch/tcp/meeting.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "plan/ir/check.hpp"
#include "runtime/comm/communication_error.hpp"

namespace orrery::runtime {
namespace {

constexpr std::array<char, 8> kMagic = {'o', 'r', 'r', 'e', 'r', 'y', '\n', '\0'};
constexpr std::uint64_t kVersion = 1;
// A connection that says nothing for so long is no rank.
constexpr std::chrono::seconds kHelloTimeout(5);
constexpr std::size_t kLongestFault = 4096;

// Says who has come. Later versions keep the first two members. Bytes as x86-64 and ARM have them.
struct Hello {
    std::array<char, 8> magic = kMagic;
    std::uint64_t version = kVersion;
    std::int64_t rank = 0;
    std::int64_t size = 0;
};
static_assert(sizeof(Hello) == 32);

// The answer, once all have come or the first did not fit: the length of a text that says what is
// wrong; 0 is a welcome.
void answer(const Socket& socket, const std::string& fault) {
    const std::uint64_t length = fault.size();
    // Who has gone meanwhile is missed later.
    if (socket.send_all(std::as_bytes(std::span(&length, 1))))
        socket.send_all(std::as_bytes(std::span(fault)));
}

std::string fault_of(const Hello& hello, std::int64_t size, const std::vector<Socket>& ranks) {
    if (hello.version != kVersion)
        return fmt::format("a rank speaks version {} of the control plane, rank 0 version {}",
                           hello.version, kVersion);
    if (hello.size != size)
        return fmt::format("rank {} is of a run of {} ranks, rank 0 of one of {}", hello.rank,
                           hello.size, size);
    if (hello.rank < 1 || hello.rank >= size)
        return fmt::format("rank {} has come, ranks 1 to {} are needed", hello.rank, size - 1);
    if (ranks[static_cast<std::size_t>(hello.rank)].descriptor() >= 0)
        return fmt::format("rank {} has come twice", hello.rank);
    return "";
}

constexpr std::size_t kListed = 16;

std::string missing(const std::vector<Socket>& ranks) {
    std::string text;
    std::size_t count = 0;
    for (std::size_t rank = 1; rank < ranks.size(); ++rank)
        if (ranks[rank].descriptor() < 0 && ++count <= kListed) text += fmt::format(" {}", rank);
    if (count > kListed) text += fmt::format(" and {} more", count - kListed);
    return (count == 1 ? "rank" : "ranks") + text;
}

std::vector<Socket> wait_for_ranks(const Launch& launch, Deadline deadline) {
    std::vector<Socket> ranks(static_cast<std::size_t>(launch.size));
    const Socket listening = listen_at(launch.host, launch.port);
    Socket odd_one;
    std::string fault;
    for (std::int64_t come = 1; come < launch.size && fault.empty();) {
        auto socket = accept_before(listening, deadline);
        if (!socket) {
            fault = fmt::format("{} of {} did not come to rank 0 at {}:{}", missing(ranks),
                                launch.size, launch.host, launch.port);
            break;
        }
        Hello hello;
        const Deadline soon = std::min(deadline, std::chrono::steady_clock::now() + kHelloTimeout);
        if (!socket->receive_all(std::as_writable_bytes(std::span(&hello, 1)), soon) ||
            hello.magic != kMagic)
            continue;  // somebody else's: a port scanner's, a monitor's
        fault = fault_of(hello, launch.size, ranks);
        Socket& place = fault.empty() ? ranks[static_cast<std::size_t>(hello.rank)] : odd_one;
        place = std::move(*socket);
        ++come;
    }
    for (const Socket& socket : ranks)
        if (socket.descriptor() >= 0) answer(socket, fault);
    if (odd_one.descriptor() >= 0) answer(odd_one, fault);
    if (!fault.empty()) throw CommunicationError(fault);
    return ranks;
}

std::vector<Socket> go_to_rank_0(const Launch& launch, Deadline deadline) {
    std::vector<Socket> ranks(static_cast<std::size_t>(launch.size));
    ranks[0] = connect_before(launch.host, launch.port, deadline);
    const Socket& socket = ranks[0];
    Hello hello;
    hello.rank = launch.rank;
    hello.size = launch.size;
    std::uint64_t length = 0;
    if (!socket.send_all(std::as_bytes(std::span(&hello, 1))) ||
        !socket.receive_all(std::as_writable_bytes(std::span(&length, 1)),
                            deadline + kHelloTimeout) ||
        length > kLongestFault)
        throw CommunicationError(
            fmt::format("what listens at {}:{} does not answer as rank 0 of this run", launch.host,
                        launch.port));
    if (length == 0) return ranks;
    std::string fault(length, ' ');
    socket.receive_all(std::as_writable_bytes(std::span(fault)), deadline + kHelloTimeout);
    throw CommunicationError(fault);
}

}  // namespace

std::vector<Socket> meet(const Launch& launch, Deadline deadline) {
    ORRERY_CHECK(!launch.host.empty(), "nobody knows where to meet");
    return launch.rank == 0 ? wait_for_ranks(launch, deadline) : go_to_rank_0(launch, deadline);
}

}  // namespace orrery::runtime
