// Messages over TCP: a connection for each pair of ranks that have something to say to each other,
// made when they first have. The one with the higher number connects; the lower one waits at a port
// of its own, whose address the others know from the control plane. No thread: bytes move within
// calls.
//
// A connection begins with a mark that only ranks of this run can make, so that strangers at the
// port are shown out (runtime/launch/handshake.hpp). Nothing is encrypted: it belongs into a
// cluster's inner network.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/processes/transport.hpp"
#include "runtime/launch/handshake.hpp"
#include "runtime/launch/socket.hpp"

namespace orrery::runtime {

struct TcpAddress {
    std::string host;
    std::int64_t port = 0;
};

struct TcpTransportOptions {
    plan::Rank rank = 0;
    Socket listening;                   // where ranks with higher numbers come
    std::vector<TcpAddress> addresses;  // of all ranks' listening sockets, by rank
    RunKey key{};                       // of the run, …
    std::uint64_t meeting = 0;          // … and of this meeting of its ranks, on all the same
};

std::unique_ptr<Transport> tcp_transport(TcpTransportOptions options);

}  // namespace orrery::runtime
