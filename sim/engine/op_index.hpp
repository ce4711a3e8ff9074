// What the engine looks up of its input, laid out for lookup: facts of ops by number, the ops of
// each stream in order. It never changes during a run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"

namespace orrery::sim {

struct OpFacts {
    plan::OpKind kind;
    plan::GroupKind group;
    std::uint8_t stream;
    bool communication;
    std::int64_t elements;
};

class OpIndex {
  public:
    // `input` must outlive the index.
    explicit OpIndex(const EngineInput& input);

    const EngineTrack& spec(TrackId track) const {
        return input_.tracks[static_cast<std::size_t>(track)];
    }
    const plan::LinkedProgram& linked(TrackId track) const {
        return input_.linked[static_cast<std::size_t>(spec(track).program)];
    }
    const OpFacts& facts(std::uint32_t number) const { return facts_[number]; }
    const OpFacts& facts(TrackId track, std::uint32_t op) const {
        return facts_[linked(track).op[op]];
    }
    // Op ids of a stream in issue order.
    const std::vector<std::uint32_t>& stream_ops(TrackId track, std::size_t stream) const {
        return stream_ops_[static_cast<std::size_t>(spec(track).program)][stream];
    }

  private:
    const EngineInput& input_;
    std::vector<OpFacts> facts_;  // by op number
    std::vector<std::array<std::vector<std::uint32_t>, plan::kStreams>> stream_ops_;  // by program
};

}  // namespace orrery::sim
