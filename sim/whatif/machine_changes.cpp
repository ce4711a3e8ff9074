#include "sim/whatif/machine_changes.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/chunks.hpp"

namespace orrery::sim {
namespace {

// f(op, its duration, the kind of its node) for every priced op of every table, and for every one
// that has a measured time.
template <typename Function>
void change_each(const plan::Plan& plan, Machine& machine, const Function& f) {
    std::vector<const plan::Op*> ops;  // by number
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            ops.push_back(&op);
    for (const auto& table : machine.tables)
        for (std::size_t number = 0; number < ops.size(); ++number)
            f(*ops[number], table->durations[number], table->node_kind);
    for (std::size_t t = 0; t < machine.times.size(); ++t) {
        const auto program = static_cast<std::size_t>(machine.input.tracks[t].program);
        const plan::LinkedProgram& linked = machine.input.linked[program];
        for (std::size_t id = 0; id < machine.times[t].size(); ++id)
            f(*ops[linked.op[id]], machine.times[t][id].duration, machine.table_of[t]->node_kind);
    }
}

template <typename Function>
void change_durations(const plan::Plan& plan, Machine& machine, const Function& f) {
    change_each(plan, machine,
                [&](const plan::Op& op, Picoseconds& duration, std::size_t) { f(op, duration); });
}

// The account of waiting for an op, as a trace would have it.
trace::Account account_of(const plan::Op& op) {
    trace::OpName name;
    name.stream = op.stream;
    name.group = op.group;
    return trace::exposed_account(name);
}

}  // namespace

void never_wait_for_peers(const plan::Plan& /*plan*/, const Profile& /*profile*/,
                          Machine& machine) {
    machine.input.peers_never_wait = true;
}

void balance_stages(const plan::Plan& plan, const Profile& /*profile*/, Machine& machine) {
    multiply_times(machine, Chunks(plan, machine).equalising());
}

void halve_compute(const plan::Plan& plan, const Profile& /*profile*/, Machine& machine) {
    change_durations(plan, machine, [](const plan::Op& op, Picoseconds& duration) {
        if (op.stream == plan::Stream::compute) duration -= duration / 2;
    });
}

void multiply_at_peak(const plan::Plan& plan, const Profile& profile, Machine& machine) {
    change_each(plan, machine, [&](const plan::Op& op, Picoseconds& duration, std::size_t kind) {
        if (!op.is<plan::Gemm>() && !op.is<plan::ActivatedGemm>() && !op.is<plan::ResidualGemm>() &&
            !op.is<plan::BiasGradientGemm>() && !op.is<plan::GroupedGemm>())
            return;
        const Quantity* peak = profile.of_kind(kind).hardware.peak(op.dtype);
        if (peak == nullptr) return;
        duration = std::min(duration, from_seconds(plan::flops(op) / (peak->value * 1e12)));
    });
}

void free_recomputation(const plan::Plan& plan, const Profile& /*profile*/, Machine& machine) {
    change_durations(plan, machine, [](const plan::Op& op, Picoseconds& duration) {
        if (op.phase == plan::Phase::recompute) duration = 0;
    });
}

void issue_at_once(const plan::Plan& /*plan*/, const Profile& /*profile*/, Machine& machine) {
    for (auto& times : machine.times)
        for (OpTime& time : times)
            time.late = 0;
}

void free_optimizer(const plan::Plan& plan, const Profile& /*profile*/, Machine& machine) {
    change_durations(plan, machine, [](const plan::Op& op, Picoseconds& duration) {
        if (op.phase == plan::Phase::optimizer && !plan::is_communication(op.kind())) duration = 0;
    });
}

void free_communication(const plan::Plan& plan, Machine& machine, trace::Account account) {
    change_durations(plan, machine, [&](const plan::Op& op, Picoseconds& duration) {
        if (op.stream != plan::Stream::compute && account_of(op) == account) duration = 0;
    });
    if (account != trace::Account::exposed_pipeline) return;
    for (EngineTrack& track : machine.input.tracks) {
        std::fill(track.transfer_to_peer.begin(), track.transfer_to_peer.end(), 0);
        for (auto& to_peer : track.statistic_to_peer)
            std::fill(to_peer.begin(), to_peer.end(), 0);
    }
}

}  // namespace orrery::sim
