// What ranks that are processes tell one another beside the plan: through rank 0, over their
// communicator, so that a rank which does not answer is missed as in any other call.
#pragma once

#include <functional>

#include "runtime/comm/communicator.hpp"
#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

class ProcessPlane final : public ControlPlane {
  public:
    // The communicator must outlive the object, and is not used by another thread while this is.
    // `finished`: what is left to do once all ranks have come to the end.
    ProcessPlane(Communicator& communicator, std::function<void()> finished);

    void broadcast(Bytes& data) override;
    std::vector<Bytes> gather(std::span<const std::byte> mine) override;
    void check() override {}  // whoever communicates is told
    void finish() override;
    void abort(std::string_view reason) override { communicator_.abort(reason); }

  private:
    Communicator& communicator_;
    std::function<void()> finished_;
    std::vector<Transfer> transfers_;
};

}  // namespace orrery::runtime
