// What `orrery doctor` prints of a machine: for people, and as JSON (docs/doctor.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/console.hpp"
#include "runtime/backends/registry.hpp"

namespace orrery::cli {

// `asked`: the verdict is about this backend alone; null: about all.
void print_doctor(const runtime::Machine& machine, const runtime::BackendRow* asked,
                  Console& console);

nlohmann::ordered_json doctor_json(const runtime::Machine& machine);

}  // namespace orrery::cli
