// The communicator of a rank that is a thread: collectives read the other members' memory directly.
// Large reductions are shared: each member reduces its slice of the elements, then all copy.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "runtime/comm/communicator.hpp"
#include "runtime/comm/threads/meeting_place.hpp"

namespace orrery::runtime {

class ThreadCommunicator final : public Communicator {
  public:
    // `beside`: the same rank's at another place; must outlive the object. null: none.
    ThreadCommunicator(const plan::Mesh& mesh, plan::Rank rank, MeetingPlace& place,
                       ThreadCommunicator* beside = nullptr)
        : Communicator(mesh, rank), place_(place), beside_(beside) {}

    void abort(std::string_view reason) override {
        place_.abort(rank(), reason);
        if (beside_ != nullptr) beside_->abort(reason);
    }
    Communicator* beside() override { return beside_; }
    std::optional<Waiting> waiting() const override { return place_.waits_of(rank()); }

  private:
    // A call that all members have come to.
    struct Met {
        std::span<const void* const> sources;  // each member's memory, or a copy of it
        bool reads;                            // their memory: they must stay until all have read
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

    // `bytes` at `source` are what the other members read.
    Met meet(const Call& call, const void* source, std::int64_t bytes);
    void between(const Call& call);
    void leave(const Call& call, const Met& met);

    std::size_t own_index(plan::GroupKind group) const {
        return static_cast<std::size_t>(index_in(group));
    }

    MeetingPlace& place_;
    ThreadCommunicator* beside_;
    std::array<std::size_t, plan::kGroupKinds> calls_{};  // made so far
};

}  // namespace orrery::runtime
