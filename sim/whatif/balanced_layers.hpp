// Which layers_per_stage makes the chunks of a pipeline take as equally long as whole layers can.
#pragma once

#include <optional>

#include "sim/whatif/fixes.hpp"

namespace orrery::sim {

struct BalancedLayers {
    Setting setting;  // layout.layers_per_stage
    double step_time_s = 0;
    double gain_s = 0;
};

// Layers go one by one to the chunk that is then the shortest: embeddings, head and loss count as
// their chunk's own, a layer as the median chunk on nodes of the same kind has it. Nothing where
// that is how they lie, where the reader refuses it, or where the simulated step is not shorter.
// `prediction` is that of `scenario`, not stuck, and priced by the profile: nothing measured says
// what a stage of other layers takes.
std::optional<BalancedLayers> balanced_layers(const plan::Scenario& scenario,
                                              const Profile& profile, const Prediction& prediction,
                                              const ReadWith& read_with);

}  // namespace orrery::sim
