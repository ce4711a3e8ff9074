#include "plan/assemble/batch_plan.hpp"

#include "plan/assemble/build_plan.hpp"

namespace orrery::plan {

Plan build_batch_plan(Scenario scenario, std::int64_t global_batch) {
    scenario.layout.global_batch_size = global_batch;
    return build_plan(scenario);
}

}  // namespace orrery::plan
