// A control plane with rank 0 in the middle, whatever carries its messages: each rank speaks with
// rank 0 alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/launch/control_plane.hpp"
#include "runtime/launch/inbox.hpp"

namespace orrery::runtime {

class StarPlane : public ControlPlane {
  public:
    using ControlPlane::ControlPlane;

    void broadcast(Bytes& data) override;
    std::vector<Bytes> gather(std::span<const std::byte> mine) override;
    void check() override { inbox().check(); }
    void finish() override;
    void abort(std::string_view reason) override;

    // Waits for `patience`, or until the run has ended here: why, or "" where it goes on or has
    // finished. From any thread.
    std::string wait_for_end(std::chrono::milliseconds patience) {
        return inbox().wait_for_end(patience);
    }
    // What finish() waits for the others, at most; from then on.
    void set_patience(std::chrono::milliseconds patience) { inbox().set_patience(patience); }
    // Messages about ranks say their hosts from now on.
    void know_hosts(std::vector<std::string> hosts);

  protected:
    // "rank 3", "rank 3 on node07".
    std::string named(std::int64_t rank) const;

    // To be called by destructors: a rank that goes without finish() ends the run.
    void leave();

  private:
    virtual Inbox& inbox() = 0;
    // Throws CommunicationError where the peer has gone.
    virtual void send(std::int64_t to, MessageKind kind, std::span<const std::byte> bytes) = 0;
    // Tells the ranks that this one speaks with why the run has ended; never waits for one of them.
    virtual void spread(const std::string& reason) = 0;

    Bytes take(std::int64_t from, MessageKind kind);

    bool finished_ = false;
    mutable std::mutex hosts_mutex_;
    std::vector<std::string> hosts_;  // by rank; empty: not known
};

}  // namespace orrery::runtime
