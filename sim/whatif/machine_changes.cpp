#include "sim/whatif/machine_changes.hpp"

#include <algorithm>
#include <string>

#include "sim/chunks.hpp"

namespace orrery::sim {
namespace {

// f(op, its duration, the kind of its node) for every priced op of every table.
template <typename Function>
void change_each(const plan::Plan& plan, Machine& machine, const Function& f) {
    for (const auto& table : machine.tables) {
        std::size_t number = 0;
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                f(op, table->durations[number++], table->node_kind);
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
        if (!op.is<plan::Gemm>() && !op.is<plan::GroupedGemm>()) return;
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
