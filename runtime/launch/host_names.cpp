#include "runtime/launch/host_names.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <span>

namespace orrery::runtime {

std::vector<std::string> host_names(ControlPlane& control) {
    std::array<char, HOST_NAME_MAX + 1> own{};
    if (gethostname(own.data(), own.size() - 1) != 0) own[0] = '?';
    const std::string name(own.data());
    std::vector<std::string> names;
    for (const ControlPlane::Bytes& of_rank :
         control.all_gather(std::as_bytes(std::span(name.data(), name.size()))))
        names.emplace_back(reinterpret_cast<const char*>(of_rank.data()), of_rank.size());
    return names;
}

}  // namespace orrery::runtime
