// When a line of JSON was written, so that who reads it later knows what lay between two of them.
#pragma once

#include <chrono>
#include <cmath>

namespace orrery::cli {

// Since 1970, to the millisecond.
inline double unix_seconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) /
           1000;
}

}  // namespace orrery::cli
