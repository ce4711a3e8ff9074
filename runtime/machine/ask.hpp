// Calls of libraries whose headers are not there: functions by name, which return 0 when they have
// answered. Prototypes are written down where they are asked.
#pragma once

#include <optional>

#include "runtime/machine/library_loader.hpp"

namespace orrery::runtime {

// What `name` of `library`, int(arguments…, Value*), answers; nothing where it is not there or
// fails.
template <typename Value, typename... Arguments>
std::optional<Value> ask(const LoadedLibrary& library, const char* name, Arguments... arguments) {
    Value value{};
    auto* function = library.function<int(Arguments..., Value*)>(name);
    if (function == nullptr || function(arguments..., &value) != 0) return std::nullopt;
    return value;
}

}  // namespace orrery::runtime
