#include "trace/formats/byte_reader.hpp"

#include <fmt/format.h>

#include <bit>

namespace orrery::trace::native {

void ByteReader::fail(const std::string& expected) const {
    const auto at = static_cast<std::uint64_t>(cursor_ - begin_);
    const std::string where =
        place_->frame.empty()
            ? fmt::format("byte {}", place_->offset + at)
            : fmt::format("byte {} ({}, byte {} unpacked)", place_->offset, place_->frame, at);
    throw TraceFileError(TraceFault::unreadable, place_->path, where + ": expected " + expected);
}

void ByteReader::need(std::uint64_t bytes) const {
    if (remaining() < bytes)
        fail(fmt::format("{} more bytes, found the end after {}", bytes, remaining()));
}

std::uint64_t ByteReader::long_varint() {
    std::uint64_t value = 0;
    const char* at = cursor_;
    for (int shift = 0; shift < 64; shift += 7, ++at) {
        if (at == end_) fail("the rest of a number, found the end");
        const auto byte = static_cast<std::uint8_t>(*at);
        if (shift == 63 && byte > 1) break;
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) {
            cursor_ = at + 1;
            return value;
        }
    }
    fail("a number of 64 bits, found a longer one");
}

std::int64_t ByteReader::signed_within(std::int64_t least, std::int64_t most,
                                       std::string_view what) {
    const ByteReader before = *this;
    const std::int64_t value = signed_varint();
    if (value < least || value > most)
        before.fail(fmt::format("{} from {} to {}, found {}", what, least, most, value));
    return value;
}

std::uint64_t ByteReader::below(std::uint64_t limit, std::string_view what) {
    const ByteReader before = *this;
    const std::uint64_t value = varint();
    if (value >= limit) before.fail(fmt::format("{} below {}, found {}", what, limit, value));
    return value;
}

std::size_t ByteReader::count(std::uint64_t least_bytes_each, std::string_view what) {
    const ByteReader before = *this;
    const std::uint64_t value = varint();
    if (value > remaining() / least_bytes_each)
        before.fail(fmt::format("at most {} {} in the {} bytes left, found a count of {}",
                                remaining() / least_bytes_each, what, remaining(), value));
    return static_cast<std::size_t>(value);
}

std::string ByteReader::text() {
    const std::size_t size = count(1, "letters");
    const char* from = cursor_;
    cursor_ += size;
    return {from, size};
}

std::uint64_t ByteReader::fixed(int bytes) {
    need(static_cast<std::uint64_t>(bytes));
    std::uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | static_cast<std::uint8_t>(cursor_[i]);
    cursor_ += bytes;
    return value;
}

double ByteReader::number() {
    return std::bit_cast<double>(fixed(8));
}

ByteReader ByteReader::part(std::size_t bytes) {
    need(bytes);
    ByteReader reader = *this;
    cursor_ += bytes;
    reader.end_ = cursor_;
    return reader;
}

void ByteReader::expect_end() const {
    if (cursor_ != end_) fail(fmt::format("the end, found {} more bytes", remaining()));
}

}  // namespace orrery::trace::native
