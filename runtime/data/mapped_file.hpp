// A file's bytes as memory, so that a data set far larger than memory is read where a sample lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "runtime/data/guarded_mapping.hpp"

struct stat;

namespace orrery::runtime {

// A data file that cannot be read or is not what it should be; begins with its path. The program's
// exit code for it is that of a missing file, 5.
class DataError : public std::runtime_error {
  public:
    DataError(const std::string& path, const std::string& message)
        : std::runtime_error(path + ": " + message) {}
};

class MappedFile {
  public:
    // Throws DataError: it cannot be opened or mapped, or is no regular file.
    explicit MappedFile(std::string path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::string& path() const { return path_; }
    // The file as it was long when it was opened; what is appended is not seen. What cannot be read
    // any more reads as zeros: whoever has used bytes asks require_read() before it believes them.
    std::span<const std::byte> bytes() const { return bytes_; }

    // Throws DataError where bytes that were touched could not be read: the file has been cut off,
    // or its disk fails.
    void require_read() const;

    // Somebody may have written into it since it was opened: its time or its size is another. False
    // where another file has its name now, or none: these bytes stay as they are.
    bool may_have_changed() const;

  private:
    // Which file, when it was last written, how long it is.
    struct State {
        std::uint64_t device = 0, number = 0;
        std::int64_t seconds = 0, nanoseconds = 0, bytes = 0;
        bool operator==(const State&) const = default;
    };
    static State state_of(const struct stat& status);
    std::string path_;
    State opened_;
    std::span<const std::byte> bytes_;
    std::optional<GuardedMapping> guard_;  // of no empty file
};

}  // namespace orrery::runtime
