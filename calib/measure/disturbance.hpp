// What else the machine did while something was timed. Another process, or on a virtual machine the
// host, that takes a core for a while says nothing of the kernel that was on it: such a sample is
// taken again, and counted.
#pragma once

#include <cstdint>

namespace orrery::measure {

struct SampleCount {
    std::int64_t taken = 0;    // the dropped ones among them
    std::int64_t dropped = 0;  // disturbed, and taken again where that promised to be better
};

// How often a thread of this process has been taken off its core for another one.
std::int64_t preemptions();

// From its construction on. Seconds are those of cores, and right to a tick of the system's clock
// (10 ms) for each core.
class OtherWork {
  public:
    OtherWork();
    double seconds() const;  // of other processes, and of the host
    double cores() const;    // that they had, on average
    // More than a tick of each core, and more than a share of all cores that no desktop needs.
    bool disturbs() const;

  private:
    double machine_s_, own_s_, began_s_;
};

}  // namespace orrery::measure
