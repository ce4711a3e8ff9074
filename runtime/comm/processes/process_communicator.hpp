// The communicator of a rank that is a process: every collective as messages between pairs of
// ranks, whatever carries them. All sends and receives of a step are under way at once, so that no
// order among ranks can make two wait for each other, and no message is too large.
//
// The bits are those of ranks that are threads: an element is reduced by one member, from all
// members' addends in the order of the group (runtime/comm/reduce.hpp). Large reductions are
// shared: each member reduces its slice, then all gather; in chunks, so that what is held of other
// members' addends stays small.
//
// A message brings its sender's call. One that is not the receiver's ends the run, with both; so
// does a rank that dies or leaves (whoever hears of it calls end()), and a call in which nothing
// has moved for as long as it may take, with the rank, its host, the op and whom it waits for. A
// rank may be ahead of its peers by what they can take in: transfers do not wait for their
// receiver.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/call.hpp"
#include "runtime/comm/call_timeouts.hpp"
#include "runtime/comm/communicator.hpp"
#include "runtime/comm/processes/transport.hpp"

namespace orrery::runtime {

struct ProcessCommunicatorOptions {
    CallTimeouts timeouts;
    std::vector<std::string> hosts;  // by rank
    // Tells the other ranks that this one has ended the run; they, and this one, learn of it by
    // end(). From any thread.
    std::function<void(std::string_view reason)> abort;
    // Of transfers that came before they were asked for, so many may be held.
    std::int64_t most_early_bytes = std::int64_t{1} << 40;
};

class ProcessCommunicator final : public Communicator {
  public:
    // The transport must outlive it.
    ProcessCommunicator(const plan::Mesh& mesh, plan::Rank rank, Transport& transport,
                        ProcessCommunicatorOptions options);

    void abort(std::string_view reason) override { options_.abort(reason); }
    std::optional<Waiting> waiting() const override;

    // The run has ended for this reason: the call that this rank is in, and all that come later,
    // throw it. The first one stands. From any thread.
    void end(const std::string& reason);

    // "rank 3 on node07".
    std::string named(plan::Rank rank) const;

  private:
    // One message of a step of a call.
    struct Message {
        plan::Rank peer = 0;
        Direction direction = Direction::send;
        std::byte* data = nullptr;  // only read where it is sent
        std::int64_t bytes = 0;
        std::int64_t tag = 0;
        bool done = false;
    };
    // A transfer that came before it was asked for.
    struct Early {
        MessageHead head;
        std::unique_ptr<std::byte[]> bytes;  // not touched before they come
    };
    // What is under way with a rank.
    struct Peer {
        Message* receiving = nullptr;  // into its memory …
        bool holding = false;          // … or the last of `early`
        std::deque<Early> early;
    };
    // The call that this rank is in; for other threads.
    struct Current {
        Call call;
        bool called = false;
        std::vector<plan::Rank> awaited;
        std::chrono::steady_clock::time_point since;
    };

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

    void reduce_small(const Call& call, std::byte* data);
    void reduce_chunk(const Call& call, std::uint32_t part, std::byte* data, std::int64_t elements);

    // Sends to, and receives from, each other member: out(member) and in(member) are the places of
    // what goes to it and comes from it.
    template <typename Out, typename In>
    void with_all(const Call& call, std::uint32_t part, const Out& out, const In& in);
    std::int64_t size_of(plan::GroupKind group) const {
        return static_cast<std::int64_t>(members(group).size());
    }

    // steps.cpp: one step of a call, from its first message to the last.
    void perform(const Call& call, std::uint32_t part, std::span<Message> messages);
    void begin(const Call& call, std::uint32_t part, std::span<Message> messages);
    void take_early(Message& message);
    void take_in(const Call& call, std::uint32_t part, std::span<Message> messages);
    bool take_from(const Call& call, std::uint32_t part, plan::Rank rank,
                   std::span<Message> messages);
    void take_message(const Call& call, std::uint32_t part, plan::Rank rank, MessageHead head,
                      std::span<Message> messages);
    void hold(plan::Rank rank, MessageHead head);
    void accept_size(const Message& message, const MessageHead& head);
    bool all_sent(std::span<const Message> messages) const;
    void enter(const Call& call);
    void tell_awaited(std::span<const Message> messages);

    // stuck.cpp: what a call ends with that cannot go on.
    [[noreturn]] void throw_ended(const Call& call, std::span<const Message> messages);
    [[noreturn]] void fail(const std::string& fault);
    void find_lost(const Call& call, std::span<const Message> messages);
    std::string late(const Call& call, std::span<const Message> messages,
                     std::chrono::milliseconds waited) const;
    std::string mismatch(const Call& call, plan::Rank peer, const MessageHead& head) const;
    std::string in_full(const Call& call) const;
    std::string in_full(const Call& call, std::span<const Message> messages) const;
    std::vector<plan::Rank> open_peers(std::span<const Message> messages) const;
    std::string named_all(std::span<const plan::Rank> ranks) const;

    Transport& transport_;
    ProcessCommunicatorOptions options_;
    std::map<plan::Rank, Peer> peers_;
    std::vector<std::byte> addends_;  // of other members, in a reduction
    std::vector<Message> messages_;
    std::vector<plan::Rank> awaited_;  // in this step, ascending
    std::int64_t early_bytes_ = 0;     // that are held, of all ranks

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable came_;
    Current current_;
    std::string ended_;  // why; empty: it has not
    std::atomic<bool> has_ended_{false};
};

}  // namespace orrery::runtime
