// A plan's communication on a library of collectives: those communicators of the driver's that the
// plan asks for (plan/ir/communicators.hpp), of groups and of neighbours in a pipeline, and calls
// put into streams.
//
// All ranks split them from one communicator of all, which is made for that and ended then: of the
// groups by the order of their kinds, of a kind all at once, then those of neighbours, pairs in
// turns. It takes no calls, even where the plan has some of all ranks: among very many its memory
// grows with their number, and calls that nobody watches over may wait for a peer while they are
// made, others not. The calls on one are in the order in which its members issue them, which is the
// plan's. Transfers of the pipeline travel between neighbours where the peer is one, others in
// their op's group; those of one pair of ranks and one direction meet in the order of their issue,
// and their tags, which the wire does not carry, must say the same (a test holds plans to that).
//
// Sums are the driver's, in the type of the buffer and in whatever order it likes: not the
// canonical ones of other communicators, and a NaN may lose against a number in max.
//
// A call that the driver refuses, a communicator that fails, a call that takes longer than it
// may and a rank that has ended the run (the control plane says so) end it here too: all
// communicators are aborted, the other ranks are told, and that call or check() throws
// CommunicationError with the rank, the op and its group; and so does a device that comes to no
// end of anything else. While the thread that issues is away, held by the driver, a watch sees
// to that on a thread of its own, and to what else of a step the driver is asked for (IssuedOps)
// and holds for too long; WatchOptions::overdue hears of a thread that does not come back even
// then.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir/communicators.hpp"
#include "runtime/comm/call_timeouts.hpp"
#include "runtime/launch/control_plane.hpp"
#include "runtime/streams/collective_driver.hpp"
#include "runtime/streams/issue_watch.hpp"
#include "runtime/streams/issued_ops.hpp"
#include "runtime/streams/pending_calls.hpp"
#include "runtime/streams/stream_communicator.hpp"

namespace orrery::runtime {

// Of the communicators that a run has; those of neighbours in a pipeline are as its group's.
struct CommunicatorOptions {
    std::array<BlockBounds, plan::kGroupKinds> blocks{};  // by group
    bool registers_memory = false;
};

class GroupCommunicator : public StreamCommunicator {
  public:
    // Drivers, plane and `issued` must outlive it; the plane has a rank for each of the mesh.
    // `now`: a clock; tests have their own. `issued`: what the rank has put into its streams; null:
    // nobody keeps that.
    GroupCommunicator(const plan::Mesh& mesh, plan::Rank rank, CollectiveDriver& driver,
                      StreamDriver& streams, ControlPlane& plane, const CallTimeouts& timeouts = {},
                      std::function<Instant()> now = std::chrono::steady_clock::now,
                      const WatchOptions& watching = {}, const CommunicatorOptions& options = {},
                      IssuedOps* issued = nullptr);
    ~GroupCommunicator() override;

    // Makes those that are not there yet, by pipeline rank; returns once all ranks have theirs. To
    // be called on all of them, with the same, before any call on one.
    void connect(const std::vector<plan::Communicators>& of_ranks);

    // Where the options ask for it: every communicator knows the memory, which holds what all
    // later calls name, until forget_memory() or its own end. To be called on all ranks, those of
    // a stage with as many bytes of the same plan, before any call on it.
    void register_memory(std::byte* memory, std::int64_t bytes);
    // Once no call is under way on any rank. What a run that has ended had registered goes with
    // its communicators.
    void forget_memory();

    void issue_on(Stream stream) override { stream_ = stream; }
    void check() override;
    // What this rank has issued ends too, so that nobody waits for its streams.
    void abort(std::string_view reason) override;
    // The call that its stream has been at for longest, which waits for some of the others of its
    // group: which ones, the driver does not say. Or what the driver is held with.
    std::optional<Waiting> waiting() const override;

  private:
    using Handle = CollectiveDriver::Communicator;
    // The group of a kind, or this rank and its neighbour in the pipeline, round the ring.
    using Party = PendingCall::Party;
    static constexpr Party kAfter = plan::kGroupKinds, kBefore = kAfter + 1;
    static constexpr std::size_t kParties = plan::kGroupKinds + 2;
    static Party party_of(plan::GroupKind group) { return static_cast<Party>(group); }

