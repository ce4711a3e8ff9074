// What a save asks of a file system, so that a test can be one that fails, or that loses what was
// not synchronised, at any of its calls.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/storage_error.hpp"

namespace orrery::runtime {

class OutputFile {
  public:
    OutputFile() = default;
    virtual ~OutputFile() = default;  // closes
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    virtual void write(std::span<const std::byte> bytes) = 0;
    virtual void sync() = 0;  // fsync
};

// All throw StorageError with the path.
class Files {
  public:
    Files() = default;
    virtual ~Files() = default;
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

    // With its parents; one that is there already is left as it is.
    virtual void make_folder(const std::string& path) = 0;
    virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;  // or empties it
    virtual void rename(const std::string& from, const std::string& to) = 0;
    // The entries of a folder are on the disk: what was created in it, renamed or removed.
    virtual void sync_folder(const std::string& path) = 0;
    virtual void remove_folder(const std::string& path) = 0;  // with all that is in it
};

Files& disk_files();

}  // namespace orrery::runtime
