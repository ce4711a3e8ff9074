#include "runtime/comm/processes/tcp_transport.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

constexpr std::chrono::seconds kConnectTimeout(30);
constexpr std::chrono::milliseconds kTry(300);
constexpr std::size_t kReadAhead = 16'384;
// A connection that does not greet is no rank's; more than so many at once are not all ranks'.
constexpr std::chrono::seconds kGreetingTimeout(5);
constexpr std::size_t kMostStrangers = 4096;

bool try_later() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

// What is on its way to a rank.
struct Outgoing {
    std::vector<std::byte> head;
    const std::byte* body = nullptr;
    std::size_t bytes = 0;
    std::size_t gone = 0;  // of head and body together
};

class Connection {
  public:
    bool connected() const { return socket_.descriptor() >= 0; }
    int descriptor() const { return socket_.descriptor(); }
    const std::string& lost() const { return lost_; }
    void lose(std::string why) { lost_ = std::move(why); }

    // `ahead`: bytes that came after the greeting.
    void connect(Socket socket, std::vector<std::byte> ahead = {}) {
        socket_ = std::move(socket);
        const int flags = fcntl(socket_.descriptor(), F_GETFL);
        fcntl(socket_.descriptor(), F_SETFL, flags | O_NONBLOCK);
        buffer_ = std::move(ahead);
    }

    void send(Outgoing message) {
        queue_.push_back(std::move(message));
        if (queue_.size() == 1) push();
    }
    bool sent() const { return queue_.empty(); }
    bool has_to_send() const { return connected() && lost_.empty() && !queue_.empty(); }

    // Whether something has gone.
    bool push() {
        bool moved = false;
        while (connected() && lost_.empty() && !queue_.empty()) {
            Outgoing& message = queue_.front();
            const ssize_t gone = send_some(message);
            if (gone < 0) {
                if (!try_later()) lose(errno);
                return moved;
            }
            moved = true;
            message.gone += static_cast<std::size_t>(gone);
            if (message.gone < message.head.size() + message.bytes) return moved;
            queue_.pop_front();
        }
        return moved;
    }

    std::optional<MessageHead> take_head() {
        if (missing_ > 0 || buffer_.size() - read_ < kHeadStart) return std::nullopt;
        const auto start = std::span<const std::byte>(buffer_).subspan(read_);
        const std::size_t length = head_length(start);
        if (start.size() < length) return std::nullopt;
        MessageHead head = read_head(start.first(length));
        read_ += length;
        missing_ = static_cast<std::size_t>(head.bytes);
        body_ = nullptr;
        return head;
    }

    void receive(std::byte* body) {
        body_ = body;
        const std::size_t there = std::min(missing_, buffer_.size() - read_);
        if (there > 0) std::memcpy(body, buffer_.data() + read_, there);
        read_ += there;
        body_ += there;
        missing_ -= there;
        if (missing_ > 0) pull();
    }
    bool received() const { return missing_ == 0; }

    // Whether something has come.
    bool pull() {
        bool moved = false;
        while (connected() && lost_.empty()) {
            const bool into_body = missing_ > 0 && body_ != nullptr;
            const std::size_t kept = into_body ? 0 : make_room();
            std::byte* const to = into_body ? body_ : buffer_.data() + kept;
            const std::size_t wanted = into_body ? missing_ : kReadAhead;
            const ssize_t got = recv(descriptor(), to, wanted, 0);
            if (!into_body)
                buffer_.resize(kept + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
            if (got <= 0) {
                if (got == 0 || !try_later()) lose(got == 0 ? 0 : errno);
                return moved;
            }
            moved = true;
            if (!into_body) return true;
            body_ += got;
            missing_ -= static_cast<std::size_t>(got);
            if (missing_ == 0) return true;
        }
        return moved;
    }

  private:
    ssize_t send_some(const Outgoing& message) {
        std::array<iovec, 2> pieces{};
        msghdr all{};
        all.msg_iov = pieces.data();
        const auto add = [&](const std::byte* data, std::size_t size) {
            pieces[all.msg_iovlen++] = {const_cast<std::byte*>(data), size};
        };
        const std::size_t head = message.head.size();
        if (message.gone < head) add(message.head.data() + message.gone, head - message.gone);
        const std::size_t of_body = message.gone > head ? message.gone - head : 0;
        if (message.bytes > of_body) add(message.body + of_body, message.bytes - of_body);
        return sendmsg(descriptor(), &all, MSG_NOSIGNAL | MSG_DONTWAIT);
    }

    // For kReadAhead bytes behind those that are not read yet, whose number it returns.
    std::size_t make_room() {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(read_));
        read_ = 0;
        const std::size_t kept = buffer_.size();
        buffer_.resize(kept + kReadAhead);
        return kept;
    }

