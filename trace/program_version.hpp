// Which version of Orrery this is. Its one home is project(VERSION) in CMakeLists.txt.
#pragma once

#include <string>
#include <string_view>

namespace orrery {

std::string_view program_version();  // "0.1.0"
std::string tool_name();             // "orrery 0.1.0": by what a file says that wrote it

}  // namespace orrery
