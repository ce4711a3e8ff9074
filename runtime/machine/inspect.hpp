// Asks the system what this machine has. Nothing is changed, nothing of CUDA is started but the
// driver's own initialization; a part that is missing or silent is left out of the answer.
#pragma once

#include <string>

#include "runtime/machine/library_loader.hpp"
#include "runtime/machine/machine.hpp"

namespace orrery::runtime {

// `root` stands before /proc, /sys and /dev; tests bring a folder of their own.
Machine inspect_machine(LibraryLoader& loader, const std::string& root = "");

// Parts of it.
void inspect_host(const std::string& root, Machine& machine);
std::vector<NetworkPort> inspect_network(const std::string& root);
void inspect_nvidia(LibraryLoader& loader, Machine& machine);
std::vector<Library> inspect_libraries(LibraryLoader& loader);

}  // namespace orrery::runtime
