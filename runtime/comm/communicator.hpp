// What a rank says to other ranks, whatever carries it: the collectives of a plan over the groups
// of its mesh, and transfers between two ranks. An executor sees this and no implementation.
//
// One object per rank. Calls block, and come from one thread of the rank at a time (its
// communication thread during a step, its main thread between steps); abort() alone may come from
// any thread at any time. What is to go on beside them has a line of its own (beside()). The
// members of a group make the same calls on it in the same order; groups may be used in any order
// that some sequential order of all calls explains.
//
// Sums are canonical (reduce.hpp): each element is added up in pairs in the order of ranks in the
// group, whatever the size of the group's messages and whenever its members come, so that results
// depend on nothing but the addends. fp32 and fp64 add in themselves; bf16 and fp16 add in fp32 and
// are rounded once, at the end; i32 and u8 wrap around.
//
// Counts are in elements of `dtype`. Memory belongs to the caller, and is touched by nobody once a
// call has returned or thrown. Every call throws CommunicationError once the run has ended (see
// abort); what it would have written is unspecified then. Calls on a group of one rank need nobody
// and return at once. Sizes that no plan can hold (negative, not a multiple of the group, a
// transfer to oneself) are faults of ours: ORRERY_CHECK.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "plan/ir/mesh.hpp"
#include "runtime/comm/communication_error.hpp"

namespace orrery::runtime {

// max: a NaN wins over every number.
enum class Reduction : std::uint8_t { sum, max };

enum class Direction : std::uint8_t { send, receive };

// One message to or from another rank. It meets the peer's opposite transfer with the same tag;
// those of one peer, direction and tag meet in the order of their issue. Both sides must name as
// many bytes.
struct Transfer {
    plan::Rank peer = 0;
    Direction direction = Direction::send;
    void* data = nullptr;  // only read where it is sent
    std::int64_t bytes = 0;
    std::int64_t tag = 0;
};

// What a rank waits for, of others.
struct Waiting {
    std::string call;  // "all_reduce of 12 fp32 for \"qkv\" in its tensor group (ranks 0 1)"
    std::vector<plan::Rank> ranks;
    double seconds = 0;  // since when
};

class Communicator {
  public:
    Communicator(const plan::Mesh& mesh, plan::Rank rank);
    virtual ~Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    plan::Rank rank() const { return rank_; }
    const plan::Mesh& mesh() const { return mesh_; }
    // Ranks of this rank's group, ascending, and where this rank stands among them.
    std::span<const plan::Rank> members(plan::GroupKind group) const;
    std::int64_t index_in(plan::GroupKind group) const;

    // What the rank is doing, for messages: the label of an op. The text must live until the next
    // set_label has returned.
    void set_label(std::string_view label) { label_ = label; }
    std::string_view label() const { return label_; }

    // data: `elements` of each member, replaced by their sum (or largest).
    void all_reduce(plan::GroupKind group, plan::DType dtype, void* data, std::int64_t elements,
                    Reduction reduction = Reduction::sum);

    // all: `total` elements, filled with the members' `mine` in the order of the group, total ÷
    // size of the group each. `mine` is at its own place in `all`, or apart from it.
    void all_gather(plan::GroupKind group, plan::DType dtype, const void* mine, void* all,
                    std::int64_t total);

    // mine: this member's share, total ÷ size of the group elements, of the sum of everybody's
    // `all`. `mine` is at its own place in `all`, or apart from it. The rest of `all` stays as it
    // is.
    void reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all, void* mine,
                        std::int64_t total);

    // Both are `total` elements in as many parts as there are members: part j of `to_all` goes to
    // member j, part i of `from_all` is what member i had for this one. The two do not overlap.
    void all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all, void* from_all,
                    std::int64_t total);

    // data: of the member with index `root`, copied to the others.
    void broadcast(plan::GroupKind group, plan::DType dtype, void* data, std::int64_t elements,
                   std::int64_t root);

    // Issues all transfers at once and returns when all are done. Rendezvous: a transfer begins
    // when both sides have come to it; the order among `transfers` of different peers or tags is no
    // matter. All peers are in `group`, with whose communicator they travel.
    void exchange(std::span<const Transfer> transfers,
                  plan::GroupKind group = plan::GroupKind::world);

    // Returns once every member has come.
    void barrier(plan::GroupKind group);

    // Another communicator of the same ranks, whose calls do not wait for this one's, and which
    // ends when this one does; null: there is none. It lives as long as this one.
    virtual Communicator* beside() { return nullptr; }

    // Ends the run: the calls that other ranks are in, and all that come later, throw
    // CommunicationError with this rank and `reason`. The first reason stands. Returns at once; a
    // thread that calls it while another one of its rank communicates must still join that one
    // before it frees memory.
    virtual void abort(std::string_view reason) = 0;

    // The call that this rank is in and whom it waits for there; none: it is in no call. Once the
    // run has ended, what it waited for then. From any thread.
    virtual std::optional<Waiting> waiting() const { return std::nullopt; }

  private:
    // As the public ones, for groups of at least two; sizes have been checked.
    virtual void do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data,
                               std::int64_t elements, Reduction reduction) = 0;
    virtual void do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine,
                               void* all, std::int64_t total) = 0;
    virtual void do_reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all,
                                   void* mine, std::int64_t total) = 0;
    virtual void do_all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all,
                               void* from_all, std::int64_t total) = 0;
    virtual void do_broadcast(plan::GroupKind group, plan::DType dtype, void* data,
                              std::int64_t elements, std::int64_t root) = 0;
    virtual void do_exchange(std::span<const Transfer> transfers, plan::GroupKind group) = 0;
    virtual void do_barrier(plan::GroupKind group) = 0;
    // What a group of one does instead: the two do not overlap.
    virtual void copy_own(void* to, const void* from, std::int64_t bytes);

    void keep(void* to, const void* from, std::int64_t bytes);
    bool alone(plan::GroupKind group) const { return members(group).size() == 1; }
    std::int64_t share_bytes(plan::GroupKind group, plan::DType dtype, std::int64_t total) const;

    plan::Mesh mesh_;
    plan::Rank rank_;
    std::array<std::vector<plan::Rank>, plan::kGroupKinds> groups_;
    std::array<std::int64_t, plan::kGroupKinds> index_{};
    std::string_view label_;
};

}  // namespace orrery::runtime
