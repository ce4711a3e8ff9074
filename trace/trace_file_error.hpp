// What goes wrong with a trace's file, or with any file that is to come into being whole.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace orrery::trace {

enum class TraceFault : std::uint8_t {
    unreadable,  // missing, truncated, corrupt, or of a version this program does not know
    storage      // could not be written: folder missing, disk full, permission
};

// The environment's fault, never the caller's. what() starts with the path; it gives the byte at
// which the file is wrong and what was expected there, or what the operating system said.
class TraceFileError : public std::runtime_error {
  public:
    TraceFileError(TraceFault fault, std::string path, const std::string& message)
        : std::runtime_error(path + ": " + message), fault_(fault), path_(std::move(path)) {}
    TraceFault fault() const { return fault_; }
    const std::string& path() const { return path_; }

  private:
    TraceFault fault_;
    std::string path_;
};

}  // namespace orrery::trace
