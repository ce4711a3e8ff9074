// run.elastic_layouts: layouts that a run goes on in when it has lost ranks. Each is checked as if
// the scenario had it, so that none turns out to be wrong on the day that it is needed. Internal to
// plan/scenario.
#pragma once

#include <functional>

#include "plan/scenario/parts.hpp"

namespace orrery::plan {

// `check` reads and checks a whole scenario from a document. `scenario` is sound but for them.
void read_elastic_layouts(Reading& reading, const std::function<void(Reading&, Scenario&)>& check,
                          Scenario& scenario);

}  // namespace orrery::plan
