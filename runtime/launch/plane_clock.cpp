#include "runtime/launch/plane_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/launch/host_names.hpp"

namespace orrery::runtime {
namespace {

constexpr int kRounds = 8;

std::int64_t steady_nanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

std::int64_t clock_offset(ControlPlane& plane, bool shares,
                          const std::function<std::int64_t()>& now) {
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), offset = 0;
    for (int round = 0; round < kRounds; ++round) {
        plane.barrier();  // whoever is late for a round has the others wait
        const std::int64_t begin = now();
        static_cast<void>(plane.gather({}));
        ControlPlane::Bytes answer(sizeof(std::int64_t));
        if (plane.rank() == 0) {
            const std::int64_t time = now();
            std::memcpy(answer.data(), &time, sizeof time);
        }
        plane.broadcast(answer);
        const std::int64_t waited = now() - begin;
        std::int64_t time = 0;
        std::memcpy(&time, answer.data(), sizeof time);
        if (waited >= shortest) continue;
        shortest = waited;
        offset = time - (begin + waited / 2);
    }
    return shares ? 0 : offset;
}

std::int64_t host_clock_offset(ControlPlane& plane) {
    const std::vector<std::string> hosts = host_names(plane);
    const std::string& first = hosts.front();
    if (std::all_of(hosts.begin(), hosts.end(),
                    [&](const std::string& host) { return host == first; }))
        return 0;
    const bool shares = hosts[static_cast<std::size_t>(plane.rank())] == first;
    return clock_offset(plane, shares, steady_nanoseconds);
}

}  // namespace orrery::runtime
