// What this machine has that a run may need: the facts of `orrery doctor`, nothing judged yet
// (requirements.hpp does). What the system does not say is absent, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/topology/numa.hpp"
#include "runtime/topology/pci.hpp"

namespace orrery::runtime {

struct Processor {
    std::string model;
    int sockets = 1;
    int cores = 1;                // logical, of the machine
    int usable = 1;               // of them by this process (affinity)
    std::optional<double> quota;  // cores' worth of time that the control group allows
    std::string kernels;          // instruction set of the CPU backend's kernels: "v3", "baseline"
};

struct Memory {
    std::int64_t total_bytes = 0;
    std::int64_t available_bytes = 0;
    std::optional<std::int64_t> limit_bytes;  // of the control group
};

struct Limits {
    std::optional<std::int64_t> locked_bytes;         // nothing: unlimited
    std::optional<std::int64_t> open_files;           // likewise
    std::optional<std::int64_t> shared_memory_bytes;  // size of /dev/shm; nothing: it is not there
};

struct NetworkPort {
    std::string name;   // "mlx5_0/1", "eth0"
    std::string kind;   // "InfiniBand", "RoCE", "Ethernet"
    std::string state;  // "active", "down", …
    std::optional<double> gigabits_per_s;
};

// A network adapter that does RDMA (InfiniBand, RoCE): what has ports.
struct Adapter {
    std::string name;  // "mlx5_0"
    PciDevice pci;     // its address is empty where it hangs on no PCI
    std::vector<std::optional<Proximity>> to_gpus;
};

// What decides whether adapters read and write GPUs' memory themselves (GPUDirect RDMA).
struct GpuDirect {
    std::string kernel;                // release: "6.8.0-45-generic"; empty: not said
    std::string peer_memory_module;    // that is loaded: "nvidia_peermem"; empty: none
    std::optional<bool> open_modules;  // whether the driver's kernel modules are the open ones
    std::optional<bool> dma_buf;       // whether kernel and modules hand memory over as dma-buf
    // Whether an IOMMU translates what GPUs or adapters send.
    std::optional<bool> iommu_translates;
    // Bridges of switches above GPUs and adapters at which PCIe ACS redirects; nothing: where
    // these hang is not said, or only root may read it.
    std::optional<std::vector<std::string>> redirecting;
};

// A variable of NCCL's (runtime/machine/nccl_settings.hpp).
struct NcclSetting {
    std::string name;    // "NCCL_IB_TIMEOUT"
    std::string value;   // as it stands there
    std::string origin;  // "environment", or the file
};

// A shared library that the system's loader finds, or not.
struct Library {
    std::string name;      // "NCCL"
    std::string used_for;  // by Orrery
    std::string file;      // its name to the loader
    std::string path;      // empty: not found
    std::string version;   // empty: not said
    std::string problem;   // why it could not be loaded though it is there
    std::string remedy;    // how to get it; empty: no need to
    bool found() const { return !path.empty(); }
};

struct Gpu {
    std::string name;
    std::optional<std::int64_t> memory_bytes;
    std::optional<int> compute_capability;  // 90 for 9.0
    std::optional<int> clock_MHz;           // of the multiprocessors, now
    std::optional<int> most_clock_MHz;
    std::optional<int> memory_clock_MHz;
    std::optional<int> most_memory_clock_MHz;
    std::optional<double> power_limit_w;
    std::optional<double> default_power_limit_w;
    std::optional<bool> ecc;
    std::optional<bool> persistence;
    std::optional<bool> partitioned;  // MIG
    int nvlinks = 0;                  // active ones
    PciDevice pci = {};               // its address is empty where the driver does not say it
};

enum class PeerAccess { self, nvlink, pcie, none };

struct Driver {
    Library library;             // libcuda.so.1
    Library management;          // libnvidia-ml.so.1, which knows what the GPUs are
    std::string version;         // "580.65.06"; empty: not said
    std::optional<int> cuda;     // newest CUDA that it runs: 13000 for 13.0
    std::optional<int> visible;  // GPUs that a program of CUDA gets (CUDA_VISIBLE_DEVICES)
    std::string problem;         // what went wrong when it was asked; empty: nothing
};

struct Machine {
    std::string built_with_cuda;  // version of the toolkit; empty: this program is without
    Processor processor;
    Memory memory;
    Limits limits;
    std::vector<NumaNode> numa_nodes;  // by number
    Driver driver;
    std::vector<Gpu> gpus;
    std::vector<std::vector<PeerAccess>> peers;  // [from][to]
    std::vector<NetworkPort> network;            // by kind, then name
    std::vector<Adapter> adapters;               // by name
    GpuDirect gpu_direct;
    std::vector<std::string> interfaces;     // of the system, all, by name
    std::vector<NcclSetting> nccl_settings;  // by name
    std::vector<Library> libraries;          // cuBLASLt, NCCL, cuDNN, MPI

    const Library& library(const std::string& name) const;  // must be one of these
    // Processors of the GPU's NUMA node; none where that is not known.
    CpuList cpus_of(const Gpu& gpu) const;
};

// "13.0" of 13000, as CUDA counts; "2.28.5" of 22805, as NCCL, cuBLAS and cuDNN do.
std::string cuda_version_text(int version);
std::string library_version_text(std::int64_t code);

}  // namespace orrery::runtime
