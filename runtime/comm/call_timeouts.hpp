// How long a call may take before the run is given up: a rank that hangs is told from one that is
// slow.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace orrery::runtime {

struct CallTimeouts {
    // What a call may take from when its stream has come to it: the time until its last member
    // comes is in it. Also how long a communicator may take to be made.
    std::chrono::milliseconds usual = std::chrono::minutes(10);
    // Predicted durations by the label of ops: these may take `factor` times as long, and `least`
    // at any rate.
    std::map<std::string, double, std::less<>> expected_s;
    double factor = 20;
    std::chrono::milliseconds least = std::chrono::seconds(30);

    // Of a call for an op of this label.
    std::chrono::milliseconds allowed(std::string_view label) const {
        const auto found = expected_s.find(label);
        if (found == expected_s.end()) return usual;
        const std::chrono::duration<double> scaled(found->second * factor);
        return std::max(least, std::chrono::ceil<std::chrono::milliseconds>(scaled));
    }
};

}  // namespace orrery::runtime
