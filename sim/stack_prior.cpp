#include "sim/stack_prior.hpp"

#include <algorithm>

namespace orrery::sim {
namespace {

bool names(const plan::MeasuredOn& measured, const Profile& device) {
    return measured.device == device.device ||
           (device.hardware.cpu && measured.device == plan::kAnyCpu);
}

}  // namespace

bool timed_on(const plan::Framework& stack, const Profile& device) {
    return std::any_of(stack.measured_on.begin(), stack.measured_on.end(),
                       [&](const plan::MeasuredOn& measured) {
                           return names(measured, device) && measured.step_times > 0;
                       });
}

bool memory_known(const plan::Framework& stack, const Profile& device) {
    return std::any_of(stack.measured_on.begin(), stack.measured_on.end(),
                       [&](const plan::MeasuredOn& measured) {
                           const bool cpu = measured.device == plan::kAnyCpu;
                           return cpu == device.hardware.cpu && measured.peaks > 0;
                       });
}

StackPrior stack_prior(const plan::Framework& stack, const Profile& device, bool of_fitted_source) {
    const auto on_all = [&](bool (*known)(const plan::Framework&, const Profile&)) {
        return known(stack, device) &&
               std::all_of(device.others.begin(), device.others.end(),
                           [&](const Profile& other) { return known(stack, other); });
    };
    StackPrior prior;
    if (!on_all(timed_on)) {
        prior.step_early = kStepEarly;
        prior.step_late = kStepLate;
        prior.launch = kLaunchSpread;
    }
    if (!of_fitted_source) {
        prior.structure_early = kStructureEarly;
        prior.structure_late = kStructureLate;
    }
    if (!on_all(memory_known)) prior.memory_more = kMemoryMore;
    return prior;
}

}  // namespace orrery::sim
