// The device of a CPU rank: the one device on the CPU's driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/comm/communicator.hpp"
#include "runtime/cpu/cpu_driver.hpp"
#include "runtime/streams/stream_device.hpp"

namespace orrery::runtime {

struct CpuOptions {
    int threads = 1;                   // of the rank's team, for compute
    bool poison = false;               // StreamOptions
    bool guard = false;                // likewise
    std::uint64_t delay_seed = 0;      // likewise
    bool alone = false;                // in its process, whose memory is the device's then
    std::int64_t clock_offset_ns = 0;  // added to the times of ops
};

// Of one rank; one device at a time.
class CpuDevices {
  public:
    // All must outlive the object.
    CpuDevices(Communicator& communicator, const CpuOptions& options, FlightRecorder& recorder)
        : communicator_(communicator), options_(options), recorder_(recorder) {}

    // Must not outlive this object.
    std::unique_ptr<Device> make(const BoundProgram& program, const std::string& offload_path);

  private:
    Communicator& communicator_;
    const CpuOptions& options_;
    FlightRecorder& recorder_;
    std::unique_ptr<CpuDriver> driver_;
};

}  // namespace orrery::runtime
