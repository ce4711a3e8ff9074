// Where the ranks of one process meet: who has come to which call of which group, who waits for
// whom, and whether the run still goes on. It moves no data but that of transfers; collectives do
// so between its calls (runtime/comm/threads/thread_communicator.hpp).
//
// One lock guards everything, held for a few dozen instructions at a time; each rank sleeps on a
// condition of its own.
//
// How memory stays safe: members read one another's memory only between enter() and leave(), and
// leave() returns once all have come to it. When the run ends meanwhile, a member that finds out
// waits until no one reads any more (readers only compute: they never wait), and nobody begins to
// read after the end. The receiver of a transfer copies from its sender likewise.
//
// How a run that is stuck is found: a waiting rank needs every rank that it waits for, and a rank
// is in one call at a time. So a circle of ranks that wait for one another is stuck for good, and
// so is one that waits for a rank that has left; both are looked for when a rank comes to wait or
// leaves.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "runtime/comm/call.hpp"
#include "runtime/comm/communicator.hpp"
#include "runtime/comm/threads/thread_world.hpp"

namespace orrery::runtime {

// Messages up to this size are copied to where all members find them: then they need to meet only
// once.
inline constexpr std::int64_t kStagedBytes = 4096;

// One group of ranks and the call that it is in; members by their index.
struct Gathering {
    explicit Gathering(std::vector<plan::Rank> ranks);

    std::vector<plan::Rank> members;
    // By the parity of calls: a member that is ahead prepares the next call while others still read
    // this one's. It cannot be ahead by two.
    std::array<std::vector<const void*>, 2> sources;
    std::array<std::vector<std::byte>, 2> staged;  // kStagedBytes per member
    std::vector<const Call*> calls;                // of members that wait for others to come
    std::size_t come = 0;
    std::uint64_t meetings = 0;  // times that all have come
    std::int64_t reading = 0;    // members that may be reading other members' memory
};

class MeetingPlace {
  public:
    MeetingPlace(const plan::Mesh& mesh, const ThreadWorldOptions& options);

    // The group of this kind that `rank` belongs to.
    Gathering& gathering(plan::GroupKind kind, plan::Rank rank);

    // Comes to a call, the parity-th (mod 2) of this member in this group; returns what each member
    // gave as its source once all have come. `reads`: they go on to read one another's memory, and
    // each calls leave() after.
    std::span<const void* const> enter(Gathering& group, std::size_t index, const Call& call,
                                       std::size_t parity, const void* source, bool reads);
    // Between enter() and leave(): all members have done what they did so far, and go on to read.
    void between(Gathering& group, std::size_t index, const Call& call);
    void leave(Gathering& group, std::size_t index, const Call& call);

    void exchange(plan::Rank rank, const Call& call, std::span<const Transfer> transfers);

    // Communicator::abort.
    void abort(plan::Rank rank, std::string_view reason);
    // The body of this rank has returned, or thrown `thrown`.
    void left(plan::Rank rank, const std::exception_ptr& thrown);
    // Communicator::waiting.
    std::optional<Waiting> waits_of(plan::Rank rank);
    // What ended the run; null: nothing did. For when all ranks have left.
    std::exception_ptr cause() const { return cause_; }

  private:
    using Lock = std::unique_lock<std::mutex>;

    // A transfer of a rank that is in an exchange.
    struct Posted {
        const Transfer* transfer = nullptr;
        Posted* partner = nullptr;  // the other side, once it has come
        plan::Rank owner = 0;
        bool copying = false;  // of a send: the receiver reads from its memory
        bool done = false;
    };

    struct Member {
        std::condition_variable wake;
        std::atomic<std::uint32_t> signals{0};  // counts wakes, for a rank that spins
        const Call* call = nullptr;             // that it waits in for others to come …
        const Gathering* group = nullptr;       // … a collective's
        std::span<Posted> posted;               // … or an exchange's
        std::chrono::steady_clock::time_point since;
        bool left = false;
    };

    // Who ended the run, and why.
    struct End {
        plan::Rank rank = 0;
        std::string reason;
        bool found = false;    // by that rank in a call of its own, which throws `reason` as it is
        bool aborted = false;  // by abort()
    };

    Member& member(plan::Rank rank) { return members_[static_cast<std::size_t>(rank)]; }
    const Member& member(plan::Rank rank) const { return members_[static_cast<std::size_t>(rank)]; }

    // meet.cpp
    void compare(const Gathering& group, std::size_t index, const Call& call);
    void meet(Lock& lock, Gathering& group, std::size_t index);
    void stop_reading(Gathering& group);
    [[noreturn]] void give_up(Lock& lock, const Gathering& group, std::size_t index,
                              const Call& call);

    // exchange.cpp
    void match(std::span<Posted> posted);
    void copy(Lock& lock, Posted& receiving);

    // wait.cpp: both return once ready(); the first also when the run has ended, which it ends
    // itself when others do not come in time.
    void wait_for_ranks(Lock& lock, plan::Rank rank, const std::function<bool()>& ready);
    void wait_for_readers(Lock& lock, plan::Rank rank, const std::function<bool()>& ready);
    void spin(Lock& lock, const Member& self) const;
    void wake(plan::Rank rank);
    void wake_all();

    // stuck.cpp
    std::vector<plan::Rank> awaited_by(plan::Rank rank) const;
    std::vector<plan::Rank> circle_through(plan::Rank rank) const;
    std::string waiting(plan::Rank rank) const;
    std::string call_of(plan::Rank rank) const;
    std::optional<Waiting> waiting_now(plan::Rank rank) const;
    std::string late(plan::Rank rank) const;
    void find_stuck(plan::Rank rank);

    // end.cpp
    void end(End end, std::exception_ptr cause);
    void end_found(plan::Rank rank, const std::string& fault);
    [[noreturn]] void throw_ended(plan::Rank rank, const Call& call) const;

    std::chrono::milliseconds timeout_;
    bool spins_;
    std::vector<std::unique_ptr<Gathering>> gatherings_;
    std::array<std::vector<Gathering*>, plan::kGroupKinds> gathering_of_;  // by rank
    std::mutex mutex_;                                                     // guards what follows
    std::vector<Member> members_;                                          // by rank
    std::optional<End> end_;
    std::vector<std::optional<Waiting>> at_end_;  // by rank
    std::exception_ptr cause_;
};

}  // namespace orrery::runtime
