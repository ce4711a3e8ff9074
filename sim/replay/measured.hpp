// Prices from a measured trace, so that a simulation starts from what a real run took. An op has,
// in this order:
//   its own time, where the plan is the one that was measured: rank by rank, op id by op id;
//   the mean of all runs of the same op of a block, where the run has it: the same block name,
//   label, kind, phase, stream, kind of group, FLOPs, bytes moved and bytes sent, which between
//   them fix shape, element type and number of ranks;
//   scaled, where the model knows what was measured and prices the op otherwise than there (other
//   device, link, place of the group), or no such op was measured but others of its kind were:
//   t = t_measured · predicted(here) ÷ predicted(there), of the same op, else summed over the
//   measured ops of the same cost family, kind and phase, else of family and kind, else of the
//   family: what one of a family is wrong by, all are (sim/cost/kernel_cost.hpp). Links are
//   families: what was measured within a node says nothing of the network between nodes;
//   the profile's price, where nothing of its family was measured.
// A collective or transfer takes from when its last member is there: waiting is never priced. An op
// that was never measured comes as late as its stream's do in the mean.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plan/ir/plan.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/engine/engine.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

// The trace is no source of prices: it was predicted, or is folded (exit code 3).
class CostsError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

enum class PriceSource : std::uint8_t { own_time, mean, scaled, profile };
inline constexpr std::size_t kPriceSources = 4;
std::string_view name(PriceSource source);

// How much of a simulation has which source.
struct PriceSources {
    std::string path;                               // of the trace
    std::array<std::int64_t, kPriceSources> ops{};  // of all ranks
    std::array<double, kPriceSources> share{};      // of the time that ops take; sums to 1
    struct OfKind {
        plan::OpKind kind = plan::OpKind::gemm;
        std::array<double, kPriceSources> share{};  // of the time that all ops take
        // What its ops take over what the model alone says; 0: that they take nothing.
        double over_model = 0;
    };
    std::vector<OfKind> kinds;  // that take time, in the order of plan::OpKind
};

// What the model says of an op in some scenario, of ranks where it says the same.
struct PredictedOp {
    trace::OpName name;
    Price price;
    std::int64_t runs = 0;  // of all ranks in a step
};

// All runs of one op of a block.
struct MeasuredOp {
    OpTime time;  // means
    // Standard deviation of the runs over their mean, of a single run: 0.
    double relative_sd = 0;
    std::int64_t runs = 0;
};

// One step as it was measured, op by op.
struct Replay {
    int repetitions = 1;                     // 2: the step began before the one before it was over
    std::vector<std::vector<OpTime>> times;  // by rank, by op id
    Picoseconds tail = 0;                    // of the step, after its last op
};

// An op's price where something was measured that says it.
struct MeasuredPrice {
    OpTime time;
    double relative_sd = 0;
    PriceSource source = PriceSource::mean;
};

class MeasuredCosts {
  public:
    // Throws CostsError, naming `path`.
    MeasuredCosts(trace::Trace trace, std::string path);

    // What the model says of the scenario that was measured (predicted_ops, sim/machine.hpp).
    // Without it means are taken as they are, and nothing is scaled.
    void hold_against(const std::vector<PredictedOp>& predicted);

    // Of an op that the model prices so; nullopt: nothing measured says anything of it.
    std::optional<MeasuredPrice> price(const trace::OpName& op, const Price& predicted) const;
    // How late ops of a stream come that were never measured; 0 where none of it was.
    Picoseconds late_on(plan::Stream stream) const { return late_[plan::index_of(stream)]; }
    // Whether the model prices all that was measured as it did there.
    bool are_priced_alike(const std::vector<PredictedOp>& predicted) const;

    const std::string& path() const { return path_; }
    // Of the run, for people: not always a scenario of ours.
    const std::string& scenario_json() const { return trace_.scenario_json; }
    const MeasuredOp* find(const trace::OpName& op) const;  // nullptr: never measured
    // What the measured ops of a family took over what the model says; nothing: none was.
    struct OverModel {
        double factor = 1;
        double relative_sd = 0;  // between ops
        double measured_s = 0;   // of all, in a step of all ranks
    };
    std::optional<OverModel> over_model(CostFamily family) const;
    // From now on no op has the time of its own, and all are priced by means: for steps of which
    // something is to be changed.
    void price_by_means() { by_means_ = true; }
    // Of `plan` if it is the plan that was measured, and each stream ran its ops in that order.
    std::optional<Replay> replay_of(const plan::Plan& plan) const;

  private:
    using Key = std::tuple<std::string, std::string, plan::OpKind, plan::Phase, plan::Stream,
                           plan::GroupKind, double, double, double>;
    static Key key_of(const trace::OpName& op);
    bool is_of(const plan::Plan& plan) const;
    bool ran_in_order() const;
    std::vector<OpTime> times_of(const plan::LinkedProgram& linked, const plan::Plan& plan,
                                 const trace::Track& track, int repetitions) const;

    // Over all places of an op's group, as what was measured; and of which families these are.
    struct PredictedMean {
        double seconds = 0;
        std::int64_t runs = 0;
        std::set<CostFamily> families;
    };
    static std::map<Key, PredictedMean> means_of(const std::vector<PredictedOp>& predicted);
    // Family, kind and phase; −1: any.
    using PoolKey = std::tuple<CostFamily, int, int>;
    static std::array<PoolKey, 3> pools_of(const trace::OpName& op, CostFamily family);
    // Measured ops that err alike.
    struct Pool {
        double factor = 1;       // what they took over what the model says, all together
        double relative_sd = 0;  // between them
        double measured_s = 0;
    };

    trace::Trace trace_;
    std::string path_;
    bool by_means_ = false;
    std::map<Key, MeasuredOp> ops_;
    std::array<Picoseconds, plan::kStreams> late_{};
    std::map<Key, PredictedMean> predicted_;
    std::map<PoolKey, Pool> pools_;
};

}  // namespace orrery::sim
