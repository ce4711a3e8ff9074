#include "trace/program_version.hpp"

namespace orrery {

std::string_view program_version() {
    return ORRERY_VERSION;
}

std::string tool_name() {
    return "orrery " + std::string(program_version());
}

}  // namespace orrery
