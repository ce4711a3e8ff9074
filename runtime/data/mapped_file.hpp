// A file's bytes as memory, so that a data set far larger than memory is read where a sample lies.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

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
    // The file as it was long when it was opened. Who cuts it off meanwhile ends the program
    // (SIGBUS); what is appended is not seen.
    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::string path_;
    std::span<const std::byte> bytes_;
};

}  // namespace orrery::runtime
