// A plan on the engine with durations of the test's choosing: one track per pipeline rank, whose
// tensor and data siblings do the same; groups across pipeline ranks meet.
#pragma once

#include <vector>

#include "plan/ir/link.hpp"
#include "sim/engine/engine.hpp"

namespace orrery::sim {

struct PlanWorld {
    std::vector<std::vector<Picoseconds>> durations;  // by track, by op number
    EngineInput input;

    // `plan` must outlive the world; durations all zero at first.
    explicit PlanWorld(const plan::Plan& plan, Picoseconds transfer = 0) {
        const std::size_t ops = plan.first_ops().back();
        const std::size_t ranks = plan.programs.size();
        durations.assign(ranks, std::vector<Picoseconds>(ops, 0));
        input.plan = &plan;
        input.launch_queue = 1'000'000;
        std::vector<TrackId> all;
        for (std::size_t t = 0; t < ranks; ++t)
            all.push_back(static_cast<TrackId>(t));
        if (ranks > 1) input.groups = {{0, all.back()}, all, all};
        for (std::size_t t = 0; t < ranks; ++t) {
            input.linked.push_back(plan::link(plan, plan.programs[t]));
            EngineTrack track;
            track.program = static_cast<std::int32_t>(t);
            track.durations = &durations[t];
            track.groups.fill(-1);
            auto group = [&](plan::GroupKind kind) -> std::int32_t& {
                return track.groups[static_cast<std::size_t>(kind)];
            };
            if (ranks > 1) {
                if (t == 0 || t + 1 == ranks) group(plan::GroupKind::embedding) = 0;
                group(plan::GroupKind::model) = 1;
                group(plan::GroupKind::world) = 2;
            }
            track.pipeline_peers = all;
            track.transfer_to_peer.assign(ranks, transfer);
            track.statistic_to_peer.assign(plan.statistics.size(), track.transfer_to_peer);
            input.tracks.push_back(std::move(track));
        }
    }
    PlanWorld(const PlanWorld&) = delete;
    PlanWorld& operator=(const PlanWorld&) = delete;
};

}  // namespace orrery::sim
