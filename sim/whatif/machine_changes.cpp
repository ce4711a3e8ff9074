#include "sim/whatif/machine_changes.hpp"

#include <algorithm>
#include <string>

namespace orrery::sim {
namespace {

// f(op, its duration) for every priced op of every table.
template <typename Function>
void change_durations(const plan::Plan& plan, Machine& machine, const Function& f) {
    for (const auto& table : machine.tables) {
        std::size_t number = 0;
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                f(op, table->durations[number++]);
    }
}

std::vector<bool> computing_ops(const plan::Plan& plan) {
    std::vector<bool> computing;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            computing.push_back(op.stream == plan::Stream::compute);
    return computing;
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
    const std::vector<bool> computing = computing_ops(plan);
    std::vector<double> work;
    double total = 0;
    double ranks = 0;
    for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
        const EngineTrack& track = machine.input.tracks[t];
        Picoseconds sum = 0;
        for (const std::uint32_t op :
             machine.input.linked[static_cast<std::size_t>(track.program)].op)
            if (computing[op]) sum += (*track.durations)[op];
        const auto represents = static_cast<double>(machine.classes.members[t].represents);
        work.push_back(static_cast<double>(sum));
        total += represents * work.back();
        ranks += represents;
    }
    // Tracks that shared a table part here: each has its own factor.
    for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
        if (work[t] <= 0) continue;
        auto table = std::make_unique<PriceTable>(*machine.table_of[t]);
        const double factor = total / ranks / work[t];
        for (std::size_t op = 0; op < computing.size(); ++op)
            if (computing[op])
                table->durations[op] = static_cast<Picoseconds>(
                    static_cast<double>(table->durations[op]) * factor + 0.5);
        machine.table_of[t] = table.get();
        machine.input.tracks[t].durations = &table->durations;
        machine.tables.push_back(std::move(table));
    }
}

void halve_compute(const plan::Plan& plan, const Profile& /*profile*/, Machine& machine) {
    change_durations(plan, machine, [](const plan::Op& op, Picoseconds& duration) {
        if (op.stream == plan::Stream::compute) duration -= duration / 2;
    });
}

void multiply_at_peak(const plan::Plan& plan, const Profile& profile, Machine& machine) {
    change_durations(plan, machine, [&](const plan::Op& op, Picoseconds& duration) {
        if (op.kind != plan::OpKind::gemm) return;
        const Quantity* peak = profile.hardware.peak(op.dtype);
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
        if (op.phase == plan::Phase::optimizer && !plan::is_communication(op.kind)) duration = 0;
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
