// The text of a file, plain or packed by gzip, piece by piece. Internal to trace/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

struct gzFile_s;

namespace orrery::trace {

class PackedText {
  public:
    // Throws TraceFileError (unreadable), as does reading.
    explicit PackedText(const std::string& path);
    ~PackedText();
    PackedText(const PackedText&) = delete;
    PackedText& operator=(const PackedText&) = delete;

    bool at_end() { return next_ == have_ && !fill(); }
    char current() const { return buffer_[next_]; }
    void advance() { ++next_; }
    std::uint64_t offset() const { return before_ + next_; }  // in the text

    // From here on, at most so many bytes.
    std::string read(std::size_t most);

    // For parsers that want a range; all of a text share its place.
    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = char;
        using difference_type = std::ptrdiff_t;
        using pointer = const char*;
        using reference = char;

        Iterator() = default;  // the end
        explicit Iterator(PackedText& text) : text_(&text) {}
        char operator*() const { return text_->current(); }
        Iterator& operator++() {
            text_->advance();
            return *this;
        }
        void operator++(int) { text_->advance(); }
        bool operator==(const Iterator& other) const { return is_end() == other.is_end(); }

      private:
        bool is_end() const { return text_ == nullptr || text_->at_end(); }

        PackedText* text_ = nullptr;
    };

  private:
    static constexpr std::size_t kBuffer = std::size_t{1} << 18;

    bool fill();
    [[noreturn]] void fail(const std::string& what) const;

    std::string path_;
    gzFile_s* file_ = nullptr;
    std::vector<char> buffer_;
    std::size_t next_ = 0;
    std::size_t have_ = 0;
    std::uint64_t before_ = 0;  // bytes of the text before the buffer
};

}  // namespace orrery::trace
