// Checkpoints of a run while it goes on. At the end of a step each rank copies what it saves into
// memory of the host; a thread of its own writes that as a shard. Once every rank has said that its
// shard is on the disk, a thread of rank 0 publishes the checkpoint. Ranks speak between steps
// only, through the control plane: each may be a process, and all see one file system.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "runtime/checkpoint/folder_lock.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/launch/control_plane.hpp"
#include "runtime/train/checkpoint_interval.hpp"
#include "runtime/train/saved_state.hpp"

namespace orrery::runtime {

// One that has been published.
struct CheckpointReport {
    std::int64_t step = 0;
    std::string path;
    std::int64_t bytes = 0;  // of all shards
    double stall_s = 0;      // that training stood still for it, on the rank where longest
    double write_s = 0;      // from then to its publication
};

// One that a run goes on from.
struct ResumptionReport {
    double load_s = 0;       // reading it, and looking at what was read, until the last rank had
    std::int64_t bytes = 0;  // that were read: of all shards
};

struct CheckpointOptions {
    std::string path;
    std::int64_t every_steps = 1;       // 0: by what is measured; the last step is saved as well
    double mean_time_to_failure_s = 0;  // where it is measured
    std::int64_t keep = 0;              // newest ones that stay; 0: all
    bool resume = false;                // from the newest one, if there is any
    // Not the newest but the one of this step, which must be there; 0: the newest. Newer ones are
    // moved aside when the next is published.
    std::int64_t resume_step = 0;
    std::string scenario = "{}";  // resolved, JSON
    SavedData data;
    Files* files = nullptr;  // null: disk_files()
    // By a supervisor that has the folder to itself; without one none may have it.
    bool supervised = false;
    // Before each save, on every rank: throws DataError where the data are no longer what they
    // were.
    std::function<void()> require_data_unchanged;
    // On rank 0, where checkpoints of a run are there that this one does not go on with.
    std::function<void()> found_earlier;
    // On rank 0, before the first step, and between steps.
    std::function<void(const CheckpointReader&, const ResumptionReport&)> resumed;
    std::function<void(const CheckpointReport&)> published;
    std::function<void(const IntervalChoice&)> chosen;  // another interval than before
};

// A checkpoint that is not as it was written; an older one may be.
class DamagedCheckpoint : public DataError {
  public:
    // `said`: the path, what is wrong.
    DamagedCheckpoint(const std::string& said, std::int64_t step);
    std::int64_t step() const { return step_; }

  private:
    std::int64_t step_;
};

// The folder, this run's alone from before anything of it is read. All ranks make it at the same
// time, and throw StorageError where rank 0 cannot have it or cannot write there.
class HeldFolder {
  public:
    HeldFolder(const CheckpointOptions& options, ControlPlane& control);

    const std::string& run_id() const { return run_id_; }
    const FolderLock* lock() const { return lock_.get(); }  // null but on rank 0

  private:
    std::string run_id_;
    std::unique_ptr<FolderLock> lock_;
};

// The newest one, or the one that is asked for, whose bytes have been looked at, each shard's by
// one of the ranks; null: there is none. All ranks call it. Throws DamagedCheckpoint, also for one
// that has lost its manifest, or DataError where there is none of that step, or the folder cannot
// be read, on all ranks.
std::unique_ptr<CheckpointReader> newest_checkpoint(const CheckpointOptions& options,
                                                    ControlPlane& control);

class Checkpointing {
  public:
    // `resumed`: the step that the run goes on after; what is in the folder up to it is of this
    // run. 0: nothing is.
    Checkpointing(const CheckpointOptions& options, const HeldFolder& folder, ControlPlane& control,
                  std::int64_t resumed);
    ~Checkpointing();
    Checkpointing(const Checkpointing&) = delete;
    Checkpointing& operator=(const Checkpointing&) = delete;

    // All ranks call the following at the same time. All throw StorageError, on every rank, where
    // any of them could not write.

    // Memory for what will be saved, before there is anything to wait for it.
    void reserve(const std::vector<SavedPart>& parts) { snapshot_.reserve(parts); }

    // Whether one is due after this step. Asked once after every step.
    bool due(std::int64_t step) { return interval_.due(step); }

    // On rank 0, of every step.
    void stepped(double time_s) { interval_.stepped(time_s); }

    // Waits for the checkpoint before, where that is still being written.
    void save(const Device& device, std::vector<SavedPart> parts, const Progress& progress,
              const plan::Plan& plan);

    // How far it is; does not wait.
    void poll();

    // Returns once all is published.
    void finish();

  private:
    enum class Phase : std::uint8_t { idle, writing, publishing };

    // What a thread does; its end is seen without waiting for it.
    class Work {
      public:
        ~Work() { wait(); }
        void begin(std::function<void()> work);
        bool has_ended() const { return ended_.load(); }
        void wait();
        const std::string& error() const { return error_; }  // empty: it went well

      private:
        std::thread thread_;
        std::atomic<bool> ended_{true};
        std::string error_;
    };

    void poll_writing();
    void poll_publishing();
    void publish(std::vector<Shard> shards);
    void agree(const std::string& error);
    void require_data_unchanged();
    void adapt_interval();

    const CheckpointOptions& options_;
    const HeldFolder& folder_;
    ControlPlane& control_;
    CheckpointPlace place_;
    // Checkpoints of the folder after this step are not of this run.
    std::int64_t of_this_run_until_;
    CheckpointInterval interval_;
    Phase phase_ = Phase::idle;
    Progress progress_;
    const plan::Plan* plan_ = nullptr;
    double stall_s_ = 0;
    std::int64_t saved_at_ns_ = 0;
    CheckpointReport report_;
    Snapshot snapshot_;
    Shard shard_;
    Work work_;  // last: its thread uses the others
};

}  // namespace orrery::runtime
