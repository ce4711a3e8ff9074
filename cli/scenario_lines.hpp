// What a scenario asks for, in lines that every report begins with.
#pragma once

#include <string>

#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

std::string layout_line(const plan::Layout& layout);
// The first `first` devices by kind: "128 h100-80gb-sxm + 64 a100-80gb-sxm".
std::string devices_line(const plan::Cluster& cluster, std::int64_t first);
// "16 nodes of 8 x h100-80gb-sxm + 8 nodes of 8 x a100-80gb-sxm", with names.
std::string cluster_line(const plan::Cluster& cluster);
std::string precision_text(const plan::Training& training);
std::string batch_line(const plan::Scenario& scenario);

}  // namespace orrery::cli
