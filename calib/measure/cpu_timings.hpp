// Everything that a profile of the CPU backend is fitted to, timed with all ranks busy at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "calib/measure/kernel_timings.hpp"
#include "calib/measure/step_timings.hpp"
#include "calib/measure/timing.hpp"

namespace orrery::measure {

struct CalibrationOptions {
    std::string device = "cpu-core";  // name in the profile; a cluster asks for it
    std::string version;              // of this program
    std::int64_t ranks = 0;           // all busy at once; 0: as many as there are cores for
    int threads_per_rank = 1;         // of kernels
    // Collectives are scaled from these to the intra_node of a cluster: with the cluster's own
    // values, those of scenarios/clusters/cpu-8.json, they are priced as measured.
    double intra_node_bandwidth_GBps = 5;
    double intra_node_latency_us = 5;
    Sampling sampling;
    KernelGrid kernels;
    StepGrid steps;
    int rounds = 4;             // of kernels alone and whole steps in turn
    std::string scenarios_dir;  // has the profiles and frameworks that scenarios name
};

// Some ten seconds' worth of it, of fewer sizes.
CalibrationOptions short_calibration();

struct CpuTimings {
    std::vector<std::pair<plan::DType, std::vector<fit::GemmRow>>> gemm;  // fp32 first
    AttentionTimings attention;
    std::vector<ProductRow> products;
    std::vector<fit::MemoryRow> memory;  // of kernels that only move bytes
    StepTimings steps;
    double copy_bytes_per_s = 0;
    SampleCount samples;      // of kernels alone, of the first rank
    SampleCount performed;    // of whole steps
    double others_cores = 0;  // that other work had meanwhile, on average
};

// `options.ranks` is at least 1; `progress` is told what is being timed.
CpuTimings time_cpu(const CalibrationOptions& options,
                    const std::function<void(const std::string&)>& progress);

}  // namespace orrery::measure
