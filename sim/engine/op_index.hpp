// What the engine looks up of its input, laid out for lookup: the ops of each stream in order, with
// what is known of them side by side. It never changes during a run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"

namespace orrery::sim {

inline constexpr std::size_t kCompute = static_cast<std::size_t>(plan::Stream::compute);

// An op of a program, at its place in its stream.
struct StreamOp {
    std::uint32_t op = 0;          // id in the program
    std::uint32_t number = 0;      // across blocks
    std::uint32_t first_wait = 0;  // into LinkedProgram::waits
    std::uint16_t waits = 0;
    plan::GroupKind group = plan::GroupKind::none;
    bool communication = false;
    bool exchange = false;
    bool kernel = false;  // neither communication nor a copy
    bool beside = false;  // slows the compute ops that run meanwhile
};

struct IndexedProgram {
    const plan::LinkedProgram* linked = nullptr;
    const plan::Program* program = nullptr;
    std::vector<std::uint8_t> stream_of;  // by op id
    std::array<std::vector<StreamOp>, plan::kStreams> stream_ops;
    std::vector<std::uint32_t> after_reading;   // ids of ops before which the host reads counts …
    std::vector<std::uint32_t> after_exchange;  // … or waits for all that it has issued
};

class OpIndex {
  public:
    // `input` must outlive the index.
    explicit OpIndex(const EngineInput& input);

    const IndexedProgram& program(std::int32_t program) const {
        return programs_[static_cast<std::size_t>(program)];
    }
    std::size_t size() const { return ops_.size(); }  // ops by number
    plan::OpKind kind(std::uint32_t number) const { return ops_[number]->kind(); }
    plan::Stream stream(std::uint32_t number) const { return ops_[number]->stream; }
    bool is_kernel(std::uint32_t number) const {
        return !plan::is_communication(kind(number)) && !plan::is_copy(kind(number));
    }
    plan::GroupKind group(std::uint32_t number) const { return ops_[number]->group; }
    std::int64_t elements(std::uint32_t number) const { return ops_[number]->size(0); }
    Picoseconds launch(std::uint32_t number) const { return launches_[number]; }  // of the host

  private:
    std::vector<const plan::Op*> ops_;  // by number
    std::vector<Picoseconds> launches_;
    std::vector<IndexedProgram> programs_;
};

}  // namespace orrery::sim
