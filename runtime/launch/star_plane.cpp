#include "runtime/launch/star_plane.hpp"

#include <utility>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

const char* called(MessageKind kind) {
    switch (kind) {
        case MessageKind::broadcast:
            return "broadcast";
        case MessageKind::gather:
            return "gather";
        case MessageKind::finish:
            return "finish";
        case MessageKind::abort:
            return "abort";
    }
    return "what is not known";
}

}  // namespace

// Another kind is two ranks that do not do the same.
ControlPlane::Bytes StarPlane::take(std::int64_t from, MessageKind kind) {
    Message message = inbox().take(from);
    if (message.kind != kind) {
        abort(fmt::format("it calls {} of the control plane, where {} calls {}", called(kind),
                          named(from), called(message.kind)));
        check();
    }
    return std::move(message.bytes);
}

void StarPlane::broadcast(Bytes& data) {
    check();
    if (rank() != 0) {
        data = take(0, MessageKind::broadcast);
        return;
    }
    for (std::int64_t peer = 1; peer < size(); ++peer)
        send(peer, MessageKind::broadcast, data);
}

std::vector<ControlPlane::Bytes> StarPlane::gather(std::span<const std::byte> mine) {
    check();
    if (rank() != 0) {
        send(0, MessageKind::gather, mine);
        return {};
    }
    std::vector<Bytes> all;
    all.emplace_back(mine.begin(), mine.end());
    for (std::int64_t peer = 1; peer < size(); ++peer)
        all.push_back(take(peer, MessageKind::gather));
    return all;
}

void StarPlane::finish() {
    check();
    if (rank() == 0) {
        for (std::int64_t peer = 1; peer < size(); ++peer)
            take(peer, MessageKind::finish);
        inbox().finish();  // first: those who are told may leave before others are
        for (std::int64_t peer = 1; peer < size(); ++peer)
            send(peer, MessageKind::finish, {});
    } else {
        send(0, MessageKind::finish, {});
        take(0, MessageKind::finish);
    }
    finished_ = true;
}

void StarPlane::abort(std::string_view reason) {
    const std::string told = fmt::format("{} ended the run: {}", named(rank()), reason);
    if (inbox().end(told)) spread(told);
}

void StarPlane::know_hosts(std::vector<std::string> hosts) {
    const std::lock_guard lock(hosts_mutex_);
    hosts_ = std::move(hosts);
}

std::string StarPlane::named(std::int64_t rank) const {
    const std::lock_guard lock(hosts_mutex_);
    const auto index = static_cast<std::size_t>(rank);
    if (index >= hosts_.size()) return fmt::format("rank {}", rank);
    return fmt::format("rank {} on {}", rank, hosts_[index]);
}

void StarPlane::leave() {
    if (!finished_) abort("it left before the others had finished");
}

}  // namespace orrery::runtime
