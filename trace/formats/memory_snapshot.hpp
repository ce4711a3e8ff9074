// Planned memory as a snapshot of PyTorch's caching allocator, which pytorch.org/memory_viz opens
// (torch.cuda.memory._snapshot; docs/formats.md). A device for each pipeline rank.
#pragma once

#include <string>
#include <string_view>

#include "plan/ir/plan.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

// `trace` says when each step begins: that of this plan. Without tracks of a program its events
// have the numbers of their steps as microseconds.
std::string memory_snapshot(const plan::Plan& plan, const Trace& trace);

// By its first bytes, whether a text is a snapshot of ours.
bool is_memory_snapshot(std::string_view text);

}  // namespace orrery::trace
