#include "runtime/cpu/process_backend.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/comm/processes/clock_offset.hpp"
#include "runtime/comm/processes/process_plane.hpp"
#include "runtime/flight/rank_recorders.hpp"

namespace orrery::runtime {
namespace {

class ProcessSeat final : public RankSeat {
  public:
    ProcessSeat(ProcessWorld& world, FlightRecorder& recorder, const CpuOptions& options)
        : communicator_(world.communicator()),
          recorder_(recorder),
          control_(communicator_, [&world] { world.finish(); }),
          devices_(communicator_, options, recorder) {}

    plan::Rank rank() const override { return communicator_.rank(); }
    ControlPlane& control() override { return control_; }
    std::unique_ptr<Device> make_device(const BoundProgram& program,
                                        const std::string& offload_path) override {
        return devices_.make(program, offload_path);
    }

  private:
    Communicator& communicator_;
    FlightRecorder& recorder_;
    ProcessPlane control_;
    CpuDevices devices_;
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

namespace {

// Processes of a machine share a clock.
std::int64_t offset_in(ProcessWorld& world) {
    std::vector<plan::Rank> elsewhere;
    for (std::size_t rank = 1; rank < world.hosts().size(); ++rank)
        if (world.hosts()[rank] != world.hosts().front())
            elsewhere.push_back(static_cast<plan::Rank>(rank));
    return clock_offset(world.communicator(), elsewhere, [] {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    });
}

}  // namespace

void ProcessBackend::tell(const std::string& message) {
    if (!told_.exchange(true) && options_.failed) options_.failed(message);
}

// On the thread that watches.
void ProcessBackend::ended(ProcessWorld& world, const std::string& reason) {
    std::string doing = options_.records != nullptr ? options_.records->unfinished() : "";
    if (const auto waiting = world.communicator().waiting()) {
        std::vector<std::string> names;
        for (const plan::Rank rank : waiting->ranks)
            names.push_back(world.communicator().named(rank));
        doing = waiting->call;
        if (!names.empty()) doing += fmt::format(", waiting for {}", fmt::join(names, ", "));
    }
    tell(fmt::format("{} cannot go on with {}: {}", world.communicator().named(launch_.rank),
                     doing.empty() ? "the run" : doing, reason));
    if (options_.records != nullptr) options_.records->write_failure(reason);
}

void ProcessBackend::run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    try {
        live(mesh, body);
    } catch (const CommunicationError& error) {
        tell(error.what());
        throw;
    }
}

void ProcessBackend::live(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    ProcessWorldOptions options;
    options.timeouts = options_.timeouts;
    options.carrier = options_.carrier;
    options.ended = [this](ProcessWorld& world, const std::string& reason) {
        ended(world, reason);
    };
    options.overdue = options_.overdue;
    options.waiting = options_.waiting;
    FlightRecorder recorder(mesh, launch_.rank);
    ProcessWorld world(mesh, launch_, options);
    Recording recording(options_.records, recorder, world.communicator());
    if (options_.connected) options_.connected(world);
    try {
        CpuOptions cpu = options_.cpu;
        cpu.clock_offset_ns = offset_in(world);
        ProcessSeat seat(world, recorder, cpu);
        body(seat);
    } catch (const CommunicationError& error) {
        tell(error.what());
        world.abort(error.what());
        recording.failed(error.what());
        std::this_thread::sleep_for(RankRecorders::kOthersTime);
        throw;
    } catch (const std::exception& error) {
        told_ = true;  // whoever catches it says it
        world.abort(error.what());
        recording.failed(error.what());
        throw;
    }
}

}  // namespace orrery::runtime