    void lose(int error) {
        lose(error == 0 ? "its connection has ended"
                        : "its connection has ended: " + std::generic_category().message(error));
    }

    Socket socket_;
    std::deque<Outgoing> queue_;
    std::vector<std::byte> buffer_;  // has come, and is not a body's …
    std::size_t read_ = 0;           // … of it what is read
    std::byte* body_ = nullptr;      // of the message that is being received …
    std::size_t missing_ = 0;        // … and what it lacks
    std::string lost_;
};

class TcpTransport final : public Transport {
  public:
    explicit TcpTransport(TcpTransportOptions options)
        : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        ORRERY_CHECK(wake_.descriptor() >= 0, "no descriptor is left");
    }

    std::string name() const override { return "TCP"; }

    void send(plan::Rank to, const MessageHead& head, const std::byte* body) override {
        connection(to).send({head.encoded(), body, static_cast<std::size_t>(head.bytes), 0});
    }
    bool sent(plan::Rank to) const override {
        const auto found = connections_.find(to);
        return found == connections_.end() || found->second.sent();
    }

    std::optional<MessageHead> take_head(plan::Rank from) override {
        return connection(from).take_head();
    }
    void receive(plan::Rank from, std::byte* body) override { connection(from).receive(body); }
    bool received(plan::Rank from) const override {
        const auto found = connections_.find(from);
        return found != connections_.end() && found->second.received();
    }
    std::string lost(plan::Rank peer) const override {
        const auto found = connections_.find(peer);
        return found == connections_.end() ? "" : found->second.lost();
    }

    bool progress(std::span<const plan::Rank> from, std::chrono::milliseconds patience) override {
        std::vector<pollfd> entries = {{wake_.descriptor(), POLLIN, 0}};
        std::vector<Connection*> watched;
        bool someone_to_come = false;
        for (const plan::Rank rank : from)
            connection(rank);
        for (auto& [rank, each] : connections_) {
            const bool reads = std::binary_search(from.begin(), from.end(), rank);
            if (!each.connected()) {
                someone_to_come = someone_to_come || reads || !each.sent();
                continue;
            }
            if (!each.lost().empty() || (!reads && !each.has_to_send())) continue;
            const int events = (reads ? POLLIN : 0) | (each.has_to_send() ? POLLOUT : 0);
            entries.push_back({each.descriptor(), static_cast<short>(events), 0});
            watched.push_back(&each);
        }
        const std::size_t strangers = entries.size();
        if (someone_to_come) {
            entries.push_back({options_.listening.descriptor(), POLLIN, 0});
            for (const Stranger& stranger : strangers_)
                entries.push_back({stranger.socket.descriptor(), POLLIN, 0});
        }
        if (poll(entries.data(), entries.size(), static_cast<int>(patience.count())) <= 0)
            return false;
        bool moved = false;
        for (std::size_t i = 0; i < watched.size(); ++i) {
            const short events = entries[i + 1].revents;
            if ((events & (POLLOUT | POLLERR | POLLHUP)) != 0) moved |= watched[i]->push();
            if ((events & POLLIN) != 0) moved |= watched[i]->pull();
            // A peer that has gone, and from which nothing is to be read.
            if ((events & POLLIN) == 0 && (events & (POLLERR | POLLHUP)) != 0)
                moved |= watched[i]->pull();
        }
        if (entries[0].revents != 0) sleep_again();
        if (someone_to_come) moved |= welcome(std::span(entries).subspan(strangers));
        return moved;
    }

    void wake() override {
        woken_.store(true);
        const std::uint64_t one = 1;
        if (write(wake_.descriptor(), &one, sizeof one) < 0) return;  // it has been woken often
    }

  private:
    // Has connected, and has not said yet who it is.
    struct Stranger {
        Socket socket;
        std::vector<std::byte> said;
        std::chrono::steady_clock::time_point until;
        bool gone = false;
    };

    Connection& connection(plan::Rank peer) {
        Connection& found = connections_[peer];
        if (!found.connected() && found.lost().empty() && peer < options_.rank)
            connect(found, peer);
        return found;
    }

    // Whoever is to be reached has been listening since before its address was known: one that
    // cannot be has gone, or will be missed by others too.
    void connect(Connection& to, plan::Rank peer) {
        const TcpAddress& address = options_.addresses[static_cast<std::size_t>(peer)];
        const auto now = std::chrono::steady_clock::now;
        for (const auto until = now() + kConnectTimeout; to.lost().empty();) {
            try {
                Socket socket = connect_before(address.host, address.port, now() + kTry);
                if (socket.send_all(
                        greeting_of(options_.key, options_.meeting, options_.rank, peer)))
                    return to.connect(std::move(socket));
            } catch (const CommunicationError& error) {
                if (woken_.load() || now() >= until) to.lose(error.what());
            }
        }
    }

    void sleep_again() {
        std::uint64_t times = 0;
        if (read(wake_.descriptor(), &times, sizeof times) < 0) return;  // another call has
    }

    // `entries`: of the port and of the strangers.
    bool welcome(std::span<const pollfd> entries) {
        bool moved = false;
        for (std::size_t i = 0; i < strangers_.size(); ++i)
            if (entries[i + 1].revents != 0) moved |= hear(strangers_[i]);
        strangers_.erase(
            std::remove_if(strangers_.begin(), strangers_.end(),
                           [now = std::chrono::steady_clock::now()](const Stranger& each) {
                               return each.gone || now >= each.until;
                           }),
            strangers_.end());
        if (entries[0].revents != 0)
            if (auto socket = accept_before(options_.listening, std::chrono::steady_clock::now()))
                strangers_.push_back({std::move(*socket),
                                      {},
                                      std::chrono::steady_clock::now() + kGreetingTimeout,
                                      false});
        if (strangers_.size() > kMostStrangers) strangers_.erase(strangers_.begin());
        return moved;
    }

    bool hear(Stranger& stranger) {
        std::array<std::byte, 4096> bytes;
        const ssize_t got =
            recv(stranger.socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got < 0 && try_later()) return false;
        stranger.gone = got <= 0;
        if (stranger.gone) return false;
        stranger.said.insert(stranger.said.end(), bytes.begin(), bytes.begin() + got);
        if (stranger.said.size() < kGreetingBytes) return false;
        stranger.gone = true;  // from among them
        const plan::Rank from = greeting_rank(std::span(stranger.said).first<kGreetingBytes>(),
                                              options_.key, options_.meeting, options_.rank);
        if (from <= options_.rank || from >= std::ssize(options_.addresses) ||
            connections_[from].connected())
            return false;
        Connection& rank = connections_[from];
        rank.connect(std::move(stranger.socket),
                     {stranger.said.begin() + kGreetingBytes, stranger.said.end()});
        rank.push();
        return true;
    }

    TcpTransportOptions options_;
    Socket wake_;                     // an event
    std::atomic<bool> woken_{false};  // the run has ended
    std::map<plan::Rank, Connection> connections_;
    std::vector<Stranger> strangers_;
};

}  // namespace

std::unique_ptr<Transport> tcp_transport(TcpTransportOptions options) {
    return std::make_unique<TcpTransport>(std::move(options));
}

}  // namespace orrery::runtime
