#include "trace/step_sums.hpp"

#include <algorithm>

namespace orrery::trace {
namespace {

// An exchange sends none, one or several.
std::int64_t sends_in(const StepActions& actions) {
    return std::count_if(actions.begin(), actions.end(),
                         [](const plan::Action& action) { return plan::is_send(action.kind); });
}

double ranks_of(const Trace& trace) {
    double ranks = 0;
    for (const Track& track : trace.tracks)
        ranks += static_cast<double>(track.represents());
    return ranks;
}

void add(const Trace& trace, const StepSums& sums, std::size_t op, CommunicationSums& into) {
    into.bytes_per_rank += static_cast<double>(sums.messages[op]) * trace.ops[op].sent_bytes;
    into.busy_s += static_cast<double>(sums.busy[op]) / kPsPerSecond;
}

}  // namespace

std::vector<std::vector<std::int64_t>> messages_sent(const Trace& trace) {
    std::vector<std::vector<std::int64_t>> messages;
    for (const ProgramOps& program : trace.programs) {
        auto& of_steps = messages.emplace_back();
        for (const StepActions& actions : program.actions)
            of_steps.push_back(sends_in(actions));
    }
    return messages;
}

StepSums sums_of(const Trace& trace) {
    StepSums sums;
    sums.busy.resize(trace.ops.size());
    sums.messages.resize(trace.ops.size());
    const auto exchanged = messages_sent(trace);
    for (const Track& track : trace.tracks) {
        const auto p = static_cast<std::size_t>(track.program);
        const ProgramOps& program = trace.programs[p];
        const std::int64_t represents = track.represents();
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const Event event = track.events[i];
            if (event.start < trace.step_start || event.start >= trace.step_end) continue;
            const std::uint32_t op = program.op[i];
            const bool exchange = trace.ops[op].kind == plan::OpKind::exchange;
            sums.busy[op] += Wide{event.end - event.start} * represents;
            sums.messages[op] += (exchange ? exchanged[p][program.step[i]] : 1) * represents;
        }
        sums.accounts.push_back(accounts_of(trace, track));
        sums.copy_waits.push_back(waits_for_copies(trace, track));
    }
    return sums;
}

std::array<double, kAccounts> mean_accounts(const Trace& trace, const StepSums& sums) {
    std::array<Wide, kAccounts> over_ranks{};
    for (std::size_t t = 0; t < trace.tracks.size(); ++t)
        for (std::size_t a = 0; a < kAccounts; ++a)
            over_ranks[a] += Wide{sums.accounts[t][a]} * trace.tracks[t].represents();
    std::array<double, kAccounts> mean{};
    const double ranks = ranks_of(trace);
    for (std::size_t a = 0; a < kAccounts; ++a)
        mean[a] = static_cast<double>(over_ranks[a]) / ranks / kPsPerSecond;
    return mean;
}

std::array<CommunicationSums, kAccounts> communication_sums(const Trace& trace,
                                                            const StepSums& sums) {
    std::array<CommunicationSums, kAccounts> of_accounts{};
    for (std::size_t op = 0; op < trace.ops.size(); ++op)
        if (plan::is_communication(trace.ops[op].kind))
            add(trace, sums, op,
                of_accounts[static_cast<std::size_t>(exposed_account(trace.ops[op].group))]);
    const double ranks = ranks_of(trace);
    const auto mean = mean_accounts(trace, sums);
    for (std::size_t a = 0; a < kAccounts; ++a) {
        of_accounts[a].bytes_per_rank /= ranks;
        of_accounts[a].busy_s /= ranks;
        of_accounts[a].exposed_s = mean[a];
    }
    return of_accounts;
}

CopySums copy_sums(const Trace& trace, const StepSums& sums) {
    CopySums of_kinds{};
    for (std::size_t op = 0; op < trace.ops.size(); ++op)
        if (plan::is_copy(trace.ops[op].kind))
            add(trace, sums, op, of_kinds[copy_index(trace.ops[op].kind)]);
    std::array<Wide, kCopyKinds> waits{};
    for (std::size_t t = 0; t < trace.tracks.size(); ++t)
        for (std::size_t kind = 0; kind < kCopyKinds; ++kind)
            waits[kind] += Wide{sums.copy_waits[t][kind]} * trace.tracks[t].represents();
    const double ranks = ranks_of(trace);
    for (std::size_t kind = 0; kind < kCopyKinds; ++kind) {
        of_kinds[kind].bytes_per_rank /= ranks;
        of_kinds[kind].busy_s /= ranks;
        of_kinds[kind].exposed_s = static_cast<double>(waits[kind]) / kPsPerSecond / ranks;
    }
    return of_kinds;
}

}  // namespace orrery::trace
