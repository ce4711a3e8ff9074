// A hand-made world for the engine: ops with durations, programs as lists of ops with their waits,
// one track per program. No scenario, no model, no prices: every expected time is arithmetic on the
// numbers in the test.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"

namespace orrery::sim {

class EngineWorld {
  public:
    explicit EngineWorld(std::size_t programs) {
        plan_.blocks.resize(1);
        plan_.blocks[0].name = "world";
        plan_.programs.resize(programs);
        input_.linked.resize(programs);
        for (auto& linked : input_.linked)
            linked.first_wait.push_back(0);
        input_.launch_queue = 1000;
    }

    // A distinct op: its number.
    std::uint32_t op(plan::OpKind kind, plan::Stream stream, Picoseconds duration,
                     plan::GroupKind group = plan::GroupKind::none) {
        plan::Op made;
        made.spec = plan::spec_of(kind, {1});
        made.stream = stream;
        made.group = group;
        plan_.blocks[0].ops.push_back(made);
        durations_.push_back(duration);
        return static_cast<std::uint32_t>(durations_.size() - 1);
    }
    std::uint32_t compute(Picoseconds duration) {
        return op(plan::OpKind::gemm, plan::Stream::compute, duration);
    }
    plan::Op& op(std::uint32_t number) { return plan_.blocks[0].ops[number]; }
    std::uint32_t collective(plan::GroupKind group, Picoseconds duration,
                             plan::Stream stream = plan::Stream::data_comm) {
        return op(plan::OpKind::all_reduce, stream, duration, group);
    }
    std::uint32_t exchange() {
        return op(plan::OpKind::exchange, plan::Stream::pipeline_comm, 0,
                  plan::GroupKind::pipeline);
    }

    // Appends an op to a program: its id there.
    std::uint32_t add(std::size_t program, std::uint32_t number, std::vector<plan::Wait> waits = {},
                      std::vector<plan::Transfer> transfers = {}) {
        plan::LinkedProgram& linked = input_.linked[program];
        const auto id = static_cast<std::uint32_t>(linked.size());
        linked.op.push_back(number);
        linked.use.push_back(0);
        linked.step.push_back(id);
        linked.waits.insert(linked.waits.end(), waits.begin(), waits.end());
        linked.first_wait.push_back(static_cast<std::uint32_t>(linked.waits.size()));
        plan::Step step;
        step.transfers = std::move(transfers);
        plan_.programs[program].steps.push_back(std::move(step));
        ++linked.ops_per_stream[index_of(plan_.blocks[0].ops[number].stream)];
        return id;
    }

    static plan::Transfer send(std::int32_t to, std::int32_t stage, std::int32_t micro_batch) {
        return {{stage, plan::ActionKind::send_f, micro_batch}, to, 1, -1};
    }
    static plan::Transfer receive(std::int32_t from, std::int32_t stage, std::int32_t micro_batch) {
        return {{stage, plan::ActionKind::recv_f, micro_batch}, from, 1, -1};
    }

    EngineInput& input() { return input_; }
    // Every track is in the group of this kind.
    void meet(plan::GroupKind group) {
        meeting_.push_back(group);
        std::vector<TrackId> members;
        for (std::size_t t = 0; t < plan_.programs.size(); ++t)
            members.push_back(static_cast<TrackId>(t));
        input_.groups.push_back(std::move(members));
    }

    // `uses` of the network by op number, and `of_transfer` of each transfer.
    EngineResult run(Picoseconds transfer = 0, const std::vector<NetworkUse>* uses = nullptr,
                     NetworkUse of_transfer = {}) {
        make_tracks(transfer, uses, of_transfer);
        return run_engine(input_);
    }
    // What an engine is given: tracks with these uses, by op number.
    const EngineInput& with_uses(const std::vector<NetworkUse>& uses) {
        make_tracks(0, &uses, {});
        return input_;
    }
    EngineRun run(EngineListener& listener) {
        make_tracks(0, nullptr, {});
        return run_engine(input_, listener);
    }

  private:
    void make_tracks(Picoseconds transfer, const std::vector<NetworkUse>* uses,
                     NetworkUse of_transfer) {
        input_.plan = &plan_;
        input_.tracks.clear();
        for (std::size_t t = 0; t < plan_.programs.size(); ++t) {
            EngineTrack track;
            track.program = static_cast<std::int32_t>(t);
            track.durations = &durations_;
            track.groups.fill(-1);
            for (std::size_t g = 0; g < meeting_.size(); ++g)
                track.groups[static_cast<std::size_t>(meeting_[g])] = static_cast<std::int32_t>(g);
            for (std::size_t peer = 0; peer < plan_.programs.size(); ++peer)
                track.pipeline_peers.push_back(static_cast<TrackId>(peer));
            track.transfer_to_peer.assign(plan_.programs.size(), transfer);
            track.network_uses = uses;
            track.use_to_peer.assign(plan_.programs.size(), of_transfer);
            input_.tracks.push_back(std::move(track));
        }
    }

    plan::Plan plan_;
    std::vector<Picoseconds> durations_;
    std::vector<plan::GroupKind> meeting_;
    EngineInput input_;
};

}  // namespace orrery::sim
