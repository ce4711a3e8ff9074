// Pending events in order of time, ties in order of insertion: a binary heap on a key that holds
// both, so that no comparison ever depends on anything else.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/time.hpp"

namespace orrery::sim {

template <typename Payload>
class EventQueue {
  public:
    struct Entry {
        Picoseconds time;
        std::uint64_t sequence;
        Payload payload;
    };

    bool empty() const { return heap_.empty(); }

    void push(Picoseconds time, Payload payload) {
        std::size_t hole = heap_.size();
        heap_.push_back({time, next_++, payload});
        const Entry entry = heap_.back();
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / 2;
            if (!before(entry, heap_[parent])) break;
            heap_[hole] = heap_[parent];
            hole = parent;
        }
        heap_[hole] = entry;
    }

    Entry pop() {
        const Entry top = heap_.front();
        const Entry last = heap_.back();
        heap_.pop_back();
        const std::size_t size = heap_.size();
        if (size == 0) return top;
        std::size_t hole = 0;
        while (true) {
            std::size_t child = 2 * hole + 1;
            if (child >= size) break;
            if (child + 1 < size && before(heap_[child + 1], heap_[child])) ++child;
            if (!before(heap_[child], last)) break;
            heap_[hole] = heap_[child];
            hole = child;
        }
        heap_[hole] = last;
        return top;
    }

  private:
    static bool before(const Entry& a, const Entry& b) {
        return a.time < b.time || (a.time == b.time && a.sequence < b.sequence);
    }

    std::vector<Entry> heap_;
    std::uint64_t next_ = 0;
};

}  // namespace orrery::sim
