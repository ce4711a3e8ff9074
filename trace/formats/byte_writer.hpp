// Numbers and texts to bytes, as docs/formats.md spells them. Internal to trace/.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::trace::native {

class ByteWriter {
  public:
    // LEB128: seven bits a byte, lowest first, the top bit says that more follow.
    void varint(std::uint64_t value) {
        while (value >= 0x80) {
            bytes_.push_back(static_cast<char>(value | 0x80));
            value >>= 7;
        }
        bytes_.push_back(static_cast<char>(value));
    }
    // 0, −1, 1, −2, … as 0, 1, 2, 3, …
    void signed_varint(std::int64_t value) {
        varint(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
    }
    void text(std::string_view value) {
        varint(value.size());
        bytes_.append(value);
    }
    void fixed(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i, value >>= 8)
            bytes_.push_back(static_cast<char>(value));
    }
    void number(double value) { fixed(std::bit_cast<std::uint64_t>(value), 8); }
    void append(std::string_view bytes) { bytes_.append(bytes); }

    const std::string& bytes() const { return bytes_; }
    void clear() { bytes_.clear(); }

  private:
    std::string bytes_;
};

}  // namespace orrery::trace::native
