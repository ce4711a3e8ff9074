// Asks the system what this machine has. Nothing is changed, nothing of CUDA is started but the
// driver's own initialization; a part that is missing or silent is left out of the answer.
#pragma once

#include <string>

#include "runtime/machine/library_loader.hpp"
#include "runtime/machine/machine.hpp"
#include "runtime/machine/nccl_settings.hpp"

namespace orrery::runtime {

// `root` stands before /proc, /sys, /dev and /etc; tests bring a folder of their own, and an
// environment.
Machine inspect_machine(LibraryLoader& loader, const std::string& root = "",
                        const std::vector<std::string>& environment = environment_lines());

// Parts of it.
void inspect_host(const std::string& root, Machine& machine);
std::vector<NetworkPort> inspect_network(const std::string& root);
std::vector<std::string> inspect_interfaces(const std::string& root);
// Where GPUs and adapters hang, and what lets them reach one another; after the GPUs.
void inspect_gpu_direct(const std::string& root, Machine& machine);
void inspect_nvidia(LibraryLoader& loader, Machine& machine);
std::vector<Library> inspect_libraries(LibraryLoader& loader);

}  // namespace orrery::runtime
