#include "plan/passes/passes.hpp"

namespace orrery::plan {

void serialise_tensor_communication(Block& block) {
    std::int32_t last_compute = -1;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        Op& op = block.ops[i];
        if (op.stream == Stream::compute) last_compute = static_cast<std::int32_t>(i);
        if (op.stream == Stream::tensor_comm && last_compute >= 0) op.after.push_back(last_compute);
    }
}

}  // namespace orrery::plan
