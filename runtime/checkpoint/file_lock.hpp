// A lock between whoever changes a file that several processes, or threads, add to: one of the
// system (fcntl, of the open file), which a process that dies cannot keep. A FolderLock refuses
// where another has it; this one waits, as what is done under it takes milliseconds.
#pragma once

#include <string>

namespace orrery::runtime {

class FileLock {
  public:
    // On a file of its own, made where there is none, which stays. Throws StorageError: it cannot
    // be made, or the file system has no locks.
    explicit FileLock(const std::string& path);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

  private:
    int file_;
};

}  // namespace orrery::runtime
