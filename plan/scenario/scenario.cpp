#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

std::int64_t padded_vocabulary(const Scenario& scenario) {
    const std::int64_t multiple =
        scenario.training.framework.vocabulary_multiple * scenario.layout.tensor_parallel;
    return (scenario.model.vocabulary + multiple - 1) / multiple * multiple;
}

}  // namespace orrery::plan
