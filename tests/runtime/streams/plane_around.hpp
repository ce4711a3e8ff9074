// A control plane around another one, for tests that change a part of what it does.
#pragma once

#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

class PlaneAround : public ControlPlane {
  public:
    explicit PlaneAround(ControlPlane& inner)
        : ControlPlane(inner.rank(), inner.size()), inner_(inner) {}
    void broadcast(Bytes& data) override { inner_.broadcast(data); }
    std::vector<Bytes> gather(std::span<const std::byte> mine) override {
        return inner_.gather(mine);
    }
    void check() override { inner_.check(); }
    void finish() override { inner_.finish(); }
    void abort(std::string_view reason) override { inner_.abort(reason); }

  private:
    ControlPlane& inner_;
};

}  // namespace orrery::runtime
