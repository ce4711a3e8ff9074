// From a plan and a scenario to what the engine runs: tracks with prices. Each distinct op is
// priced once; tracks whose groups lie alike share a table.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/fold.hpp"
#include "sim/replay/measured.hpp"

namespace orrery::sim {

class MixedNetwork;
class NeighbourRatios;

// Prices by op number, of one track.
struct PriceTable {
    std::size_t node_kind = 0;  // of the cluster's, that it is for
    std::vector<Picoseconds> durations;
    std::vector<Picoseconds> balanced;  // if as many rows came to every rank's experts
    double fullest = 1;                 // rows of the fullest rank over the mean one's, at most
    std::vector<Price> prices;
    std::vector<NetworkUse> network;  // of collectives, nothing of other ops
};

struct Machine {
    Classes classes;
    std::vector<std::unique_ptr<PriceTable>> tables;  // shared by tracks
    std::vector<const PriceTable*> table_of;          // by track
    EngineInput input;                                // points into tables
    int repetitions = 1;                              // steps simulated one after another …
    int following = 0;     // … of which so many come after the one that counts, beside its end
    Picoseconds tail = 0;  // of the step, after its last op
    std::vector<std::vector<OpTime>> times;  // of measured costs, by track and op id
    // Of these, likewise, and what the model alone says in seconds; empty without.
    std::vector<std::vector<PriceSource>> sources;
    std::vector<std::vector<double>> modelled;
    std::vector<std::vector<double>> factors;     // of tracks whose chunks were made equal
    std::vector<std::unique_ptr<Uneven>> uneven;  // of tracks whose kernels take another time

    // What a track's uses of the network are above its node (MixedNetwork::travels), by kind of
    // group and by pipeline rank; of a machine among others.
    struct Above {
        std::array<double, plan::kGroupKinds> groups{};
        std::vector<double> peers;
    };
    std::vector<Above> above;  // by track
};

// What machines of many plans share that run on one cluster, with one mesh. They run one step,
// which none follows.
struct MachineParts {
    const plan::Cluster& cluster;  // drawn (drawn_cluster)
    const MixedNetwork& network;
    const Classes& classes;  // of its ranks, folded
    const std::vector<plan::LinkedProgram>& linked;
    NeighbourRatios& ratios;  // of the profile's products
};

// `plan` must outlive the machine. With `costs` ops take what was measured
// (sim/replay/measured.hpp); the host's launches, the slow-down beside communication and what
// devices differ by are then in the measurements, and are not added again. Where the plan is the
// one that was measured, on a cluster of the same prices, every rank is simulated. `parts`: what
// has been made of the machine already, of no measured costs; `places`, of which nodes of a larger
// cluster the scenario's is made. Throws ProfileError for what the profile lacks, and
// plan::ScenarioError where the device cannot compute so, or an op takes longer than can be
// simulated.
Machine build_machine(const plan::Plan& plan, const plan::Scenario& scenario,
                      const Profile& profile, bool unfolded, const MeasuredCosts* costs = nullptr,
                      const MachineParts* parts = nullptr, const RankPlaces* places = nullptr);

// What the model says of each op that ranks run. Throws as build_machine does.
std::vector<PredictedOp> predicted_ops(const plan::Plan& plan, const plan::Scenario& scenario,
                                       const Profile& profile);

// Whether a global gradient norm, or a look for overflow, keeps every rank until the last has done
// its backward passes.
bool asks_all_ranks(const plan::Training& training);

// What issuing an op costs a host of this stack. Throws plan::ScenarioError where it is more than a
// trace holds.
trace::LaunchTimes launch_times(const plan::Framework& framework);

// Multiplies what ops take, by track and op id of one step; empty: nothing.
void multiply_times(Machine& machine, std::vector<std::vector<double>> factors);

// The machine's tracks, with as many rows for every rank's experts. Of a machine without measured
// costs.
std::vector<EngineTrack> balanced_tracks(const Machine& machine);

// Rows that come to the experts of the fullest rank of a group over the mean; 1: all get as many.
double fullest_rank(const Machine& machine);

// Where the prices of a machine that was built with costs are from.
PriceSources price_sources(const Machine& machine, const MeasuredCosts& costs);

// The plan's ops and programs, and a track for each class of ranks; nothing has happened yet.
trace::Trace trace_to_fill(const plan::Plan& plan, const Machine& machine,
                           const std::string& resolved_json);

// The step in what a machine's run has recorded, all ranks together: from the last end of the steps
// before it, or 0, to its own last end.
struct StepWindow {
    Picoseconds start = 0;
    Picoseconds end = 0;
};
StepWindow step_window(const Machine& machine, const EngineResult& result);

}  // namespace orrery::sim
