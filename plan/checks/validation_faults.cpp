#include "plan/checks/validation_faults.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery::plan {

void check_validation(const Plan& plan, std::vector<std::string>& faults) {
    if (plan.statistics.empty()) return;
    // Receiving stage, micro-batch, whether onward: sent less received before validation.
    std::map<std::tuple<std::int32_t, std::int32_t, bool>, int> under_way;
    for (const Program& program : plan.programs) {
        const std::string rank = "pipeline rank " + std::to_string(program.pipeline_rank) + ": ";
        const auto validates = [](const Step& step) {
            return step.action.kind == ActionKind::validate;
        };
        if (program.amendment < 0) faults.push_back(rank + "validates, and cannot amend");
        if (std::count_if(program.steps.begin(), program.steps.end(), validates) != 1) {
            faults.push_back(rank + "does not validate once");
            continue;
        }
        for (const Step& step : program.steps) {
            if (validates(step)) break;
            if (is_compute(step.action.kind) && step.action.kind != ActionKind::forward)
                faults.push_back(rank + to_text(step.action) +
                                 " makes gradients before the last ones are validated");
            for (const Transfer& transfer : step.transfers) {
                const auto& [stage, kind, micro_batch] = transfer.action;
                if (carries_statistic(kind)) continue;
                const std::int32_t receiver = stage + (is_send(kind) ? hop_to_peer(kind) : 0);
                under_way[{receiver, micro_batch, goes_onward(kind)}] += is_send(kind) ? 1 : -1;
            }
        }
    }
    for (const auto& [message, count] : under_way)
        if (count != 0)
            faults.push_back("a message to stage " + std::to_string(std::get<0>(message)) +
                             " is under way when steps are validated");
}

}  // namespace orrery::plan
