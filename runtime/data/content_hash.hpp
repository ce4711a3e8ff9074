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

// Of what may be far too large to read: its size, and all of it up to 4 MiB, beyond that 64 blocks
// of 64 KiB, the first, the last and those at even distances between.
std::string sample_hash(std::span<const std::byte> bytes);

}  // namespace orrery::runtime
