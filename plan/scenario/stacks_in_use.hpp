// The stacks that the field trains with today: presets of the library whose file says so
// ("in_use"), and what of a layout each of them has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/scenario/files.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

struct StackInUse {
    std::string name;   // as training.framework takes it
    std::string lacks;  // of the layout: "zero_stage 1"; empty: it has all of it
};

// In the order of their names. A preset that cannot be read lacks everything, and says so.
std::vector<StackInUse> stacks_in_use(const Layout& layout, const std::string& library_dir,
                                      const Files& files = disk());

// The scenario in another stack, whose preset alone speaks: what was set for its own one by itself
// goes. Nothing where the strict reader refuses.
std::optional<Scenario> in_stack(const Scenario& scenario, const std::string& resolved_json,
                                 const std::string& stack, const std::string& library_dir,
                                 const Files& files = disk());

}  // namespace orrery::plan
