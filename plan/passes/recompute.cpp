#include "plan/passes/passes.hpp"

namespace orrery::plan {

void recompute_attention_core(ForwardBlock& forward) {
    std::size_t last = forward.block.ops.size();
    for (std::size_t i = 0; i < forward.block.ops.size(); ++i)
        if (forward.attention_core[i]) last = i;
    for (std::size_t i = 0; i < last && last < forward.block.ops.size(); ++i) {
        if (!forward.attention_core[i]) continue;
        for (TensorId id : forward.block.ops[i].writes)
            forward.rematerialise[static_cast<std::size_t>(id)] = true;
    }
}

}  // namespace orrery::plan
