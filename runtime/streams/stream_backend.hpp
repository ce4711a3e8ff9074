// Training on devices with queues. Which ranks this process has: the one that a launcher made it,
// or all of them, a thread and a device each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/flight/rank_recorders.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/launch/plane_clock.hpp"
#include "runtime/streams/collective_driver.hpp"
#include "runtime/streams/group_communicator.hpp"
#include "runtime/streams/stream_device.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::runtime {

// Where drivers come from: the CUDA backend's, or those of a test.
struct DriverSource {
    int devices = 0;  // that this process sees
    std::function<std::unique_ptr<StreamDriver>(int device)> driver;
    std::function<std::unique_ptr<CollectiveDriver>(int device)> collectives;
};

// The device of a rank, by its number among those of this machine; nothing where there are too few.
// A launcher may show each process one device, its own: then all have number 0.
std::optional<int> device_of_rank(int devices, int ranks_per_device, bool launched,
                                  std::int64_t local_rank);

struct StreamBackendOptions {
    StreamOptions streams;
    CallTimeouts timeouts;
    CommunicatorOptions communicators;
    int ranks_per_device = 1;  // of a launch; more than one: for tests of correctness
    int threads_per_rank = 1;  // of the host
    // Of a launch: `overdue` is told, on a thread beside the rank's, which is held by the driver of
    // a run that is over, to end the process.
    WatchOptions watching;
    // Of a launch, where all ranks call it: what a rank adds to its clock to have rank 0's.
    std::function<std::int64_t(ControlPlane&)> clock_offset = host_clock_offset;
    FlightRecords* records = nullptr;  // null: none are written
};

// Fewer devices than ranks, or another number of processes than the layout has ranks: what a user
// can mend.
class PlacementError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class StreamBackend final : public Backend {
  public:
    StreamBackend(DriverSource source, std::optional<Launch> launch,
                  const StreamBackendOptions& options);

    // Throws PlacementError before anything is started.
    void run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) override;
    int threads_per_rank() const override { return options_.threads_per_rank; }

  private:
    class Cause;  // why a run ended: what was thrown first, on whichever rank

    int device_of(std::int64_t rank_here) const;
    // What body throws is noted in cause, and ends the run on every rank.
    void take_seat(const plan::Mesh& mesh, plan::Rank rank, int device, ControlPlane& plane,
                   const std::function<void(RankSeat&)>& body, RankRecorders& recorders,
                   Cause& cause) const;
    void run_threads(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) const;

    DriverSource source_;
    std::optional<Launch> launch_;
    StreamBackendOptions options_;
};

}  // namespace orrery::runtime
