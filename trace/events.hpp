// What the ops of one rank did, in a third of the bytes that as many Events take: traces have
// millions of them, and all are kept. Each is read by itself, at once.
//
// 64 events are a block. Of each column (when it was ready, how long it waited from then, how long
// it took, whom it waited for, who came last) a block keeps the least value, and of each event what
// is above it, in as many bits as the largest of these takes. So what is alike takes no bits, what
// is out of the ordinary makes its own block wider, and every value there is comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <vector>

namespace orrery::trace {

// int64 picoseconds from the start of the step.
using Picoseconds = std::int64_t;

inline constexpr std::int32_t kHost = -1;     // blocked by the host, which had not issued it yet
inline constexpr std::int32_t kNothing = -2;  // ready from the start

struct Event {
    Picoseconds ready = 0;  // everything of this rank that it waits for has ended
    Picoseconds start = 0;  // every member is there; for compute ready, or later where the thread
                            // that starts it was busy
    Picoseconds end = 0;
    std::int32_t blocker = kNothing;  // op id of this rank that ended last before `ready`
    std::int32_t late_track = -1;  // communication: track of the member that came last, −1: this
    bool operator==(const Event&) const = default;

    Picoseconds duration() const { return end - start; }
};

// By op id. To change one is to pack all of them anew; a loop that comes to each of them several
// times is faster over those that are unpacked.
class Events {
  public:
    Events() = default;
    Events(const std::vector<Event>& events);
    Events(std::initializer_list<Event> events);

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    Event operator[](std::size_t i) const;
    std::vector<Event> unpacked() const;
    // change(event, i) for each.
    template <typename Change>
    void change(Change change) {
        std::vector<Event> events = unpacked();
        for (std::size_t i = 0; i < events.size(); ++i)
            change(events[i], i);
        *this = events;
    }
    bool operator==(const Events&) const = default;

    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Event;
        using difference_type = std::ptrdiff_t;
        using pointer = const Event*;
        using reference = Event;

        Iterator(const Events& events, std::size_t i) : events_(&events), i_(i) {}
        Event operator*() const { return (*events_)[i_]; }
        Iterator& operator++() {
            ++i_;
            return *this;
        }
        bool operator==(const Iterator&) const = default;

      private:
        const Events* events_;
        std::size_t i_;
    };
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, size_}; }

  private:
    void pack(const Event* events, std::size_t first, std::size_t count);

    // A block: a word with the widths of its columns, a byte each; their least values; the columns.
    std::vector<std::uint64_t> words_;
    std::vector<std::size_t> blocks_;  // where each begins in it
    std::size_t size_ = 0;
};

}  // namespace orrery::trace
