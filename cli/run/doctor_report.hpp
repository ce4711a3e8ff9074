// What `orrery doctor` prints of a machine: for people, and as JSON (docs/doctor.md).
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/console.hpp"
#include "runtime/machine/requirements.hpp"

namespace orrery::cli {

// With `asked`, the verdict is about that backend alone.
void print_doctor(const runtime::Machine& machine, std::optional<runtime::BackendKind> asked,
                  Console& console);

nlohmann::ordered_json doctor_json(const runtime::Machine& machine);

}  // namespace orrery::cli
