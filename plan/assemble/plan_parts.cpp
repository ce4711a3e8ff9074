#include "plan/assemble/plan_parts.hpp"

#include <utility>
#include <variant>

namespace orrery::plan {

bool PlanParts::like(const Scenario& scenario) const {
    if (!scenario_ || blocks_.empty()) return false;
    Layout layout = scenario.layout;
    layout.zero_stage = scenario_->layout.zero_stage;
    Model model = scenario.model;
    if (model.kinds.size() == 1 &&
        largest_group(layout) == largest_group(scenario_->layout)) {  // however many layers
        layout.layers_per_stage = scenario_->layout.layers_per_stage;
        model.layers = scenario_->model.layers;
    }
    return layout == scenario_->layout && model == scenario_->model &&
           scenario.training == scenario_->training && scenario.cluster == scenario_->cluster &&
           scenario.run == scenario_->run && scenario.reliability == scenario_->reliability &&
           scenario.storage == scenario_->storage;
}

PlanParts::Sharing PlanParts::sharing_of(const PlanInput& input, const ChosenPasses& passes) {
    Sharing sharing;
    for (const Pass* pass : passes.rows())
        if (std::holds_alternative<OverForward>(pass->over) ||
            std::holds_alternative<OverDerivation>(pass->over) ||
            std::holds_alternative<OverPart>(pass->over))
            sharing.passes.push_back(pass->id);
    sharing.hands_on = {input.of_experts.gradients, input.sharding.gradients};
    return sharing;
}

const PartKinds& PlanParts::move_into(BlockLibrary& blocks, const PlanInput& input,
                                      const ChosenPasses& passes, const StagePlacement& placement) {
    Sharing sharing = sharing_of(input, passes);
    if (like(input.scenario) && sharing == sharing_) {
        blocks = BlockLibrary(std::move(blocks_));
        blocks_.clear();
        const auto layers = static_cast<std::size_t>(input.scenario.model.layers);
        if (kinds_.layers.size() == 1) kinds_.kind_of_layer.assign(layers, 0);
        return kinds_;
    }
    kinds_ = build_parts(input, passes, placement, blocks);
    scenario_ = input.scenario;
    sharing_ = std::move(sharing);
    count_ = blocks.blocks().size();
    blocks_.clear();
    return kinds_;
}

void PlanParts::put_back(Plan plan) {
    blocks_ = std::move(plan.blocks);
    blocks_.resize(count_);
}

}  // namespace orrery::plan
