// A training run as a whole, in numbers: how long it takes without failures, what fails how often,
// what a failure costs, what a checkpoint costs. Everything in seconds of wall clock; the clock of
// the fleet is a double, since it counts days and not picoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::sim {

// One cause of interruptions, of all devices or nodes of the run together.
struct RunCause {
    std::string name;
    double per_s = 0;  // rate while the run computes
    double detection_s = 0;
    bool replaces_node = true;
    bool silent = false;      // the run goes on until it is noticed: that time is lost work
    bool kills_nodes = true;  // a device's or a node's: others keep the copies in their memory
};

struct RunModel {
    // Of all steps together without failures, and how much shorter and longer that may be: standard
    // deviations, relative.
    double work_s = 0;
    double early = 0, late = 0;
    double data_share = 0;  // of work_s, waiting for data
    double warming_s = 0;   // before the first step: data come to the nodes' disks

    std::vector<RunCause> causes;
    double rate_log_sd = 0;  // of the logarithm of all rates together, whose mean is 1
    double diagnosis_s = 0, replacement_s = 0;
    double restart_s = 0;  // processes and communicators
    double load_s = 0;     // of a checkpoint from storage

    // Checkpoints: work between two, what training waits for one, and how long after that it is
    // complete.
    double interval_s = 0;
    double stall_s = 0, write_s = 0;
    double blocking_write_s = 0;  // of stall_s, the write itself
    // Copies in the memory of other nodes: work between two (0: none), what training waits, and
    // what loading one takes.
    double memory_interval_s = 0, memory_stall_s = 0, memory_load_s = 0;

    std::int64_t spare_nodes = 0;
    double repair_s = 0;  // mean of an exponential time
    // Where no spare is left: progress of the layout that needs fewer nodes, of the whole one's; 0:
    // the run waits for a node.
    double degraded_pace = 0;

    double failures_per_s() const;
    // Of a failure, the mean of what passes before training goes on, a node to replace it being
    // there; lost work aside.
    double recovery_s() const;
};

// Wall-clock seconds that a run takes from its first step on, in the mean over failures, with a
// spare node always there and all at the middle of their spreads. Daly 2006 (Future Generation
// Computer Systems 22, eq. 13 and before): failures at rate λ strike while a segment of τ of work
// and its checkpoint of δ are done, which then are done again; a segment takes (1/λ +
// R)·(e^{λ(τ+δ)} − 1). A checkpoint that is complete only w after the stall adds w of work to what
// a failure loses; copies in memory make the loss of those that may use them half of what lies
// between two.
double expected_wall_s(const RunModel& run);

// Work between two checkpoints that makes expected_wall_s least, no less than a write takes, nor
// than `step_s`; a multiple of it.
double best_interval_s(RunModel run, double step_s);

// Young 1974 and Daly 2006's first orders: √(2δ/λ) − δ.
double young_daly_s(const RunModel& run);

}  // namespace orrery::sim
