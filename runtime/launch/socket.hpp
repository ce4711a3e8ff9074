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

#include "runtime/comm/communication_error.hpp"

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

// Waits at a port of this machine: at `host` where it is an address as a number, or localhost, else
// at every address. Port 0: any that is free.
Socket listen_at(const std::string& host, std::int64_t port);

// Where to wait for those who come to `host`: the one address of this machine that it stands for,
// so that nobody reaches the port by another; "0.0.0.0", every one, where it stands for several,
// for none of this machine's, or for a loopback (as Debian's /etc/hosts has it) that other machines
// cannot come to.
std::string listening_host(const std::string& host, bool one_machine);
std::int64_t listening_port(const Socket& listening);

// One that nobody uses at this moment.
std::int64_t free_loopback_port();

// The next that connects; none where the deadline comes before.
std::optional<Socket> accept_before(const Socket& listening, Deadline deadline);

// Nobody listens there, or the name is not known.
class UnreachableError : public CommunicationError {
  public:
    using CommunicationError::CommunicationError;
};

// Tries until somebody listens there; throws UnreachableError at the deadline.
Socket connect_before(const std::string& host, std::int64_t port, Deadline deadline);

}  // namespace orrery::runtime
