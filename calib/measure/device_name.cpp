#include <array>
#include <cctype>
#include <utility>

#include "calib/measure/device_profile.hpp"

namespace orrery::measure {
namespace {

// As the driver names them, and as scenarios/profiles/ does.
constexpr std::array<std::pair<const char*, const char*>, 15> kKnown = {{
    {"NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"},
    {"NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"},
    {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
    {"NVIDIA H100 80GB HBM3", "h100-sxm"},
    {"NVIDIA H100 PCIe", "h100-80gb-pcie"},
    {"NVIDIA H800", "h800-sxm"},
    {"NVIDIA H200", "h200-sxm"},
    {"NVIDIA B200", "b200-sxm"},
    {"NVIDIA GB200", "gb200"},
    {"NVIDIA L40S", "l40s"},
    {"NVIDIA GeForce RTX 4090", "rtx-4090"},
    {"Tesla V100-SXM2-16GB", "v100-16gb-sxm"},
    {"Tesla V100-SXM2-32GB", "v100-32gb-sxm"},
    {"Tesla V100-SXM3-32GB", "v100-32gb-sxm3"},
    {"NVIDIA H100 96GB HBM3", "h100-96gb-sxm"},
}};

}  // namespace

std::string device_name(const std::string& gpu) {
    for (const auto& [theirs, ours] : kKnown)
        if (gpu == theirs) return ours;
    std::string name;
    for (const char c : gpu)
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if (!name.empty() && name.back() != '-')
            name += '-';
    constexpr const char* kMaker = "nvidia-";
    if (name.rfind(kMaker, 0) == 0) name.erase(0, std::string(kMaker).size());
    while (!name.empty() && name.back() == '-')
        name.pop_back();
    return name;
}

}  // namespace orrery::measure
