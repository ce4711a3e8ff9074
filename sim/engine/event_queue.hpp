// Pending events in order of time, ties in order of insertion. Time does not run backwards, so a
// radix heap does (Ahuja, Mehlhorn, Orlin, Tarjan 1990, "Faster algorithms for the shortest path
// problem"): an event waits in the bucket of the highest bit in which its time differs from that of
// the last bucket that was opened; opening the lowest bucket spreads it over lower ones, in order.
// Each event moves down at most 63 times, in practice a few. Events of one time share a bucket
// always, in order of insertion.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/engine/time.hpp"

namespace orrery::sim {

template <typename Payload>
class EventQueue {
  public:
    struct Entry {
        Entry(Picoseconds at, Payload what) : time(at), payload(what) {}
        Picoseconds time;
        Payload payload;
    };

    bool empty() const { return next_ == now_.size() && filled_ == 0; }

    // Whether nothing is left of the time of the last pop.
    bool moment_is_over() const { return next_ == now_.size(); }

    // Of what is pending the first; the queue must not be empty.
    Picoseconds next_time() const {
        if (next_ < now_.size()) return opened_;
        return first_of(later_[static_cast<std::size_t>(std::countr_zero(filled_))]);
    }

    // Not before the time of the last pop; not negative.
    void push(Picoseconds time, Payload payload) { bucket_of(time).emplace_back(time, payload); }

    Entry pop() {
        if (next_ == now_.size()) open_lowest();
        return now_[next_++];
    }

  private:
    using Bucket = std::vector<Entry>;

    static Picoseconds first_of(const Bucket& bucket) {
        return std::min_element(bucket.begin(), bucket.end(),
                                [](const Entry& a, const Entry& b) { return a.time < b.time; })
            ->time;
    }

    Bucket& bucket_of(Picoseconds time) {
        if (time == opened_) return now_;
        const auto differ = static_cast<std::uint64_t>(time) ^ static_cast<std::uint64_t>(opened_);
        const auto highest = static_cast<std::size_t>(std::bit_width(differ)) - 1;
        filled_ |= std::uint64_t{1} << highest;
        return later_[highest];
    }

    void open_lowest() {
        now_.clear();
        next_ = 0;
        const int lowest = std::countr_zero(filled_);
        filled_ &= filled_ - 1;
        Bucket& bucket = later_[static_cast<std::size_t>(lowest)];
        opened_ = first_of(bucket);
        for (const Entry& entry : bucket)  // none of them comes back into it
            push(entry.time, entry.payload);
        bucket.clear();
    }

    Picoseconds opened_ = 0;
    Bucket now_;            // events of this time
    std::size_t next_ = 0;  // into now_
    std::array<Bucket, 64> later_;
    std::uint64_t filled_ = 0;  // bit per bucket
};

}  // namespace orrery::sim
