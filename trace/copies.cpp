#include "trace/copies.hpp"

#include <array>

namespace orrery::trace {
namespace {

double seconds(Picoseconds time) {
    return static_cast<double>(time) / 1e12;
}

}  // namespace

CopySums copy_sums(const Trace& trace) {
    CopySums sums{};
    double ranks = 0;
    for (const Track& track : trace.tracks) {
        const double weight = static_cast<double>(track.represents);
        ranks += weight;
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const OpName& op = trace.op_of(track, i);
            const Event& event = track.events[i];
            if (!plan::is_copy(op.kind) || event.start < trace.step_start ||
                event.start >= trace.step_end)
                continue;
            CommunicationSums& sum = sums[copy_index(op.kind)];
            sum.bytes_per_rank += weight * op.sent_bytes;
            sum.busy_s += weight * seconds(event.end - event.start);
        }
        const std::array<Picoseconds, kCopyKinds> waits = waits_for_copies(trace, track);
        for (std::size_t kind = 0; kind < kCopyKinds; ++kind)
            sums[kind].exposed_s += weight * seconds(waits[kind]);
    }
    for (CommunicationSums& sum : sums) {
        sum.bytes_per_rank /= ranks;
        sum.busy_s /= ranks;
        sum.exposed_s /= ranks;
    }
    return sums;
}

}  // namespace orrery::trace
