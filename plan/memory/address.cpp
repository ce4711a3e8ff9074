#include "plan/memory/address.hpp"

#include <algorithm>

#include "plan/memory/arena.hpp"

namespace orrery::plan {

Addresses::Addresses(const Plan& plan, const Program& program, Rank rank)
    : plan_(plan), program_(program) {
    for (const GroupKind kind : kSharingGroups) {
        const std::vector<Rank> ranks = plan.mesh.group(kind, rank);
        member_[static_cast<std::size_t>(kind)] =
            std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    }
}

Place Addresses::place(const Step& step, const BlockUse& use, TensorId id) const {
    const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
    const auto t = static_cast<std::size_t>(id);
    if (block.tensors[t].role == Role::scratch)
        return {step.beside_last ? program_.beside_scratch : program_.scratch,
                block.scratch_offsets[t]};
    const Slot& slot = use.slots[t];
    return {step.resident(slot), slot.offset + member(slot.share) * block.tensors[t].bytes()};
}

Place Addresses::place(const Transfer& transfer) const {
    return {transfer.resident, member(transfer.share) * transfer.bytes};
}

std::int64_t Addresses::at(const Place& place) const {
    return address_of(program_, place.resident) + place.offset;
}

}  // namespace orrery::plan
