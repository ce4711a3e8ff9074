// A rank that is a process, connected to the others of its run: control plane, transport and
// communicator, and a thread that watches whether the run goes on.
//
// A run that ends elsewhere is noticed at once, whatever this rank is busy with: the control
// plane's connections end with a process. So is the end of the process that started this one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "runtime/comm/processes/process_communicator.hpp"
#include "runtime/comm/processes/transport.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/launch/star_plane.hpp"

namespace orrery::runtime {

// best: MPI under Open MPI's mpirun where it is built in, else TCP.
enum class Carrier : std::uint8_t { best, tcp, mpi };

class ProcessWorld;

struct ProcessWorldOptions {
    CallTimeouts timeouts;
    Carrier carrier = Carrier::best;
    // The run has ended for this reason, while this rank lives in its world: on a thread of its
    // own.
    std::function<void(ProcessWorld& world, const std::string& reason)> ended;
    // … and the rank is still in it when it should have left: it is in no call, and hangs.
    std::function<void(const std::string& reason)> overdue;
    // Now and then while ranks meet: for whom this one waits.
    std::function<void(const std::string& line)> waiting;
};

class ProcessWorld {
  public:
    // Returns once all ranks have come. Throws LaunchError where nothing says how to reach rank 0
    // or the carrier is not built in, CommunicationError where somebody does not come.
    ProcessWorld(const plan::Mesh& mesh, const Launch& launch, ProcessWorldOptions options);
    // A rank that goes without finish() ends the run.
    ~ProcessWorld();
    ProcessWorld(const ProcessWorld&) = delete;
    ProcessWorld& operator=(const ProcessWorld&) = delete;

    ProcessCommunicator& communicator() { return *communicator_; }
    std::string carrier() const { return transport_->name(); }
    const std::vector<std::string>& hosts() const { return hosts_; }  // by rank

    void abort(std::string_view reason);
    // Once all ranks have come to their end; the last call.
    void finish();

  private:
    void meet(const Launch& launch);
    std::unique_ptr<Transport> connect(const Launch& launch);
    void watch();
    bool wait_until_left(std::chrono::milliseconds patience);

    ProcessWorldOptions options_;
    std::unique_ptr<StarPlane> plane_;
    std::string own_host_, host_of_zero_;  // as numbers; of ranks but the first
    std::vector<std::string> hosts_;
    std::unique_ptr<Transport> transport_;
    std::unique_ptr<ProcessCommunicator> communicator_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    bool leaving_ = false, finished_ = false, aborted_ = false;
    std::thread watch_;
};

}  // namespace orrery::runtime
