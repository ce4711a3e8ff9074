// A rank's planned memory as an allocator would have handed it out: who takes which bytes of the
// arena, when, and for what. A pure view of a plan; formats/memory_snapshot writes it in PyTorch's
// form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::trace {

// One level of what a piece of memory is for, as a call stack has it: innermost first.
struct MemoryFrame {
    std::string name;  // "ln1 bf16 [128, 1, 64]", "qkv", "2F5: forward, stage 2, micro-batch 5"
    std::string file;  // of what it is part: "layer.forward, layer 7", "pipeline rank 0"
    std::int64_t line = 0;  // of an op its number in its block
};

struct MemoryEvent {
    bool takes = true;         // else it is given back
    std::int64_t address = 0;  // in the arena; beyond its end for what is only counted (below)
    std::int64_t bytes = 0;
    std::int32_t step = 0;  // of the program
    std::vector<MemoryFrame> frames;
};

// In the order of the program's steps, and of the ops of each. What outlives a block is taken
// tensor by tensor where the plan says which tensors it holds, with the space between them; what
// dies in one is taken for the ops that touch it. A block is planned its whole scratch: what of
// that no tensor fills at its fullest op is taken for the step as one piece, which has no place of
// its own in the arena. So the sum of what is taken is at its highest in each step
// plan::live_bytes_by_step of that step, and over all the predicted peak. What is kept into the
// next step is not given back.
std::vector<MemoryEvent> memory_events(const plan::Plan& plan, const plan::Program& program);

// Addresses of one device: from here on.
inline constexpr std::int64_t kArenaBase = std::int64_t{1} << 40;

}  // namespace orrery::trace
