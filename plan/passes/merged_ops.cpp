#include "plan/passes/passes.hpp"

namespace orrery::plan {

void merge_ops(Block& block, std::size_t kept, std::size_t gone) {
    block.ops.erase(block.ops.begin() + static_cast<std::ptrdiff_t>(gone));
    const auto moved = [gone](std::size_t at) { return at > gone ? at - 1 : at; };
    for (Op& op : block.ops)
        for (std::int32_t& earlier : op.after) {
            const auto at = static_cast<std::size_t>(earlier);
            earlier = static_cast<std::int32_t>(moved(at == gone ? kept : at));
        }
}

}  // namespace orrery::plan
