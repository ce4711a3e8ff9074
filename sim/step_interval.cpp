#include "sim/step_interval.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "sim/machine.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {
namespace {

// How often each op runs at the prices of each table, over all ranks.
std::vector<std::vector<std::int64_t>> ops_by_table(const trace::Trace& trace,
                                                    const Machine& machine) {
    std::map<const PriceTable*, std::size_t> index;
    for (const auto& table : machine.tables)
        index.emplace(table.get(), index.size());
    std::vector<std::vector<std::int64_t>> ranks(  // by table and program
        machine.tables.size(), std::vector<std::int64_t>(trace.programs.size()));
    for (std::size_t t = 0; t < trace.tracks.size(); ++t)
        ranks[index.at(machine.table_of[t])][static_cast<std::size_t>(trace.tracks[t].program)] +=
            trace.tracks[t].represents();
    std::vector<std::vector<std::int64_t>> ops(machine.tables.size(),
                                               std::vector<std::int64_t>(trace.ops.size()));
    for (std::size_t p = 0; p < trace.programs.size(); ++p) {
        std::vector<std::int64_t> of_program(trace.ops.size());
        for (const std::uint32_t op : trace.programs[p].op)
            ++of_program[op];
        for (std::size_t t = 0; t < ops.size(); ++t)
            for (std::size_t op = 0; op < of_program.size(); ++op)
                ops[t][op] += ranks[t][p] * of_program[op];
    }
    return ops;
}

// Seconds of all ranks that the step is busy with an op, of which only what compute waited for
// counts: waiting scales with what is waited for.
double seconds_of(const Prediction& prediction, const trace::OpName& op, double price,
                  std::int64_t times) {
    const auto exposed = [](const trace::CommunicationSums& sum) {
        return sum.busy_s > 0 ? std::min(1.0, sum.exposed_s / sum.busy_s) : 0;
    };
    double seconds = price * static_cast<double>(times);
    if (plan::is_communication(op.kind))
        seconds *= exposed(
            prediction.communication[static_cast<std::size_t>(trace::exposed_account(op.group))]);
    if (plan::is_copy(op.kind)) seconds *= exposed(prediction.copies[trace::copy_index(op.kind)]);
    return seconds;
}

// By family: the residual of its prices, weighed by its share of the busy time. Errors of one
// family are one common error.
std::array<double, kCostFamilies> family_deviations(const Prediction& prediction,
                                                    const Machine& machine) {
    const trace::Trace& trace = prediction.trace;
    const auto ops = ops_by_table(trace, machine);
    std::array<double, kCostFamilies> weighted{};
    double busy = 0;
    for (std::size_t t = 0; t < ops.size(); ++t)
        for (std::size_t number = 0; number < trace.ops.size(); ++number) {
            const Price& price = machine.tables[t]->prices[number];
            const double seconds =
                seconds_of(prediction, trace.ops[number], price.seconds, ops[t][number]);
            busy += seconds;
            weighted[static_cast<std::size_t>(price.family)] += seconds * price.relative_sd;
        }
    for (double& family : weighted)
        family = busy > 0 ? family / busy : 0;
    return weighted;
}

// A device whose products were timed, or not.
IntervalPart part_of(CostFamily family, bool timed) {
    switch (family) {
        case CostFamily::intra_node_collective:
            return IntervalPart::link;
        case CostFamily::inter_node_collective:
        case CostFamily::point_to_point:
            return IntervalPart::fabric;
        case CostFamily::gemm:
        case CostFamily::batched_gemm:
        case CostFamily::attention:
        case CostFamily::memory:
        case CostFamily::copy:
            break;
    }
    return timed ? IntervalPart::kernel : IntervalPart::device;
}

// One deviation of a logarithm, kLaunchSpread: e^0.6 − 1 longer, 1 − e^−0.6 shorter.
static_assert(kLaunchSpread == 0.6);
constexpr double kLaunchLonger = 0.8221188003905089;
constexpr double kLaunchShorter = 0.45118836390597355;

// Of the step, that ranks wait for the host.
double share_of_launches(const Prediction& prediction) {
    const trace::Trace& trace = prediction.trace;
    const double step = to_seconds(trace.step_end - trace.step_start);
    if (step <= 0) return 0;
    return trace::mean_accounts(trace,
                                prediction.sums)[static_cast<std::size_t>(trace::Account::launch)] /
           step;
}

// Devices that nobody timed are slower than the transfer of constants says, never faster: of runs
// on Intel Max 1550, Gaudi 2 and 3, Ascend 910B, MI250 and V100, which no constant was fitted to,
// six sources took 8 to 76 % longer, a root mean square of 2.5 times the transfer's own deviation.
constexpr double kUntimedIsSlower = 2.5;

// On all of a cluster's kinds of nodes.
bool products_timed(const Profile& profile) {
    return std::any_of(profile.gemm.begin(), profile.gemm.end(),
                       [](const auto& curve) { return curve && curve->measured; }) &&
           std::all_of(profile.others.begin(), profile.others.end(), products_timed);
}

}  // namespace

std::string_view name(IntervalPart part) {
    static constexpr std::array<std::string_view, kIntervalParts> names = {
        "kernel", "device", "link", "fabric", "stack", "structure"};
    return names[static_cast<std::size_t>(part)];
}

Deviation together(const IntervalParts& parts) {
    double early = 0, late = 0;
    for (const Deviation& part : parts) {
        early += part.early * part.early;
        late += part.late * part.late;
    }
    return {std::sqrt(early), std::sqrt(late)};
}

double earliest_share(double early) {
    constexpr double kQuarter = 0.25;
    return early <= 1 - kQuarter ? 1 - early
                                 : kQuarter * std::exp((1 - kQuarter - early) / kQuarter);
}

IntervalParts interval_parts(const Prediction& prediction, const Machine& machine,
                             const plan::Framework& framework, const Profile& profile,
                             const StackPrior& prior) {
    std::array<double, kIntervalParts> variances{};
    const auto families = family_deviations(prediction, machine);
    const bool timed = products_timed(profile);
    for (std::size_t family = 0; family < families.size(); ++family) {
        // What runs of the stack have shown of its kernels narrows what timings leave open.
        const double deviation = families[family] * framework.deviation_factor;
        variances[static_cast<std::size_t>(part_of(static_cast<CostFamily>(family), timed))] +=
            deviation * deviation;
    }
    IntervalParts parts{};
    for (std::size_t part = 0; part < parts.size(); ++part)
        parts[part].early = parts[part].late = std::sqrt(variances[part]);
    parts[static_cast<std::size_t>(IntervalPart::device)].late *= kUntimedIsSlower;
    const auto beside = [&](double of_stack, double of_host) {
        return std::sqrt(framework.residual_sd * framework.residual_sd + of_stack * of_stack +
                         of_host * of_host);
    };
    const double host = prior.launch > 0 ? share_of_launches(prediction) : 0;
    parts[static_cast<std::size_t>(IntervalPart::stack)] = {
        beside(prior.step_early, host * kLaunchShorter),
        beside(prior.step_late, host * kLaunchLonger)};
    parts[static_cast<std::size_t>(IntervalPart::structure)] = {prior.structure_early,
                                                                prior.structure_late};
    return parts;
}

}  // namespace orrery::sim
