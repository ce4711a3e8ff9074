#include "runtime/launch/tcp_plane.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/launch/handshake.hpp"
#include "runtime/launch/meeting.hpp"
#include "runtime/launch/star_plane.hpp"

namespace orrery::runtime {
namespace {

// Of a message: its kind, then how many bytes follow.
constexpr std::size_t kHeader = 1 + sizeof(std::uint64_t);

// Op times of a step of many ranks are some MiB.
constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 30;

// How long whoever spreads an end waits for a message that another thread is sending.
constexpr std::chrono::seconds kPatience{1};

using Header = std::array<std::byte, kHeader>;

Header header_of(MessageKind kind, std::uint64_t length) {
    Header header{};
    header[0] = static_cast<std::byte>(kind);
    std::memcpy(header.data() + 1, &length, sizeof length);
    return header;
}

// A connection to one rank, and what has come over it of a message that is not whole yet.
struct Peer {
    std::int64_t rank = 0;
    Socket socket;
    std::timed_mutex sending;
    ControlPlane::Bytes partial;
    bool gone = false;  // known to the reader alone
};

// One thread reads from all peers at all times, so that an end is heard, and passed on by rank 0,
// whatever this rank is busy with.
class TcpPlane final : public StarPlane {
  public:
    TcpPlane(const Launch& launch, std::vector<Socket> sockets)
        : StarPlane(launch.rank, launch.size), inbox_(launch.size), stop_(eventfd(0, EFD_CLOEXEC)) {
        ORRERY_CHECK(stop_.descriptor() >= 0, "no descriptor is left");
        for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
            if (sockets[rank].descriptor() < 0) continue;
            peers_.push_back(std::make_unique<Peer>());
            peers_.back()->rank = static_cast<std::int64_t>(rank);
            peers_.back()->socket = std::move(sockets[rank]);
        }
        reader_ = std::thread([this] { read_until_stopped(); });
    }

    ~TcpPlane() override {
        leave();
        const std::uint64_t one = 1;
        ORRERY_CHECK(write(stop_.descriptor(), &one, sizeof one) == sizeof one,
                     "the reader cannot be told to stop");
        reader_.join();
    }

  private:
    Inbox& inbox() override { return inbox_; }

    void send(std::int64_t to, MessageKind kind, std::span<const std::byte> bytes) override {
        Peer& peer = *peers_[static_cast<std::size_t>(rank() == 0 ? to - 1 : 0)];
        bool sent = false;
        {
            const std::lock_guard lock(peer.sending);
            sent =
                peer.socket.send_all(header_of(kind, bytes.size())) && peer.socket.send_all(bytes);
        }
        if (!sent) inbox_.check_after_loss();
    }

    void spread(const std::string& reason) override { spread_except(nullptr, reason); }

    // A peer that does not take it is cut off, which it notices too.
    void spread_except(const Peer* except, const std::string& reason) {
        const auto text = std::as_bytes(std::span(reason));
        const Header header = header_of(MessageKind::abort, text.size());
        Bytes message(header.begin(), header.end());
        message.insert(message.end(), text.begin(), text.end());
        for (const auto& peer : peers_) {
            if (peer.get() == except) continue;
            const std::unique_lock lock(peer->sending, kPatience);
            if (!lock || !peer->socket.send_at_once(message)) peer->socket.shut();
        }
    }

    void end(const Peer& by, const std::string& reason) {
        if (inbox_.end(reason) && rank() == 0) spread_except(&by, reason);
    }
    void lose(const Peer& peer) {
        end(peer,
            fmt::format("{} has died or was cut off: its connection ended", named(peer.rank)));
    }

    void read_until_stopped() {
        for (;;) {
            std::vector<pollfd> entries = {{stop_.descriptor(), POLLIN, 0}};
            for (const auto& peer : peers_)  // a negative descriptor is passed over
                entries.push_back({peer->gone ? -1 : peer->socket.descriptor(), POLLIN, 0});
            if (poll(entries.data(), entries.size(), -1) < 0) continue;
            if (entries[0].revents != 0) return;
            for (std::size_t i = 0; i < peers_.size(); ++i)
                if (entries[i + 1].revents != 0) read(*peers_[i]);
        }
    }

    void read(Peer& peer) {
        std::array<std::byte, 16'384> buffer;
        const ssize_t got =
            recv(peer.socket.descriptor(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (got <= 0) {
            peer.gone = true;
            return lose(peer);
        }
        peer.partial.insert(peer.partial.end(), buffer.begin(), buffer.begin() + got);
        while (take_message(peer)) {
        }
    }

    // False where no whole message has come.
    bool take_message(Peer& peer) {
        Bytes& bytes = peer.partial;
        if (bytes.size() < kHeader) return false;
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data() + 1, sizeof length);
        if (length > kLongestMessage) {
            peer.gone = true;
            end(peer, fmt::format("{} announced a message of {} bytes: no rank sends one",
                                  named(peer.rank), length));
            return false;
        }
        if (bytes.size() - kHeader < length) return false;
        const auto kind = static_cast<MessageKind>(bytes[0]);
        const std::span<const std::byte> body = std::span(bytes).subspan(kHeader, length);
        if (kind == MessageKind::abort)
            end(peer, printable({reinterpret_cast<const char*>(body.data()), body.size()}));
        else
            inbox_.put(peer.rank, kind, Bytes(body.begin(), body.end()));
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(kHeader + length));
        return true;
    }

    Inbox inbox_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; only rank 0 has more than one
    Socket stop_;
    std::thread reader_;
};

}  // namespace

std::unique_ptr<StarPlane> tcp_plane(const Launch& launch, std::chrono::milliseconds timeout,
                                     const SayWaiting& say, std::string* own_host,
                                     std::string* host_of_zero) {
    std::vector<Socket> sockets = meet(launch, std::chrono::steady_clock::now() + timeout, say);
    if (launch.rank != 0 && own_host != nullptr) *own_host = sockets[0].own_host();
    if (launch.rank != 0 && host_of_zero != nullptr) *host_of_zero = sockets[0].peer_host();
    return std::make_unique<TcpPlane>(launch, std::move(sockets));
}

}  // namespace orrery::runtime
