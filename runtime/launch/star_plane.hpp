// A control plane with rank 0 in the middle, whatever carries its messages: each rank speaks with
// rank 0 alone.
#pragma once

#include <cstdint>
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

  protected:
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
};

}  // namespace orrery::runtime
