// A control plane over a communicator of the host's memory: for ranks that have one anyway.
#pragma once

#include "runtime/comm/communicator.hpp"
#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

class CommunicatorPlane final : public ControlPlane {
  public:
    // Must outlive the object. While another thread uses it, this one is not used.
    explicit CommunicatorPlane(Communicator& communicator);

    void broadcast(Bytes& data) override;
    std::vector<Bytes> gather(std::span<const std::byte> mine) override;
    double sum(double mine) override;
    void check() override {}  // whoever communicates is told
    void finish() override;
    void abort(std::string_view reason) override { communicator_.abort(reason); }

  private:
    Communicator& communicator_;
};

}  // namespace orrery::runtime
