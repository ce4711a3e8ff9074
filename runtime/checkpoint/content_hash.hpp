// XXH3 of 128 bits (xxHash), in 32 hexadecimal digits as xxh128sum prints it: finds what a disk or
// a network changed, not what somebody forged.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace orrery::runtime {

std::string content_hash(std::span<const std::byte> bytes);
std::string content_hash(std::string_view text);

}  // namespace orrery::runtime
