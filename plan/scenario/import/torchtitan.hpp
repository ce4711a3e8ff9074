// A torchtitan TOML config as a scenario.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::imports {

// A model that torchtitan has under two names, and the library as a file.
struct TorchtitanFlavor {
    const char *name, *flavor;
    const char* model;  // reference
    std::int64_t layers;
};
std::span<const TorchtitanFlavor> torchtitan_flavors();

Imported import_torchtitan(std::string_view text, const std::string& file, const Wishes& wishes);

}  // namespace orrery::plan::imports
