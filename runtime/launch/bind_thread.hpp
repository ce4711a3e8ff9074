// Asks the system for what binding.hpp decides: the calling thread is bound, and with it those that
// it starts later.
#pragma once

#include <string>

#include "runtime/launch/binding.hpp"

namespace orrery::runtime {

// Cores on which this thread may run.
CpuList allowed_cpus();

// Of this process; `root` stands before /sys and /proc.
Processors processors_of_process(const std::string& root = "");

// What the system refused, and why; empty: nothing.
struct Refused {
    std::string cores;
    std::string memory;  // a container without CAP_SYS_NICE may refuse it; memory that a bound
                         // thread touches first is of its node all the same
};

// To the rank's cores; what it allocates then comes from its node, where it has one, as long as
// there is any, unless another policy was set before (numactl).
Refused bind_thread(const RankBinding& rank);

// The same with what the system refuses, which is asked and not changed: no rank is bound where it
// refuses one. Throws BindingError where `numa` was asked for.
Binding tried(plan::BindTo asked, Binding binding);

}  // namespace orrery::runtime
