// A measured step laid over the predicted one. Both traces are of one plan, and events carry the
// plan's op ids, so that each op that ran has the price that it was given: the error of a
// prediction is told op by op, and a step that is right by two wrongs is seen to be.
//
// Times are seconds. An op takes from its start, when every member is there, to its end: waiting is
// in the accounts, not in the ops. Of a trace that holds several steps the last one counts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "trace/accounts.hpp"
#include "trace/trace.hpp"

namespace orrery::compare {

// The two traces are not of one plan, or not a predicted and a measured one (exit code 3).
class PlansDiffer : public std::runtime_error {
  public:
    explicit PlansDiffer(const std::vector<std::string>& differences);
    const std::vector<std::string>& differences() const { return differences_; }

  private:
    std::vector<std::string> differences_;
};

struct TimePair {
    double predicted_s = 0;
    double measured_s = 0;

    std::optional<double> error_pct() const;  // nothing was measured: none
};

struct Spread {
    double low = 0;
    double median = 0;
    double high = 0;
};
// Of at least one value.
Spread spread_of(std::vector<double> values);

struct KindComparison {
    plan::OpKind kind = plan::OpKind::gemm;
    std::int64_t count = 0;  // ops of all ranks
    TimePair time;           // sum of a rank's ops, mean over ranks
    std::optional<Spread>
        rank_error_pct;  // over the ranks that have such ops; nothing measured: none
};

// All runs of one op of a block.
struct OpComparison {
    const trace::OpName* name = nullptr;  // of the predicted trace
    std::vector<std::int16_t> layers;     // ascending; empty where the block belongs to none
    std::int64_t count = 0;
    TimePair time;            // as above
    Spread predicted_each_s;  // of one run
    Spread measured_each_s;
    double share_of_error = 0;  // |error of the op's time| over the sum of those of all ops
};

// Memory in bytes, of the rank with the most; what a trace does not say is unknown.
struct MemoryComparison {
    std::optional<std::int64_t> predicted_peak;  // the arena
    std::optional<std::int64_t> measured_peak;
    std::optional<std::int64_t> predicted_other;  // of the process, outside the arena
    std::optional<std::int64_t> measured_other;
};

struct Comparison {
    std::int64_t ranks = 0;
    std::string backend;                 // that measured; empty: unknown
    bool correctness_only = false;       // measured times say nothing
    TimePair step;                       // the windows of the traces
    std::optional<Spread> step_times_s;  // of the run that the measured step is from
    std::size_t steps_measured = 0;
    std::array<TimePair, trace::kAccounts> accounts;  // mean over ranks
    std::array<TimePair, plan::kStreams> busy;        // mean over ranks, each moment once
    // By exposed_* account: transfers in progress; what of it compute waited for is in accounts.
    std::array<TimePair, trace::kAccounts> communication;
    std::vector<KindComparison> kinds;  // longest measured first
    std::vector<OpComparison> ops;      // largest absolute error first
    MemoryComparison memory;
    trace::StorageFacts predicted_storage, measured_storage;
};

// Of what the two traces say, and nothing else. Throws PlansDiffer with all differences.
Comparison compare_traces(const trace::Trace& predicted, const trace::Trace& measured);

}  // namespace orrery::compare
