#include "sim/search/few_micro_batches.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kOfEachRank = 8;

}  // namespace

std::optional<plan::Scenario> with_few_micro_batches(const plan::Scenario& scenario) {
    const plan::Layout& layout = scenario.layout;
    const std::int64_t few = kOfEachRank * layout.pipeline_parallel;
    if (layout.micro_batches() < 2 * few) return std::nullopt;
    plan::Scenario shorter = scenario;
    shorter.layout.global_batch_size = few * layout.data_parallel * layout.micro_batch_size;
    return shorter;
}

std::int64_t least_bytes(const MemoryPrediction& memory, const plan::Framework& framework) {
    const StageMemory& worst = memory.worst();
    return worst.peak_bytes - (framework.fragmentation > 0 ? 0 : worst.lost_bytes);
}

}  // namespace orrery::sim
