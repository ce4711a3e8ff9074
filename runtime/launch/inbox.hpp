// What has come for a rank and has not been taken, by sender, and whether the run has ended.
// Whatever carries messages puts them here, from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

// On the wire; a number never changes its meaning.
enum class MessageKind : std::uint8_t { broadcast = 1, gather = 2, finish = 3, abort = 4 };

struct Message {
    MessageKind kind = MessageKind::abort;
    ControlPlane::Bytes bytes;
};

class Inbox {
  public:
    explicit Inbox(std::int64_t ranks) : queues_(static_cast<std::size_t>(ranks)) {}

    void put(std::int64_t from, MessageKind kind, ControlPlane::Bytes bytes);

    // Waits for the next message of a rank, as long as set_patience says: what had come before the
    // run ended can still be taken.
    Message take(std::int64_t from);

    // Of the run, for this reason; false where it had ended before, or finished.
    bool end(const std::string& reason);
    // Of rank 0; the others learn it by its message, with which it comes.
    void finish();
    void check();
    // For who has found a connection dead: waits until its reader, which takes first what came
    // before the end, says why; throws that, unless the run has finished.
    void check_after_loss();

    // Why the run has ended; "" where it has finished, or goes on for so long.
    std::string wait_for_end(std::chrono::milliseconds patience);
    void set_patience(std::chrono::milliseconds patience);

  private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<std::deque<Message>> queues_;  // by sender
    std::string ended_;                        // why; empty: it has not
    bool finished_ = false;
    std::chrono::milliseconds patience_{0};  // 0: as long as it takes
};

}  // namespace orrery::runtime
