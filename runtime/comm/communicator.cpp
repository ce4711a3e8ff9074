#include "runtime/comm/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

std::size_t at(plan::GroupKind group) {
    return static_cast<std::size_t>(group);
}

}  // namespace

Communicator::Communicator(const plan::Mesh& mesh, plan::Rank rank) : mesh_(mesh), rank_(rank) {
    for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind) {
        groups_[kind] = mesh.group(static_cast<plan::GroupKind>(kind), rank);
        index_[kind] =
            std::find(groups_[kind].begin(), groups_[kind].end(), rank) - groups_[kind].begin();
    }
}

std::span<const plan::Rank> Communicator::members(plan::GroupKind group) const {
    return groups_[at(group)];
}

std::int64_t Communicator::index_in(plan::GroupKind group) const {
    return index_[at(group)];
}

void Communicator::copy_own(void* to, const void* from, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void Communicator::keep(void* to, const void* from, std::int64_t bytes) {
    if (to != from && bytes > 0) copy_own(to, from, bytes);
}

std::int64_t Communicator::share_bytes(plan::GroupKind group, plan::DType dtype,
                                       std::int64_t total) const {
    const auto size = static_cast<std::int64_t>(members(group).size());
    ORRERY_CHECK(total >= 0 && total % size == 0, "elements that the group cannot share evenly");
    return total / size * plan::size_bytes(dtype);
}

void Communicator::all_reduce(plan::GroupKind group, plan::DType dtype, void* data,
                              std::int64_t elements, Reduction reduction) {
    ORRERY_CHECK(elements >= 0, "a negative number of elements");
    if (!alone(group)) do_all_reduce(group, dtype, data, elements, reduction);
}

void Communicator::all_gather(plan::GroupKind group, plan::DType dtype, const void* mine, void* all,
                              std::int64_t total) {
    const std::int64_t bytes = share_bytes(group, dtype, total);
    if (alone(group))
        keep(all, mine, bytes);
    else
        do_all_gather(group, dtype, mine, all, total);
}

void Communicator::reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all,
                                  void* mine, std::int64_t total) {
    const std::int64_t bytes = share_bytes(group, dtype, total);
    if (alone(group))
        keep(mine, all, bytes);
    else
        do_reduce_scatter(group, dtype, all, mine, total);
}

void Communicator::all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all,
                              void* from_all, std::int64_t total) {
    const std::int64_t bytes = share_bytes(group, dtype, total);
    if (alone(group))
        keep(from_all, to_all, bytes);
    else
        do_all_to_all(group, dtype, to_all, from_all, total);
}

void Communicator::broadcast(plan::GroupKind group, plan::DType dtype, void* data,
                             std::int64_t elements, std::int64_t root) {
    ORRERY_CHECK(elements >= 0, "a negative number of elements");
    ORRERY_CHECK(root >= 0 && root < static_cast<std::int64_t>(members(group).size()),
                 "a root outside the group");
    if (!alone(group)) do_broadcast(group, dtype, data, elements, root);
}

void Communicator::exchange(std::span<const Transfer> transfers, plan::GroupKind group) {
    for (const Transfer& transfer : transfers) {
        ORRERY_CHECK(transfer.bytes >= 0, "a transfer of a negative size");
        ORRERY_CHECK(transfer.peer != rank_ && transfer.peer >= 0 && transfer.peer < mesh_.ranks(),
                     "a transfer to oneself or to no rank");
    }
    if (!transfers.empty()) do_exchange(transfers, group);
}

void Communicator::barrier(plan::GroupKind group) {
    if (!alone(group)) do_barrier(group);
}

}  // namespace orrery::runtime
