// The profile of a device with queues (a GPU) by itself: its kernels timed over sizes and in the
// ops of plans, fitted, and put down with where the numbers come from. What `orrery calibrate
// --backend cuda` writes. Nothing here knows CUDA: the device is a StreamDriver.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calib/measure/collective_timings.hpp"
#include "calib/measure/cpu_profile.hpp"
#include "calib/measure/device_experts.hpp"
#include "calib/measure/device_steps.hpp"
#include "calib/measure/device_timings.hpp"
#include "calib/measure/step_timings.hpp"
#include "runtime/machine/gpu_monitor.hpp"

namespace orrery::measure {

// Models of one layer that a step of one device holds, in bf16.
StepGrid device_steps();
// The same in fp8, for what casts operands and seeks their scales.
StepGrid device_eight_bit_steps();

// What several ranks have timed before.
struct CollectivesOfRanks {
    CollectiveTimings timings;
    CollectiveGrid grid;
    std::string library;          // version of NCCL; empty: not known
    bool devices_shared = false;  // several ranks on each: their times say nothing
};

struct DeviceOptions {
    std::string device;  // name in the profile; empty: its own, in our spelling
    std::string version;
    std::string base_path;  // a profile that has what is not measured; empty: none
    std::string scenarios_dir;
    double seconds = 480;  // of all of it; what there is no time for is left out
    std::optional<CollectivesOfRanks> collectives;  // nothing: one rank, which has no others
    DeviceSampling sampling;
    DeviceGrid kernels;
    StepGrid steps = device_steps();
    StepGrid eight_bit_steps = device_eight_bit_steps();
};

// What was measured on. Texts are empty where nobody says.
struct DeviceMachine {
    runtime::GpuFacts gpu;
    std::optional<double> power_limit_w;
    std::string driver, cuda, cublaslt;
    std::string host_cores;  // that the process ran on, and whose memory copies were of
    std::string date;
};

struct DeviceTimings {
    std::vector<ProductTimings> products;  // bf16, fp16, fp32; fp8 where the device has it
    AttentionTimings attention;
    std::vector<ProductRow> attention_products;
    std::vector<fit::MemoryRow> moves;
    std::vector<fit::MemoryRow> transposes;  // in eight bits
    std::vector<fit::MemoryRow> kernels;     // by kind, in the ops of plans, and the transposes
    LaunchTimings launches;
    CopyTimings copies;
    HostCopyTimings host_copies;
    std::vector<fit::ExpertTiming> experts;
    std::vector<std::string> left_out;  // for want of time: sections, for people
    SampleCounts counts;
    runtime::GpuReading before, after;  // empty without a monitor
};

// Of the device, its clocks (null: unknown), the host's seconds.
struct DeviceAtHand {
    MakeDriver make_driver;
    runtime::GpuMonitor* monitor = nullptr;
    std::function<double()> now;
};

// Of one L2, what operands may fill: each of its two halves caches for the multiprocessors on its
// side.
double resident_bytes(const runtime::GpuFacts& gpu);

DeviceTimings time_device(const DeviceOptions& options, const DeviceAtHand& device,
                          const runtime::GpuFacts& gpu,
                          const std::function<void(const std::string&)>& progress);

// Throws fit::FitError where the timings determine no curve, sim::ProfileError where base_path is
// no profile.
Calibration profile_of(const DeviceTimings& timings, const DeviceOptions& options,
                       const DeviceMachine& machine);

// "h100-sxm" of "NVIDIA H100 80GB HBM3": the name that clusters ask for. Of a device that is not
// known its name, in small letters with dashes.
std::string device_name(const std::string& gpu);

}  // namespace orrery::measure
