// A TCP connection as an object, with deadlines: what the control plane needs of POSIX sockets.
// Faults throw CommunicationError with the system's reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace orrery::runtime {

using Deadline = std::chrono::steady_clock::time_point;

class Socket {
  public:
    Socket() = default;
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~Socket();

    int descriptor() const { return descriptor_; }

    // Waits for as long as it takes. False where the peer has gone.
    bool send_all(std::span<const std::byte> bytes) const;
    // Only what the system takes at once; false where that is not all.
    bool send_at_once(std::span<const std::byte> bytes) const;
    // Fills `bytes`; false where the peer goes or the deadline comes before.
    bool receive_all(std::span<std::byte> bytes, Deadline deadline) const;
    // Both ends of a connection as numbers, which a machine of either can reach.
    std::string own_host() const;
    std::string peer_host() const;
    // From now on nothing is sent or received; the peer, and who waits here, learn of it.
    void shut() const;

  private:
    int descriptor_ = -1;
};

// Waits at a port of this machine, at the loopback alone where `host` is one, else at every
// address: by which of them others find `host` is theirs to know. Port 0: any that is free.
Socket listen_at(const std::string& host, std::int64_t port);
std::int64_t listening_port(const Socket& listening);

// One that nobody uses at this moment.
std::int64_t free_loopback_port();

// The next that connects; none where the deadline comes before.
std::optional<Socket> accept_before(const Socket& listening, Deadline deadline);

// Tries until somebody listens there.
Socket connect_before(const std::string& host, std::int64_t port, Deadline deadline);

}  // namespace orrery::runtime
