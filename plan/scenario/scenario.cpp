#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

std::int64_t layers_per_group(const Layout& layout, std::int64_t layers) {
    if (layout.recompute != Recompute::every_k) return 1;
    if (layout.recompute_every > 0) return layout.recompute_every;
    std::int64_t root = 1;
    while (root * (root + 1) < layers)  // (root + ½)² < layers
        ++root;
    return root;
}

std::string_view name(Precision precision) {
    switch (precision) {
        case Precision::fp32:
            return "fp32";
        case Precision::bf16:
            return "bf16";
        case Precision::fp16:
            return "fp16";
    }
    return "";
}

std::int64_t padded_vocabulary(const Scenario& scenario) {
    const std::int64_t multiple =
        scenario.training.framework.vocabulary_multiple * scenario.layout.tensor_parallel;
    return (scenario.model.vocabulary + multiple - 1) / multiple * multiple;
}

}  // namespace orrery::plan
