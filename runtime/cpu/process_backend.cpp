#include "runtime/cpu/process_backend.hpp"

#include "runtime/comm/processes/process_plane.hpp"

namespace orrery::runtime {
namespace {

class ProcessSeat final : public RankSeat {
  public:
    ProcessSeat(ProcessWorld& world, FlightRecorder& recorder, const CpuOptions& options)
        : communicator_(world.communicator()),
          recorder_(recorder),
          control_(communicator_, [&world] { world.finish(); }),
          options_(options) {}

    plan::Rank rank() const override { return communicator_.rank(); }
    ControlPlane& control() override { return control_; }
    std::unique_ptr<Device> make_device(const BoundProgram& program,
                                        const plan::Scenario& scenario) override {
        return std::make_unique<CpuDevice>(program, scenario, communicator_, options_, &recorder_);
    }

  private:
    Communicator& communicator_;
    FlightRecorder& recorder_;
    ProcessPlane control_;
    const CpuOptions& options_;
};

// While a rank lives, its recorder is among those that are written.
class Recording {
  public:
    Recording(FlightRecords* records, FlightRecorder& recorder, const Communicator& communicator)
        : records_(records), recorder_(recorder) {
        recorder_.watch(communicator);
        if (records_ != nullptr) records_->add(recorder_);
    }
    ~Recording() {
        if (records_ != nullptr) records_->remove(recorder_);
        recorder_.leave();
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    void failed(const std::string& reason) {
        if (records_ != nullptr) records_->write_failure(reason);
    }

  private:
    FlightRecords* records_;
    FlightRecorder& recorder_;
};

}  // namespace

void ProcessBackend::run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    ProcessWorldOptions options;
    options.timeouts = options_.timeouts;
    options.carrier = options_.carrier;
    options.ended = [this](const std::string& reason) {
        if (options_.records != nullptr) options_.records->write_failure(reason);
    };
    options.overdue = options_.overdue;
    FlightRecorder recorder(mesh, launch_.rank);
    ProcessWorld world(mesh, launch_, options);
    Recording recording(options_.records, recorder, world.communicator());
    if (options_.connected) options_.connected(world);
    try {
        ProcessSeat seat(world, recorder, options_.cpu);
        body(seat);
    } catch (const std::exception& error) {
        recording.failed(error.what());
        world.abort(error.what());
        throw;
    }
}

}  // namespace orrery::runtime
