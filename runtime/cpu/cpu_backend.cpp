#include "runtime/cpu/cpu_backend.hpp"

#include "runtime/comm/communicator_plane.hpp"

namespace orrery::runtime {
namespace {

class CpuSeat final : public RankSeat {
  public:
    CpuSeat(Communicator& communicator, const CpuOptions& options)
        : communicator_(communicator), control_(communicator), options_(options) {}

    plan::Rank rank() const override { return communicator_.rank(); }
    ControlPlane& control() override { return control_; }
    std::unique_ptr<Device> make_device(const BoundProgram& program,
                                        const plan::Scenario& scenario) override {
        return std::make_unique<CpuDevice>(program, scenario, communicator_, options_);
    }

  private:
    Communicator& communicator_;
    CommunicatorPlane control_;
    const CpuOptions& options_;
};

}  // namespace

void CpuBackend::run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    ThreadWorldOptions world;
    world.timeout = timeout_;
    world.threads_per_rank = options_.threads + 1;
    runtime::run_ranks(mesh, world, [&](plan::Rank, Communicator& communicator) {
        CpuSeat seat(communicator, options_);
        body(seat);
    });
}

}  // namespace orrery::runtime
