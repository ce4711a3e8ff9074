#include "trace/events.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace orrery::trace {
namespace {

using Word = std::uint64_t;

constexpr std::size_t kBlock = 64;  // events; a column of w bits is then w words
constexpr std::size_t kColumns = 5;
constexpr unsigned kWidthBits = 8;  // of a width, which is up to 64
constexpr Word kWidth = (1 << kWidthBits) - 1;

// Wraps around instead of overflowing, and back when they are added again.
Picoseconds minus(Picoseconds a, Picoseconds b) {
    return static_cast<Picoseconds>(static_cast<Word>(a) - static_cast<Word>(b));
}
Picoseconds plus(Picoseconds a, Word b) {
    return static_cast<Picoseconds>(static_cast<Word>(a) + b);
}

// How far back an op is, which is mostly the same for all, as an even number; what is no op as an
// odd one.
std::int64_t code_of(std::int32_t blocker, std::size_t event) {
    if (blocker < 0) return -2 * std::int64_t{blocker} - 1;
    return 2 * (static_cast<std::int64_t>(event) - blocker);
}
std::int32_t blocker_of(std::int64_t code, std::size_t event) {
    if (code % 2 != 0) return static_cast<std::int32_t>(-(code + 1) / 2);
    return static_cast<std::int32_t>(static_cast<std::int64_t>(event) - code / 2);
}

using EventRow = std::array<std::int64_t, kColumns>;

EventRow row_of(const Event& event, std::size_t i) {
    return {event.ready, minus(event.start, event.ready), minus(event.end, event.start),
            code_of(event.blocker, i), event.late_track};
}

Event event_of(const EventRow& row, std::size_t i) {
    Event event;
    event.ready = row[0];
    event.start = plus(event.ready, static_cast<Word>(row[1]));
    event.end = plus(event.start, static_cast<Word>(row[2]));
    event.blocker = blocker_of(row[3], i);
    event.late_track = static_cast<std::int32_t>(row[4]);
    return event;
}

Word bits_at(const Word* column, unsigned width, std::size_t i) {
    if (width == 0) return 0;
    const std::size_t bit = i * width;
    const auto shift = static_cast<unsigned>(bit % 64);
    const Word* word = column + bit / 64;
    Word bits = *word >> shift;
    if (shift + width > 64) bits |= word[1] << (64 - shift);
    return bits & (~Word{0} >> (64 - width));
}

// Appends the first `count` values of a column, less their least one, in as many bits as they take.
struct PackedColumn {
    std::int64_t least;
    unsigned width;
};
PackedColumn append(const std::int64_t* values, std::size_t count, std::vector<Word>& words) {
    const auto [least, most] = std::minmax_element(values, values + count);
    const auto width =
        static_cast<unsigned>(std::bit_width(static_cast<Word>(minus(*most, *least))));
    if (width == 0) return {*least, width};
    const std::size_t end = words.size() + width;
    Word word = 0;
    unsigned filled = 0;  // bits of it
    for (std::size_t i = 0; i < count; ++i) {
        const auto bits = static_cast<Word>(minus(values[i], *least));
        word |= bits << filled;
        filled += width;
        if (filled < 64) continue;
        words.push_back(word);
        filled -= 64;
        word = filled == 0 ? 0 : bits >> (width - filled);
    }
    if (filled > 0) words.push_back(word);
    words.resize(end);
    return {*least, width};
}

}  // namespace

Events::Events(const std::vector<Event>& events) : size_(events.size()) {
    blocks_.reserve((size_ + kBlock - 1) / kBlock);
    for (std::size_t first = 0; first < size_; first += kBlock)
        pack(events.data() + first, first, std::min(kBlock, size_ - first));
    words_.shrink_to_fit();
}

Events::Events(std::initializer_list<Event> events) : Events(std::vector<Event>(events)) {}

void Events::pack(const Event* events, std::size_t first, std::size_t count) {
    std::array<std::array<std::int64_t, kBlock>, kColumns> columns;
    for (std::size_t i = 0; i < count; ++i) {
        const EventRow row = row_of(events[i], first + i);
        for (std::size_t c = 0; c < kColumns; ++c)
            columns[c][i] = row[c];
    }
    const std::size_t begin = words_.size();
    blocks_.push_back(begin);
    words_.resize(begin + 1 + kColumns);
    for (std::size_t c = 0; c < kColumns; ++c) {
        const PackedColumn packed = append(columns[c].data(), count, words_);
        words_[begin] |= Word{packed.width} << (c * kWidthBits);
        words_[begin + 1 + c] = static_cast<Word>(packed.least);
    }
}

Event Events::operator[](std::size_t i) const {
    const Word* least = words_.data() + blocks_[i / kBlock];
    Word widths = *least++;
    const Word* column = least + kColumns;
    EventRow row;
    for (std::int64_t& value : row) {
        const auto width = static_cast<unsigned>(widths & kWidth);
        value = plus(static_cast<std::int64_t>(*least++), bits_at(column, width, i % kBlock));
        column += width;
        widths >>= kWidthBits;
    }
    return event_of(row, i);
}

std::vector<Event> Events::unpacked() const {
    std::vector<Event> events;
    events.reserve(size_);
    for (std::size_t i = 0; i < size_; ++i)
        events.push_back((*this)[i]);
    return events;
}

}  // namespace orrery::trace
