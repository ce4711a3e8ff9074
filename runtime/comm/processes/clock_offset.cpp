#include "runtime/comm/processes/clock_offset.hpp"

#include <limits>

namespace orrery::runtime {
namespace {

constexpr int kRoundTrips = 8;
constexpr std::int64_t kClockTag = -3;

}  // namespace

std::int64_t clock_offset(Communicator& communicator, std::span<const plan::Rank> elsewhere,
                          const std::function<std::int64_t()>& now) {
    communicator.set_label("clocks of the run");
    const auto pass = [&](plan::Rank peer, Direction direction, std::int64_t& time) {
        const Transfer transfer{peer, direction, &time, sizeof time, kClockTag};
        communicator.exchange({&transfer, 1});
    };
    std::int64_t quickest = std::numeric_limits<std::int64_t>::max(), offset = 0;
    for (const plan::Rank rank : elsewhere)
        for (int trip = 0; trip < kRoundTrips; ++trip) {
            std::int64_t time = 0;
            if (communicator.rank() == 0) {
                pass(rank, Direction::receive, time);
                time = now();
                pass(rank, Direction::send, time);
            } else if (communicator.rank() == rank) {
                const std::int64_t begin = now();
                pass(0, Direction::send, time);
                pass(0, Direction::receive, time);
                const std::int64_t took = now() - begin;
                if (took >= quickest) continue;
                quickest = took;
                offset = time - (begin + took / 2);
            }
        }
    return offset;
}

}  // namespace orrery::runtime
