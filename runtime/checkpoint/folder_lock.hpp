// One writer for a checkpoint folder. Two runs that write into one folder publish shards of the one
// under the manifest of the other, and nobody sees it before the checkpoint is needed. So who
// writes holds a lock for as long as it lives: one of the system (fcntl, of the open file), which a
// process that dies cannot keep. In the file stands who holds it, for whoever is refused.
//
//   run.lock          the run that writes checkpoints
//   supervisor.lock   the supervisor that starts such runs: between two of them the folder is its
//   own
#pragma once

#include <string>

namespace orrery::runtime {

inline constexpr char kRunLock[] = "run.lock";
inline constexpr char kSupervisorLock[] = "supervisor.lock";

// 16 hexadecimal digits that no other run has.
std::string new_run_id();

class FolderLock {
  public:
    // Makes the folder where there is none. Throws StorageError: another process holds the lock (it
    // is named), or nothing can be written there.
    FolderLock(const std::string& folder, const char* name, const std::string& run_id);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

    // False where the file system has no locks: then only the file says whose the folder is, and
    // what lies there may be of a run that still lives.
    bool is_exclusive() const { return exclusive_; }

    // Throws StorageError where the folder was removed or replaced since, or another run has taken
    // it. To be asked before anything is published.
    void require_still_held() const;

  private:
    // Closing it frees the lock. The file stays: who removed it could free another's.
    struct Descriptor {
        int number = -1;
        explicit Descriptor(int opened) : number(opened) {}
        ~Descriptor();
        Descriptor(const Descriptor&) = delete;
        Descriptor& operator=(const Descriptor&) = delete;
    };

    std::string path_;
    std::string owner_;  // what stands in the file
    Descriptor file_;
    bool exclusive_ = true;
};

// Throws StorageError where another process holds the lock; takes nothing, makes nothing.
void refuse_if_locked(const std::string& folder, const char* name);

}  // namespace orrery::runtime
