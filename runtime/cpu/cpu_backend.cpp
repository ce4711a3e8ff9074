#include "runtime/cpu/cpu_backend.hpp"

#include <memory>
#include <vector>

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

// Of all ranks, for as long as their plan lives.
class Recorders {
  public:
    Recorders(const plan::Mesh& mesh, FlightRecords* records) : records_(records) {
        for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank) {
            all_.push_back(std::make_unique<FlightRecorder>(mesh, rank));
            if (records_ != nullptr) records_->add(*all_.back());
        }
    }
    ~Recorders() {
        for (const auto& each : all_)
            if (records_ != nullptr) records_->remove(*each);
    }
    Recorders(const Recorders&) = delete;
    Recorders& operator=(const Recorders&) = delete;

    FlightRecorder& of(plan::Rank rank) { return *all_[static_cast<std::size_t>(rank)]; }
    void write(const std::string& reason) {
        if (records_ != nullptr) records_->write_failure(reason);
    }

  private:
    FlightRecords* records_;
    std::vector<std::unique_ptr<FlightRecorder>> all_;
};

}  // namespace

void CpuBackend::run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    ThreadWorldOptions world;
    world.timeout = timeout_;
    world.threads_per_rank = options_.threads;
    Recorders recorders(mesh, records_);
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
