// Where the GPUs of ranks hang, before anything but the driver's own start has been asked of CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/launch/binding.hpp"
#include "runtime/machine/library_loader.hpp"

namespace orrery::runtime {

// The ranks of this machine, and what this process sees of its GPUs.
struct RanksOfMachine {
    std::int64_t ranks = 1;
    bool launched = false;        // a process each …
    std::int64_t local_rank = 0;  // … and this one is of this number
    int devices = 0;
    int ranks_per_device = 1;
};

// Of each rank whose device this process sees: all, or its own alone where a launcher shows each
// process one. An address is empty where the driver does not say it. `root` stands before /sys.
std::vector<RankDevice> rank_devices(LibraryLoader& loader, const RanksOfMachine& machine,
                                     const std::string& root = "");

}  // namespace orrery::runtime
