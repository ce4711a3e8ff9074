#include "runtime/cpu/cpu_backend.hpp"

#include <memory>
#include <numeric>
#include <vector>

#include "runtime/flight/rank_recorders.hpp"
#include "runtime/launch/communicator_plane.hpp"

namespace orrery::runtime {
namespace {

class CpuSeat final : public RankSeat {
  public:
    CpuSeat(Communicator& communicator, FlightRecorder& recorder, const CpuOptions& options)
        : communicator_(communicator),
          recorder_(recorder),
          control_(communicator),
          beside_(communicator.beside() != nullptr ? *communicator.beside() : communicator),
          devices_(communicator_, options, recorder) {
        recorder_.watch(communicator);
    }
    ~CpuSeat() override { recorder_.leave(); }

    plan::Rank rank() const override { return communicator_.rank(); }
    ControlPlane& control() override { return control_; }
    ControlPlane& control_beside() override { return beside_; }
    std::unique_ptr<Device> make_device(const BoundProgram& program,
                                        const std::string& offload_path) override {
        return devices_.make(program, offload_path);
    }

  private:
    Communicator& communicator_;
    FlightRecorder& recorder_;
    CommunicatorPlane control_, beside_;
    CpuDevices devices_;
};

}  // namespace

void CpuBackend::run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    ThreadWorldOptions world;
    world.timeout = timeout_;
    world.threads_per_rank = options_.threads;
    std::vector<plan::Rank> all(static_cast<std::size_t>(mesh.ranks()));
    std::iota(all.begin(), all.end(), 0);
    RankRecorders recorders(mesh, all, records_);
    try {
        runtime::run_ranks(mesh, world, [&](plan::Rank rank, Communicator& communicator) {
            CpuSeat seat(communicator, recorders.of(rank), options_);
            body(seat);
        });
    } catch (const std::exception& error) {
        recorders.write(error.what());
        throw;
    }
}

}  // namespace orrery::runtime
