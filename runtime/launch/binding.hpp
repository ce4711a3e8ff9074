// Which cores each rank of this machine runs on. A rank that computes on a GPU, or on cores, of one
// NUMA node and runs on another's waits for memory over the link between the sockets: it is bound
// to the cores of one node, as torchrun's --numa-binding and Open MPI's --bind-to numa do, and its
// memory is of there.
//
// hwloc would tell the same facts. They are a few files of the kernel's, which `doctor` reads too;
// a library for them would have to travel with every installation.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"
#include "runtime/topology/numa.hpp"
#include "runtime/topology/pci.hpp"

namespace orrery::runtime {

// What a process decides by (processors_of_process, in bind_thread.hpp).
struct Processors {
    std::vector<NumaNode> nodes;
    CpuList cpuset;   // what the control group leaves; empty: not known
    CpuList allowed;  // of them, those on which this process may run (affinity)
};

struct RankBinding {
    std::int64_t local_rank = 0;  // among those of this machine
    CpuList cpus;                 // none: it is not bound
    std::vector<int> nodes;       // NUMA nodes that these are of
    std::string why_not;          // it is not bound
};

struct Binding {
    std::vector<RankBinding> ranks;  // by local rank; none where `why_none` says so
    std::string why_none;            // no rank is bound
    // Whether people are to hear of it: something could be bound, or was asked to be.
    bool worth_telling = false;
    std::string memory_problem;  // why ranks' memory is not asked for on their nodes; empty: it is

    const RankBinding* of(std::int64_t local_rank) const;  // null: it is not bound
};

// `numa` was asked for, and cannot be had: one sentence, of the first rank that lacks it.
class BindingError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A rank's device, as far as the system says where it hangs.
struct RankDevice {
    std::int64_t local_rank = 0;
    PciDevice pci;
};

// Each rank to the cores of the NUMA node that its GPU is of. Throws BindingError.
Binding bind_to_gpus(plan::BindTo asked, const Processors& processors,
                     const std::vector<RankDevice>& devices);

// The cores are shared out over `ranks` in the order of their NUMA nodes, and each rank is bound to
// all nodes that its share touches: to one where there are as many ranks as nodes, or a multiple.
// Throws BindingError.
Binding share_nodes(plan::BindTo asked, const Processors& processors, std::int64_t ranks);

// What was done, for people: "ranks 0-3 to NUMA node 0 (cores 0-55,112-167), ranks 4-7 to …".
std::string binding_text(const Binding& binding);

}  // namespace orrery::runtime