    void do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data, std::int64_t elements,
                       Reduction reduction) override;
    void do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine, void* all,
                       std::int64_t total) override;
    void do_reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all, void* mine,
                           std::int64_t total) override;
    void do_all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all, void* from_all,
                       std::int64_t total) override;
    void do_broadcast(plan::GroupKind group, plan::DType dtype, void* data, std::int64_t elements,
                      std::int64_t root) override;
    void do_exchange(std::span<const Transfer> transfers, plan::GroupKind group) override;
    void do_barrier(plan::GroupKind group) override;
    void copy_own(void* to, const void* from, std::int64_t bytes) override;

    using OfRanks = std::vector<plan::Communicators>;

    void begin_all();
    void split_all(const OfRanks& asked);
    // One split, in which this rank has that party, or none.
    void split(std::optional<Party> party, const std::string& what);
    // Every party that has a communicator, in the one order of all ranks.
    void for_each_party(const std::function<void(Party)>& visit);
    void make_known(Party party, std::byte* memory, std::int64_t bytes);
    void drop_registrations();

    Handle handle(Party party) const { return handles_[party]; }
    // Of a party with this rank, in the order in which the driver counts them.
    std::vector<plan::Rank> ranks_of(Party party) const;
    std::int64_t size_of(plan::GroupKind group) const;
    Party party_with(plan::Rank peer, plan::GroupKind group) const;
    // Issues a call, remembers it, and waits until the driver has taken it.
    void call(const char* what, Party party, const std::function<void(Handle)>& issue);
    void call(const char* what, plan::GroupKind group, const std::function<void(Handle)>& issue) {
        call(what, party_of(group), issue);
    }
    void settle(Handle communicator, const std::function<std::string()>& doing);
    std::chrono::milliseconds allowed() const { return timeouts_.allowed(label()); }
    std::string told(const PendingCall& call) const;
    std::string of_party(Party party) const;
    // Why the run cannot go on; empty: it can.
    std::string fault();
    [[noreturn]] void fail(const std::string& reason);
    // The watch's.
    std::string look();
    std::string told_within(const std::string& reason);
    // That kernels have not ended for longer than they may, while no call is under way.
    std::optional<std::string> device_stands_still();
    // What the driver has held for longer than it may; empty: nothing.
    std::string held() const;
    void enter_driver(const std::string& doing, std::chrono::milliseconds allowed);
    void leave_driver();
    void seen();
    void check_plane();
    void abort_all();
    std::optional<Waiting> waits_in() const;

    CollectiveDriver& driver_;
    ControlPlane& plane_;
    const CallTimeouts timeouts_;
    const CommunicatorOptions options_;
    const std::function<Instant()> now_;
    const std::chrono::milliseconds held_for_;  // what is no call may take
    const bool overdue_ends_;                   // somebody ends the process
    void* barrier_word_;                        // device memory that nobody reads
    Stream stream_;
    OfRanks made_;                            // what all have
    Handle all_ = nullptr;                    // while others are split from it
    std::array<Handle, kParties> handles_{};  // null: the plan asks for none
    std::array<CollectiveDriver::Registration, kParties> known_{};  // null: no memory is
    std::array<std::int64_t, kParties> calls_{};
    PendingCalls pending_;
    std::string ended_;  // why, where this rank has ended the run

    // What the thread that issues is asking of the driver.
    struct Doing {
        std::string what;  // empty: nothing
        Instant since;
        std::chrono::milliseconds allowed{0};
    };
    IssuedOps* const issued_;
    mutable std::mutex mutex_;  // all above; held while the driver is asked
    mutable std::mutex doing_mutex_;
    Doing doing_;
    std::optional<Waiting> waited_;    // when the run ended; guarded as `doing_` is
    std::optional<IssueWatch> watch_;  // last, for it sees the rest
};

}  // namespace orrery::runtime
