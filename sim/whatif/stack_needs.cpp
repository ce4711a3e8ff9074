#include "sim/whatif/stack_needs.hpp"

#include "plan/assemble/build_plan.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::sim {
namespace {

StackNeed need_of(const plan::StackInUse& stack, const std::optional<plan::Scenario>& scenario,
                  const Profile& profile) {
    StackNeed need{stack.name, stack.lacks};
    if (!scenario) {
        if (need.lacks.empty()) need.lacks = "something that the scenario asks for";
        return need;
    }
    const MemoryPrediction memory = predict_memory(plan::build_plan(*scenario), *scenario, profile);
    need.peak_bytes = memory.worst().peak_bytes;
    need.fit_probability = memory.fit_probability;
    need.verdict = memory.verdict;
    return need;
}

}  // namespace

std::vector<StackNeed> stack_needs(const plan::Scenario& scenario, const std::string& resolved_json,
                                   const Profile& profile, const std::string& library_dir) {
    const plan::Framework& own = scenario.training.framework;
    if (profile.hardware.cpu || (!own.assumed && memory_known(own, profile))) return {};
    std::vector<StackNeed> needs;
    for (const plan::StackInUse& stack : plan::stacks_in_use(scenario.layout, library_dir)) {
        if (stack.name == own.name) continue;
        std::optional<plan::Scenario> changed;
        if (stack.lacks.empty())
            changed = plan::in_stack(scenario, resolved_json, stack.name, library_dir);
        needs.push_back(need_of(stack, changed, profile));
    }
    return needs;
}

}  // namespace orrery::sim
