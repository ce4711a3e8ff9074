// Bytes back to numbers and texts, where the bytes may be anything. Each fault says where in the
// file it is. Internal to trace/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/formats/native.hpp"

namespace orrery::trace::native {

// Whose bytes are read, for messages.
struct BytesPlace {
    std::string path;
    std::string frame;         // "track 3"; empty: bytes of the file itself, not unpacked
    std::uint64_t offset = 0;  // in the file
};

class ByteReader {
  public:
    // `bytes` and `place` outlive the reader.
    ByteReader(std::string_view bytes, const BytesPlace& place)
        : begin_(bytes.data()), cursor_(begin_), end_(begin_ + bytes.size()), place_(&place) {}

    std::uint64_t varint() {
        if (cursor_ != end_ && static_cast<signed char>(*cursor_) >= 0)
            return static_cast<std::uint64_t>(*cursor_++);
        return long_varint();
    }
    std::int64_t signed_varint() {
        const std::uint64_t value = varint();
        return static_cast<std::int64_t>(value >> 1 ^ (0 - (value & 1)));
    }
    // least <= result <= most, else fails with `what`.
    std::int64_t signed_within(std::int64_t least, std::int64_t most, std::string_view what);
    std::uint64_t below(std::uint64_t limit, std::string_view what);
    // How many items follow, of which each takes at least so many of the bytes left.
    std::size_t count(std::uint64_t least_bytes_each, std::string_view what);
    std::string text();
    std::uint64_t fixed(int bytes);
    double number();
    // The next bytes as a reader of their own.
    ByteReader part(std::size_t bytes);
    void expect_end() const;

    std::size_t remaining() const { return static_cast<std::size_t>(end_ - cursor_); }
    [[noreturn]] void fail(const std::string& expected) const;

  private:
    std::uint64_t long_varint();
    void need(std::uint64_t bytes) const;

    const char* begin_;  // of the frame, also in a part
    const char* cursor_;
    const char* end_;
    const BytesPlace* place_;
};

}  // namespace orrery::trace::native
