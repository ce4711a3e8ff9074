// The files that a run leaves when it ends badly, or is asked to end: one for each rank of this
// process, with its last ops (docs/formats.md). Written as a checkpoint is: under another name,
// synchronised, renamed. What an earlier attempt left is kept beside them.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/flight/flight_recorder.hpp"

namespace orrery::runtime {

class FlightRecords {
  public:
    // `say`: a line for the user, from any thread.
    FlightRecords(std::string folder, std::function<void(const std::string& line)> say);

    const std::string& folder() const { return folder_; }

    // Those that are written; until removed.
    void add(const FlightRecorder& recorder);
    void remove(const FlightRecorder& recorder);

    // The run has ended, and why. The first time counts. Says where the files are, or why there are
    // none; nothing where no rank has done anything nor waits. Throws nothing.
    void write_failure(const std::string& reason);
    // The ranks have been asked to end. A failure's files are not overwritten.
    void write_on_request(const std::string& reason);

    // "gemm fc1, all_reduce qkv": what the ranks of this process have begun and not ended; of ops
    // that are put into streams, those that are not there yet.
    std::string unfinished() const;

  private:
    void write(const std::string& reason);

    std::string folder_;
    std::function<void(const std::string&)> say_;
    mutable std::mutex mutex_;  // guards what follows
    std::vector<const FlightRecorder*> recorders_;
    bool failed_ = false;
    std::set<std::string> own_;  // files that this object has written
};

// The first file of a folder, if any, that has the name of a flight record and is none: of this
// rank's, or, negative, of any's.
std::string foreign_record_in(const std::string& folder, plan::Rank rank);

// JSON of a recorder: what a file holds.
std::string flight_record_text(const FlightRecorder& recorder, const std::string& reason);

}  // namespace orrery::runtime
