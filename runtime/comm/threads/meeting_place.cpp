#include "runtime/comm/threads/meeting_place.hpp"

#include <thread>
#include <utility>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

std::string what(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "threw something that is no exception of the program";
    }
}

bool is_communication_error(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const CommunicationError&) {
        return true;
    } catch (...) {
        return false;
    }
}

}  // namespace

Gathering::Gathering(std::vector<plan::Rank> ranks)
    : members(std::move(ranks)), calls(members.size(), nullptr) {
    for (std::size_t parity = 0; parity < 2; ++parity) {
        sources[parity].assign(members.size(), nullptr);
        staged[parity].resize(members.size() * static_cast<std::size_t>(kStagedBytes));
    }
}

MeetingPlace::MeetingPlace(const plan::Mesh& mesh, const ThreadWorldOptions& options)
    : timeout_(options.timeout),
      spins_(mesh.ranks() * options.threads_per_rank <= std::thread::hardware_concurrency()),
      members_(static_cast<std::size_t>(mesh.ranks())) {
    for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind) {
        auto& of_rank = gathering_of_[kind];
        of_rank.assign(members_.size(), nullptr);
        for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank) {
            std::vector<plan::Rank> group = mesh.group(static_cast<plan::GroupKind>(kind), rank);
            if (group.size() == 1 || group.front() != rank) continue;
            gatherings_.push_back(std::make_unique<Gathering>(group));
            for (const plan::Rank other : group)
                of_rank[static_cast<std::size_t>(other)] = gatherings_.back().get();
        }
    }
}

Gathering& MeetingPlace::gathering(plan::GroupKind kind, plan::Rank rank) {
    return *gathering_of_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(rank)];
}

void MeetingPlace::abort(plan::Rank rank, std::string_view reason) {
    const Lock lock(mutex_);
    end({rank, std::string(reason), false, true},
        std::make_exception_ptr(
            CommunicationError(fmt::format("rank {} ended the run: {}", rank, reason))));
}

void MeetingPlace::left(plan::Rank rank, const std::exception_ptr& thrown) {
    const Lock lock(mutex_);
    member(rank).left = true;
    if (thrown) {
        const bool says_why = end_ && end_->aborted && end_->rank == rank;
        if (says_why && !is_communication_error(thrown)) cause_ = thrown;
        end({rank, what(thrown)}, thrown);
    }
    for (std::size_t other = 0; other < members_.size() && !end_; ++other)
        find_stuck(static_cast<plan::Rank>(other));
}

// The first end stands.
void MeetingPlace::end(End end, std::exception_ptr cause) {
    if (end_) return;
    end_ = std::move(end);
    cause_ = std::move(cause);
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
        at_end_.push_back(waiting_now(static_cast<plan::Rank>(rank)));
    wake_all();
}

std::optional<Waiting> MeetingPlace::waits_of(plan::Rank rank) {
    const Lock lock(mutex_);
    return end_ ? at_end_[static_cast<std::size_t>(rank)] : waiting_now(rank);
}

void MeetingPlace::end_found(plan::Rank rank, const std::string& fault) {
    end({rank, fault, true}, std::make_exception_ptr(CommunicationError(fault)));
}

void MeetingPlace::throw_ended(plan::Rank rank, const Call& call) const {
    if (end_->found && end_->rank == rank) throw CommunicationError(end_->reason);
    throw CommunicationError(fmt::format("rank {} cannot go on with {}: rank {} ended the run: {}",
                                         rank, describe(call), end_->rank, end_->reason));
}

}  // namespace orrery::runtime
