#include <vector>

#include "plan/passes/passes.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

bool defers_head_weights(const Scenario& scenario, const PartForms& forms) {
    return scenario.training.framework.defer_embedding_gradient && !forms.split &&
           scenario.layout.pipeline_parallel > 1 && !scenario.training.lora.on();
}

void defer_head_weights(std::vector<LoweredStep>& row, std::int32_t head_stage) {
    std::vector<LoweredStep> deferred;
    for (LoweredStep& step : row) {
        Action& action = step.action;
        if (action.kind != ActionKind::backward || action.stage != head_stage) continue;
        action.kind = ActionKind::backward_input;
        deferred.push_back({{head_stage, ActionKind::backward_weight, action.micro_batch}, {}});
    }
    row.insert(row.end(), deferred.begin(), deferred.end());
}

}  // namespace orrery::plan
