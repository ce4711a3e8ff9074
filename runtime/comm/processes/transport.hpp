// What carries messages between ranks that are processes. From one rank to another they come in the
// order in which they were sent: a head (message_head.hpp), then so many bytes as it says. Nothing
// here knows a collective; nothing here waits for a rank but progress().
//
// One object per rank. Calls come from one thread at a time but wake(). What is sent, or
// received into, belongs to the caller and is read or written within calls of this object only: a
// caller that gives up frees it when it likes, if it makes no further call.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "plan/ir/mesh.hpp"
#include "runtime/comm/processes/message_head.hpp"

namespace orrery::runtime {

class Transport {
  public:
    Transport() = default;
    virtual ~Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    // "TCP", "MPI".
    virtual std::string name() const = 0;

    // Puts a message on its way; `body` has head.bytes and lives until sent(to), or the last call.
    virtual void send(plan::Rank to, const MessageHead& head, const std::byte* body) = 0;
    // Whether nothing is left here of what was sent to this rank.
    virtual bool sent(plan::Rank to) const = 0;

    // The head of the next message of a rank, once; none: it has not come, or the body of the one
    // before has not been received. Throws CommunicationError for one that cannot be read.
    virtual std::optional<MessageHead> take_head(plan::Rank from) = 0;
    // The body of the message whose head was taken last.
    virtual void receive(plan::Rank from, std::byte* body) = 0;
    virtual bool received(plan::Rank from) const = 0;

    // Moves what can be moved to all ranks, and from those in `from`; where that is nothing, waits
    // until something can be, wake() is called, or `patience` is over. Whether anything has moved.
    virtual bool progress(std::span<const plan::Rank> from, std::chrono::milliseconds patience) = 0;
    // The run has ended: nothing is worth waiting for any more. From any thread.
    virtual void wake() = 0;

    // Why nothing more will come from, or go to, a rank; empty: it may.
    virtual std::string lost(plan::Rank peer) const = 0;

    // Once all ranks have ended well, on the thread that made it; the last call.
    virtual void finish() {}
};

}  // namespace orrery::runtime
