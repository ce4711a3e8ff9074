// What carries a training run: where its ranks are, how they find one another, what performs their
// programs. The trainer knows no more of a backend than this.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "plan/ir/mesh.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

// One rank of a run, in this process.
class RankSeat {
  public:
    RankSeat() = default;
    virtual ~RankSeat() = default;
    RankSeat(const RankSeat&) = delete;
    RankSeat& operator=(const RankSeat&) = delete;

    virtual plan::Rank rank() const = 0;

    // Used between steps only.
    virtual ControlPlane& control() = 0;

    // Where steps run on into one another, for the thread that ends them (Device::when_ended), and
    // for others once all have ended: what is said there does not wait for what their ops say.
    virtual ControlPlane& control_beside() { return control(); }

    // For a step after the other; one at a time. The program must outlive it. `offload_path`: the
    // folder of what the program keeps on disk.
    virtual std::unique_ptr<Device> make_device(const BoundProgram& program,
                                                const std::string& offload_path) = 0;
};

class Backend {
  public:
    Backend() = default;
    virtual ~Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    // Calls `body` for each rank that this process has, on a thread each, and returns when all have
    // returned. If the run ended before, throws what ended it.
    virtual void run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) = 0;

    // Threads of the host that one rank may keep busy.
    virtual int threads_per_rank() const = 0;
};

}  // namespace orrery::runtime
