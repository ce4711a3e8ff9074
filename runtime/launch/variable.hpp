// A variable of a process's environment.
#pragma once

#include <string>

namespace orrery::runtime {

struct Variable {
    std::string name;
    std::string value;
    bool operator==(const Variable&) const = default;
};

}  // namespace orrery::runtime
