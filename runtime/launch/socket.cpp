#include "runtime/launch/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "runtime/comm/communication_error.hpp"

namespace orrery::runtime {
namespace {

using std::chrono::milliseconds;

std::string reason(int error) {
    return std::generic_category().message(error);
}

int milliseconds_until(Deadline deadline) {
    const auto left =
        std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000'000));
}

// False where the deadline comes before.
bool wait_for(int descriptor, short events, Deadline deadline) {
    for (;;) {
        pollfd entry{descriptor, events, 0};
        const int count = poll(&entry, 1, milliseconds_until(deadline));
        if (count >= 0) return count > 0;
        if (errno != EINTR) return false;
    }
}

void set(int descriptor, int level, int option, int value) {
    setsockopt(descriptor, level, option, &value, sizeof value);
}

// Small messages leave at once, and a machine that has gone without a word is missed in about ten
// seconds, whether or not something is on its way to it.
void tune(int descriptor) {
    set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 4);
    set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// None where the name is not known (now: name servers have their moods).
Addresses addresses_of(const std::string& host, std::int64_t port, std::string& fault) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (error != 0) fault = gai_strerror(error);
    return {error == 0 ? found : nullptr, freeaddrinfo};
}

// 0 or what went wrong.
int connect_once(int descriptor, const addrinfo& address, Deadline deadline) {
    if (connect(descriptor, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    const Deadline soon = std::min(deadline, std::chrono::steady_clock::now() + milliseconds(2000));
    if (!wait_for(descriptor, POLLOUT, soon)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

std::optional<Socket> try_all(const addrinfo* address, Deadline deadline, std::string& fault) {
    for (; address != nullptr; address = address->ai_next) {
        Socket tried(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (tried.descriptor() < 0) {
            fault = reason(errno);
            continue;
        }
        const int error = connect_once(tried.descriptor(), *address, deadline);
        if (error == 0) return tried;
        fault = reason(error);
    }
    return std::nullopt;
}

std::string number_of(const sockaddr_storage& address, socklen_t size) {
    std::array<char, NI_MAXHOST> text{};
    const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text.data(),
                                  text.size(), nullptr, 0, NI_NUMERICHOST);
    return error == 0 ? text.data() : "";
}

bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

// Of one interface: not a name, and not every address.
bool is_number(const std::string& host) {
    in_addr four{};
    in6_addr six{};
    const bool number = inet_pton(AF_INET, host.c_str(), &four) == 1 ||
                        inet_pton(AF_INET6, host.c_str(), &six) == 1;
    return number && host != "0.0.0.0" && host != "::";
}

// 0 or what went wrong.
int bind_and_listen(int descriptor, const sockaddr* address, socklen_t size) {
    if (descriptor < 0) return errno;
    set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(descriptor, address, size) != 0 || listen(descriptor, SOMAXCONN) != 0) return errno;
    return 0;
}

}  // namespace

Socket::~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
}

bool Socket::send_all(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0)
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            wait_for(descriptor_, POLLOUT, std::chrono::steady_clock::now() + milliseconds(1000));
        else if (errno != EINTR)
            return false;
    }
    return true;
}

bool Socket::send_at_once(std::span<const std::byte> bytes) const {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == static_cast<ssize_t>(bytes.size());
}

bool Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) const {
    while (!bytes.empty()) {
        if (!wait_for(descriptor_, POLLIN, deadline)) return false;
        const ssize_t got = recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got > 0)
            bytes = bytes.subspan(static_cast<std::size_t>(got));
        else if (got == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
            return false;
    }
    return true;
}

std::string Socket::own_host() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
    return number_of(address, size);
}

std::string Socket::peer_host() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
    return number_of(address, size);
}

void Socket::shut() const {
    shutdown(descriptor_, SHUT_RDWR);
}

Socket listen_at(const std::string& host, std::int64_t port) {
    std::string fault;
    const std::string given = host == "localhost" ? "127.0.0.1" : host;
    Addresses one =
        is_number(given) ? addresses_of(given, port, fault) : Addresses(nullptr, freeaddrinfo);
    int error = EAFNOSUPPORT;
    Socket socket_;
    if (one != nullptr) {
        socket_ = Socket(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        error = bind_and_listen(socket_.descriptor(), one->ai_addr, one->ai_addrlen);
    } else {
        sockaddr_in6 six{};  // also for IPv4
        six.sin6_family = AF_INET6;
        six.sin6_addr = in6addr_any;
        six.sin6_port = htons(static_cast<std::uint16_t>(port));
        socket_ = Socket(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
        set(socket_.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
        error =
            bind_and_listen(socket_.descriptor(), reinterpret_cast<sockaddr*>(&six), sizeof six);
        if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {  // a machine without IPv6
            sockaddr_in four{};
            four.sin_family = AF_INET;
            four.sin_addr.s_addr = htonl(INADDR_ANY);
            four.sin_port = six.sin6_port;
            socket_ = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            error = bind_and_listen(socket_.descriptor(), reinterpret_cast<sockaddr*>(&four),
                                    sizeof four);
        }
    }
    if (error != 0)
        throw CommunicationError(fmt::format(
            "rank 0 cannot wait at port {}: {}; MASTER_PORT says another", port, reason(error)));
    return socket_;
}

std::string listening_host(const std::string& host, bool one_machine) {
    if (is_loopback(host)) return host;
    std::string fault;
    const Addresses addresses = addresses_of(host, 0, fault);
    std::set<std::string> own;
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
        sockaddr_storage address{};
        std::memcpy(&address, each->ai_addr, each->ai_addrlen);
        const std::string number = number_of(address, each->ai_addrlen);
        if (number.empty() || (is_loopback(number) && !one_machine)) continue;
        const Socket tried(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (bind_and_listen(tried.descriptor(), each->ai_addr, each->ai_addrlen) == 0)
            own.insert(number);
    }
    return own.size() == 1 ? *own.begin() : "0.0.0.0";
}

std::int64_t listening_port(const Socket& listening) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    getsockname(listening.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
    // The port stands at the same place for both families.
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    return ntohs(four.sin_port);
}

std::int64_t free_loopback_port() {
    return listening_port(listen_at("127.0.0.1", 0));
}

std::optional<Socket> accept_before(const Socket& listening, Deadline deadline) {
    while (wait_for(listening.descriptor(), POLLIN, deadline)) {
        Socket accepted(accept4(listening.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
        if (accepted.descriptor() < 0) {
            if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN) continue;
            throw CommunicationError("rank 0 cannot accept connections: " + reason(errno));
        }
        tune(accepted.descriptor());
        return accepted;
    }
    return std::nullopt;
}

Socket connect_before(const std::string& host, std::int64_t port, Deadline deadline) {
    std::string fault;
    milliseconds pause(20);
    for (;;) {
        const Addresses addresses = addresses_of(host, port, fault);
        if (auto connected = try_all(addresses.get(), deadline, fault)) {
            tune(connected->descriptor());
            return std::move(*connected);
        }
        if (std::chrono::steady_clock::now() + pause >= deadline)
            throw UnreachableError(
                fmt::format("nobody to be reached at {}:{}: {}", host, port, fault));
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, milliseconds(500));
    }
}

}  // namespace orrery::runtime
