// Python values as a pickle: of protocol 2 the opcodes for whole numbers, texts, lists and
// dictionaries (PEP 307; Lib/pickletools.py says what each does). Texts are stored once, and so is
// what is kept under a number. Internal to trace/formats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace orrery::trace {

class PickleWriter {
  public:
    PickleWriter() { bytes_ = "\x80\x02"; }

    void number(std::int64_t value) {
        if (value >= INT32_MIN && value <= INT32_MAX) {
            bytes_ += 'J';
            fixed(static_cast<std::uint64_t>(value), 4);
        } else {
            bytes_ += "\x8a\x08";  // as so many bytes of two's complement
            fixed(static_cast<std::uint64_t>(value), 8);
        }
    }
    void text(const std::string& value) {
        const auto [at, is_new] = texts_.emplace(value, memo_);
        if (!is_new) return again(at->second);
        bytes_ += 'X';
        fixed(value.size(), 4);
        bytes_ += value;
        keep();
    }
    void truth(bool value) { bytes_ += value ? '\x88' : '\x89'; }

    // Between them the elements; of a dictionary keys and values in turn.
    void begin_list() { bytes_ += "]("; }
    void end_list() { bytes_ += 'e'; }
    void begin_dictionary() { bytes_ += "}("; }
    void end_dictionary() { bytes_ += 'u'; }

    // The value that ends here may be used again, by the number that is returned.
    std::uint32_t keep() {
        bytes_ += 'r';
        fixed(memo_, 4);
        return memo_++;
    }
    void again(std::uint32_t kept) {
        bytes_ += 'j';
        fixed(kept, 4);
    }

    // Of one whole value.
    std::string finish() && { return std::move(bytes_) + '.'; }

  private:
    void fixed(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i, value >>= 8)
            bytes_ += static_cast<char>(value & 0xff);
    }

    std::string bytes_;
    std::map<std::string, std::uint32_t> texts_;
    std::uint32_t memo_ = 0;
};

}  // namespace orrery::trace
