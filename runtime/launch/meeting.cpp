#include "runtime/launch/meeting.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/comm/communication_error.hpp"
#include "runtime/launch/handshake.hpp"

namespace orrery::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A connection that has not proved itself for so long is no rank.
constexpr std::chrono::seconds kHelloTimeout(5);
// So many may be trying at once, the oldest go first: more than there are ranks on most clusters.
constexpr std::size_t kMostUnproven = 4096;
constexpr std::chrono::seconds kSayEvery(10);
constexpr milliseconds kNextTry(500);

RunKey key_of(const Launch& launch) {
    return run_key(launch.run, launch.secret);
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

// Says something at most every so often.
class Saying {
  public:
    explicit Saying(const SayWaiting& say) : say_(say) {}

    Deadline due() const { return due_; }
    template <typename MakeLine>
    void now_and_then(MakeLine line) {
        if (Clock::now() < due_) return;
        due_ = Clock::now() + kSayEvery;
        if (say_) say_(line());
    }

  private:
    const SayWaiting& say_;
    Deadline due_ = Clock::now() + kSayEvery;
};

// Rank 0 while the others come.
class Reception {
  public:
    Reception(const Launch& launch, const SayWaiting& say)
        : launch_(launch),
          key_(key_of(launch)),
          listening_(listen_at(listening_host(launch.host, launch.local_size == launch.size),
                               launch.port)),
          ranks_(static_cast<std::size_t>(launch.size)),
          saying_(say) {}

    std::vector<Socket> welcome_all(Deadline deadline) {
        while (come_ + 1 < launch_.size && fault_.empty()) {
            if (Clock::now() >= deadline)
                fault_ = fmt::format("{} of {} did not come to rank 0 at {}:{}{}", missing(ranks_),
                                     launch_.size, launch_.host, launch_.port, oddities());
            saying_.now_and_then([&] {
                return fmt::format("rank 0 at {}:{} still waits for {} of {}{}", launch_.host,
                                   launch_.port, missing(ranks_), launch_.size, oddities());
            });
            wait(std::min(deadline, saying_.due()));
        }
        const std::vector<std::byte> answer = answer_of(fault_);
        for (const Socket& socket : ranks_)  // who has gone meanwhile is missed later
            if (socket.descriptor() >= 0) socket.send_all(answer);
        if (odd_one_.descriptor() >= 0) odd_one_.send_all(answer);
        if (!fault_.empty()) throw CommunicationError(fault_);
        return std::move(ranks_);
    }

  private:
    struct Guest {
        Socket socket;
        Arrival arrival;
        Deadline until;
        std::vector<std::byte> said;
        bool gone = false;
    };

    void wait(Deadline until) {
        std::vector<pollfd> entries = {{listening_.descriptor(), POLLIN, 0}};
        for (const Guest& guest : guests_) {
            entries.push_back({guest.socket.descriptor(), POLLIN, 0});
            until = std::min(until, guest.until);
        }
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
        const int count = poll(entries.data(), entries.size(),
                               static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
        if (count < 0) return;  // a signal
        for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
            Guest& guest = guests_[i];
            if (entries[i + 1].revents != 0) hear(guest);
            guest.gone = guest.gone || Clock::now() >= guest.until;
        }
        std::erase_if(guests_, [](const Guest& guest) { return guest.gone; });
        if (entries[0].revents != 0) accept();
    }

    void accept() {
        auto socket = accept_before(listening_, Clock::now());
        if (!socket) return;
        if (guests_.size() == kMostUnproven) guests_.erase(guests_.begin());
        guests_.push_back({std::move(*socket),
                           Arrival(key_, new_nonce()),
                           Clock::now() + kHelloTimeout,
                           {},
                           false});
    }

    void hear(Guest& guest) {
        std::array<std::byte, 64> bytes{};
        const std::size_t wanted = guest.arrival.wanted() - guest.said.size();
        const ssize_t got = recv(guest.socket.descriptor(), bytes.data(),
                                 std::min(wanted, bytes.size()), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        guest.gone = got <= 0;
        if (guest.gone) return;
        guest.said.insert(guest.said.end(), bytes.begin(), bytes.begin() + got);
        if (guest.said.size() < guest.arrival.wanted()) return;
        const std::vector<std::byte> reply = guest.arrival.take(std::exchange(guest.said, {}));
        if (!reply.empty()) guest.gone = !guest.socket.send_at_once(reply);
        if (guest.arrival.state() == Arrival::State::proven) take_in(guest);
        if (guest.arrival.state() == Arrival::State::stranger) pass_over(guest);
    }

    // One of this run, which either fits or ends it.
    void take_in(Guest& guest) {
        const std::int64_t rank = guest.arrival.rank();
        guest.gone = true;  // from among those who are not known
        if (guest.arrival.size() != launch_.size)
            fault_ = fmt::format("rank {} is of a run of {} ranks, rank 0 of one of {}", rank,
                                 guest.arrival.size(), launch_.size);
        else if (rank < 1 || rank >= launch_.size)
            fault_ =
                fmt::format("rank {} has come, ranks 1 to {} are needed", rank, launch_.size - 1);
        else if (ranks_[static_cast<std::size_t>(rank)].descriptor() >= 0)
            fault_ = fmt::format("rank {} has come twice", rank);
        Socket& place = fault_.empty() ? ranks_[static_cast<std::size_t>(rank)] : odd_one_;
        place = std::move(guest.socket);
        ++come_;
    }

    void pass_over(Guest& guest) {
        guest.gone = true;
        if (guest.arrival.other_version() != 0)
            versions_.insert(guest.arrival.other_version());
        else if (guest.arrival.size() != 0)
            ++of_other_runs_;
    }

    // What came and was not of this run: a reason to look, where somebody is missed.
    std::string oddities() const {
        std::string text;
        for (const std::uint64_t version : versions_)
            text += fmt::format("; a program that speaks version {} of the meeting, not {}, came",
                                version, kMeetingVersion);
        if (of_other_runs_ > 0)
            text += fmt::format("; {} of another run, or without its secret, came", of_other_runs_);
        return text;
    }

    const Launch& launch_;
    RunKey key_;
    Socket listening_;
    std::vector<Socket> ranks_;
    std::vector<Guest> guests_;
    Saying saying_;
    std::int64_t come_ = 0;
    std::set<std::uint64_t> versions_;
    int of_other_runs_ = 0;
    Socket odd_one_;
    std::string fault_;
};

// Null where what listens there is not rank 0 of this run, or is busy with another.
std::optional<Socket> try_rank_0(const Launch& launch, const RunKey& key, Deadline soon,
                                 Deadline deadline) {
    Socket socket = connect_before(launch.host, launch.port, soon);
    Approach approach(key, new_nonce(), launch.rank, launch.size);
    if (!socket.send_all(approach.hello())) return std::nullopt;
    while (approach.wanted() > 0) {
        std::vector<std::byte> bytes(approach.wanted());
        // Once it has proved itself it answers when all have come, or says who has not.
        const bool proven = approach.state() != Approach::State::challenge;
        const Deadline until =
            proven ? deadline + kHelloTimeout : std::min(deadline, Clock::now() + kHelloTimeout);
        if (!socket.receive_all(bytes, until)) {
            if (!proven) return std::nullopt;
            throw CommunicationError(fmt::format("rank 0 at {}:{} went before all ranks had come",
                                                 launch.host, launch.port));
        }
        const std::vector<std::byte> reply = approach.take(bytes);
        if (!reply.empty() && !socket.send_all(reply)) return std::nullopt;
    }
    if (approach.state() == Approach::State::refused) throw CommunicationError(approach.refusal());
    if (approach.state() == Approach::State::stranger) return std::nullopt;
    return socket;
}

std::vector<Socket> go_to_rank_0(const Launch& launch, Deadline deadline, const SayWaiting& say) {
    std::vector<Socket> ranks(static_cast<std::size_t>(launch.size));
    const RunKey key = key_of(launch);
    Saying saying(say);
    for (std::string why;;) {
        try {
            const Deadline soon = std::min(deadline, saying.due());
            if (auto socket = try_rank_0(launch, key, soon, deadline)) {
                ranks[0] = std::move(*socket);
                return ranks;
            }
            why = fmt::format("what listens at {}:{} is not rank 0 of this run", launch.host,
                              launch.port);
        } catch (const UnreachableError& error) {
            why = error.what();
        }
        if (Clock::now() + kNextTry >= deadline) throw CommunicationError(why);
        saying.now_and_then(
            [&] { return fmt::format("rank {} still waits for rank 0: {}", launch.rank, why); });
        std::this_thread::sleep_for(kNextTry);
    }
}

}  // namespace

std::vector<Socket> meet(const Launch& launch, Deadline deadline, const SayWaiting& say) {
    ORRERY_CHECK(!launch.host.empty(), "nobody knows where to meet");
    if (launch.rank == 0) return Reception(launch, say).welcome_all(deadline);
    return go_to_rank_0(launch, deadline, say);
}

}  // namespace orrery::runtime
