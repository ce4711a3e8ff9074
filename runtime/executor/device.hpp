// What performs a bound program: the seam between the executor and a backend. A device owns the
// arena and the plan's streams; it starts the ops of each stream in order, each once what it waits
// for on other streams has ended, and reports when each began and ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executor/bound_program.hpp"

namespace orrery::runtime {

// How far a step looks: at the tokens, their targets, and those of multi-token prediction.
inline constexpr std::size_t kTokensAhead = 3;

// What changes from step to step. Spans belong to the caller and live until run() returns.
struct StepInputs {
    std::int64_t step = 1;     // number of the step in the run
    std::int64_t updates = 1;  // optimizer updates so far, this one included
    double learning_rate = 0;
    double gradient_scale = 1;      // 1 / valid tokens of the global batch
    std::int64_t first_sample = 0;  // of the global batch, in the run …
    std::int64_t samples = 0;       // … and how many it has
    // Of this rank, by micro-batch: its tokens, and what comes one (the targets) and two tokens
    // later; −1 beyond the sample. Empty on ranks that need none.
    std::array<std::span<const std::int32_t>, kTokensAhead> tokens;
};

// How often a rank's tokens have chosen each expert of a layer, and how often in vain: it had no
// capacity left.
struct LayerCounts {
    std::vector<std::int64_t> chosen;
    std::int64_t dropped = 0;
};
using ExpertCounts = std::map<std::int32_t, LayerCounts>;

// Nanoseconds of a clock that all ranks of a run share; where they are on several machines, as far
// as messages between them tell.
struct OpTime {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

class Device {
  public:
    virtual ~Device() = default;
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    // Performs one step and returns when all of it has ended; where steps run on into one another
    // (BoundProgram::other_turns), when its compute ops have, once the steps that it must not
    // overtake have ended. Throws what an op throws, after it has ended the run for the other
    // ranks; the device is of no use then.
    virtual void run(const StepInputs& inputs) = 0;

    // Where steps run on: returns once at most `steps` of those that were begun have not ended.
    virtual void await_all_but(std::int64_t /*steps*/) {}

    // Where steps run on: to be called when all of a step has ended on this rank, on the thread
    // that communicates, which goes on with the next step when the call returns: it may use the
    // communicator. Set before the first step.
    virtual void when_ended(std::function<void(const StepInputs&)> /*tell*/) {}

    // Between steps: the last step is validated now, not by the next one, where it has not been
    // (Validation). All ranks call it; parameters are not final before.
    virtual void validate() {}

    // Of the last step, by op id.
    virtual std::span<const OpTime> times() const = 0;

    // Of the last step: how long its compute ops ran, without what they waited for. Nothing where
    // ops are not timed.
    virtual std::optional<double> computed_s() const { return std::nullopt; }

    // Of the last step; empty where no layer has experts, where the device does not count, and
    // where steps run on. Once per step.
    virtual ExpertCounts take_expert_counts() { return {}; }

    // Of a device with memory of its own: what is in use there by anyone, the arena with it.
    virtual std::optional<std::int64_t> bytes_in_use() const { return std::nullopt; }

    // Between steps: bytes of the arena, to and from the host. From any threads, each its own
    // bytes.
    virtual void read(std::int64_t offset, std::span<std::byte> into) const = 0;
    virtual void write(std::int64_t offset, std::span<const std::byte> from) = 0;
};

}  // namespace orrery::runtime
