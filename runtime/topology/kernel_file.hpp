// Files in which the kernel says one thing each, under /sys and /proc.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace orrery::runtime {

// Empty where it is not there, or may not be read.
std::string first_line(const std::filesystem::path& file);

// By name; none where there is no such folder.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder);

}  // namespace orrery::runtime
