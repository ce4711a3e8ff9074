#include "runtime/streams/stream_backend.hpp"

#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/launch/connect_ranks.hpp"
#include "runtime/launch/thread_planes.hpp"
#include "runtime/train/agreement.hpp"

namespace orrery::runtime {
namespace {

class StreamSeat final : public RankSeat {
  public:
    StreamSeat(const plan::Mesh& mesh, plan::Rank rank, int device, ControlPlane& plane,
               const DriverSource& source, const StreamBackendOptions& options,
               FlightRecorder& recorder)
        : rank_(rank),
          device_(device),
          plane_(plane),
          source_(source),
          options_(options),
          recorder_(recorder),
          issued_(recorder),
          marks_(source.driver(device)),
          collectives_(source.collectives(device)),
          communicator_(mesh, rank, *collectives_, *marks_, plane, options.timeouts,
                        std::chrono::steady_clock::now, options.watching, options.communicators,
                        &issued_) {
        recorder_.watch(communicator_);
    }
    ~StreamSeat() override { recorder_.leave(); }

    plan::Rank rank() const override { return rank_; }
    ControlPlane& control() override { return plane_; }

    // What was thrown ends the run before anything of the seat goes: memory that is freed waits for
    // the device, and the device for calls that no other rank may join any more. `failed` is told
    // then.
    void perform(const std::function<void(RankSeat&)>& body,
                 const std::function<void(const std::string& reason)>& failed) {
        try {
            body(*this);
        } catch (const CommunicationError& error) {  // has ended it
            failed(error.what());
            throw;
        } catch (const std::exception& error) {
            communicator_.abort(error.what());
            failed(error.what());
            throw;
        }
    }

    // A driver frees its memory when it goes: each arena has one of its own.
    std::unique_ptr<Device> make_device(const BoundProgram& program,
                                        const std::string& offload_path) override {
        communicator_.connect(program.communicators);
        communicator_.forget_memory();
        issued_.use(nullptr);
        driver_.reset();
        driver_ = source_.driver(device_);
        issued_.use(driver_.get());
        StreamOptions options = options_.streams;
        options.offload_path = offload_path;
        auto device =
            std::make_unique<StreamDevice>(program, communicator_, *driver_, options, &issued_);
        communicator_.register_memory(device->arena(), program.arena_bytes);
        device->prepare();
        if (const std::string choices = driver_->choices_id(); !choices.empty())
            require_agreement(plane_, {{"/run/product_choices", "the file with id " + choices}});
        return device;
    }

  private:
    plan::Rank rank_;
    int device_;
    ControlPlane& plane_;
    const DriverSource& source_;
    const StreamBackendOptions& options_;
    FlightRecorder& recorder_;
    IssuedOps issued_;
    std::unique_ptr<StreamDriver> driver_;
    std::unique_ptr<StreamDriver> marks_;  // events of the communicator
    std::unique_ptr<CollectiveDriver> collectives_;
    GroupCommunicator communicator_;
};

// Of a rank that cannot go on with the others: what ended the run, where somebody has told; else
// what is being handled.
std::exception_ptr reason_of(ControlPlane& plane) {
    try {
        plane.check();
    } catch (const CommunicationError&) {
        return std::current_exception();
    }
    return std::current_exception();
}

}  // namespace

// The first one stands: what comes later is mostly what it brought about. A rank may hear of it
// before it is noted; that others cannot go on is then what came of it.
class StreamBackend::Cause {
  public:
    void note(std::exception_ptr cause, bool between_ranks) {
        const std::lock_guard lock(mutex_);
        if (cause_ && (between_ranks || !between_ranks_)) return;
        cause_ = std::move(cause);
        between_ranks_ = between_ranks;
    }
    // Where there is one, with a record of what led to it.
    void rethrow(RankRecorders& recorders) const {
        if (!cause_) return;
        try {
            std::rethrow_exception(cause_);
        } catch (const std::exception& error) {
            recorders.write(error.what());
            throw;
        }
    }

  private:
    std::mutex mutex_;
    std::exception_ptr cause_;
    bool between_ranks_ = false;
};

StreamBackend::StreamBackend(DriverSource source, std::optional<Launch> launch,
                             const StreamBackendOptions& options)
    : source_(std::move(source)), launch_(std::move(launch)), options_(options) {}

void StreamBackend::run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) {
    if (!launch_) return run_threads(mesh, body);
    if (launch_->size != mesh.ranks())
        throw PlacementError(fmt::format("the layout has {} ranks, and {} processes were started",
                                         mesh.ranks(), launch_->size));
    const int device = device_of(launch_->local_rank);
    const std::unique_ptr<ControlPlane> plane = connect_ranks(*launch_);
    Cause cause;
    RankRecorders recorders(mesh, {&launch_->rank, 1}, options_.records);
    take_seat(mesh, launch_->rank, device, *plane, body, recorders, cause);
    cause.rethrow(recorders);
}

std::optional<int> device_of_rank(int devices, int ranks_per_device, bool launched,
                                  std::int64_t local_rank) {
    if (devices == 1 && ranks_per_device == 1 && launched) return 0;
    const auto device = static_cast<int>(local_rank / ranks_per_device);
    return device < devices ? std::optional(device) : std::nullopt;
}

int StreamBackend::device_of(std::int64_t rank_here) const {
    const auto device =
        device_of_rank(source_.devices, options_.ranks_per_device, launch_.has_value(), rank_here);
    if (device) return *device;
    throw PlacementError(fmt::format(
        "rank {} of this machine needs device {}, and there {}", rank_here,
        rank_here / options_.ranks_per_device,
        source_.devices == 1 ? std::string("is one") : fmt::format("are {}", source_.devices)));
}

void StreamBackend::take_seat(const plan::Mesh& mesh, plan::Rank rank, int device,
                              ControlPlane& plane, const std::function<void(RankSeat&)>& body,
                              RankRecorders& recorders, Cause& cause) const {
    try {
        StreamBackendOptions options = options_;
        if (launch_) options.streams.clock_offset_ns = options.clock_offset(plane);
        StreamSeat seat(mesh, rank, device, plane, source_, options, recorders.of(rank));
        seat.perform(body, [&](const std::string& reason) {
            if (!launch_) return;  // once all ranks have left
            recorders.write(reason);
            std::this_thread::sleep_for(RankRecorders::kOthersTime);
        });
    } catch (const std::exception& error) {
        const bool between_ranks = dynamic_cast<const CommunicationError*>(&error) != nullptr ||
                                   dynamic_cast<const CollectiveError*>(&error) != nullptr;
        cause.note(between_ranks ? reason_of(plane) : std::current_exception(), between_ranks);
        plane.abort(error.what());
    }
}

void StreamBackend::run_threads(const plan::Mesh& mesh,
                                const std::function<void(RankSeat&)>& body) const {
    for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank)
        static_cast<void>(device_of(rank));
    const auto planes = thread_planes(mesh.ranks());
    std::vector<plan::Rank> all(static_cast<std::size_t>(mesh.ranks()));
    std::iota(all.begin(), all.end(), 0);
    RankRecorders recorders(mesh, all, options_.records);
    Cause cause;
    std::vector<std::thread> threads;
    for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank)
        threads.emplace_back([&, rank] {
            take_seat(mesh, rank, device_of(rank), *planes[static_cast<std::size_t>(rank)], body,
                      recorders, cause);
        });
    for (std::thread& thread : threads)
        thread.join();
    cause.rethrow(recorders);
}

}  // namespace orrery::runtime
