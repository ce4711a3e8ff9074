// Prices from a measured trace, so that a simulation starts from what a real run took. An op has,
// in this order:
//   its own time, where the plan is the one that was measured: rank by rank, op id by op id;
//   the median of all runs of the same op of a block, where the run has it: the same block name,
//   label, kind, phase, stream, kind of group, FLOPs, bytes moved and bytes sent, which between
//   them fix shape, element type and number of ranks; the profile's price, where it was never
//   measured.
// A collective or transfer takes from when its last member is there: waiting is never priced.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "plan/ir/plan.hpp"
#include "sim/engine/engine.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

// The trace is no source of prices: it was predicted, or is folded (exit code 3).
class CostsError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

enum class PriceSource : std::uint8_t { own_time, median, profile };
inline constexpr std::size_t kPriceSources = 3;

// How much of a simulation has which source.
struct PriceSources {
    std::string path;                               // of the trace
    std::array<std::int64_t, kPriceSources> ops{};  // of all ranks
    std::array<double, kPriceSources> share{};      // of the time that ops take; sums to 1
};

// All runs of one op of a block.
struct MeasuredOp {
    OpTime time;  // medians
    // Standard deviation of the runs over their median, of a single run: 0.
    double relative_sd = 0;
    std::int64_t runs = 0;
};

// One step as it was measured, op by op.
struct Replay {
    int repetitions = 1;                     // 2: the step began before the one before it was over
    std::vector<std::vector<OpTime>> times;  // by rank, by op id
    Picoseconds tail = 0;                    // of the step, after its last op
};

class MeasuredCosts {
  public:
    // Throws CostsError, naming `path`.
    MeasuredCosts(trace::Trace trace, std::string path);

    const std::string& path() const { return path_; }
    const MeasuredOp* find(const trace::OpName& op) const;  // nullptr: never measured
    // Of `plan` if it is the plan that was measured.
    std::optional<Replay> replay_of(const plan::Plan& plan) const;

  private:
    using Key = std::tuple<std::string, std::string, plan::OpKind, plan::Phase, plan::Stream,
                           plan::GroupKind, double, double, double>;
    static Key key_of(const trace::OpName& op);
    bool is_of(const plan::Plan& plan) const;
    std::vector<OpTime> times_of(const plan::LinkedProgram& linked, const plan::Plan& plan,
                                 const trace::Track& track, int repetitions) const;

    trace::Trace trace_;
    std::string path_;
    std::map<Key, MeasuredOp> ops_;
};

}  // namespace orrery::sim
