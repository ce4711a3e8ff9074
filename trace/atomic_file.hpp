// A file that comes into being whole or not at all: it is written under another name beside its
// place, brought to the disk, and renamed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::trace::native {

// All functions throw TraceFileError (storage).
class AtomicFile {
  public:
    explicit AtomicFile(std::string path);
    ~AtomicFile();  // without commit: nothing remains
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void append(std::string_view bytes);
    std::uint64_t size() const { return size_; }
    void commit();

  private:
    [[noreturn]] void fail(const char* doing) const;  // with errno's text
    void close_descriptor();
    void sync_folder() const;

    std::string path_;
    std::string partial_;  // empty once renamed
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
};

}  // namespace orrery::trace::native

namespace orrery::trace {

// A whole file of this content; a pipe or a device, in whose place nothing may be put, is written
// to as it stands. Throws TraceFileError (storage).
void write_file(const std::string& path, std::string_view content);

}  // namespace orrery::trace
