#include "runtime/comm/processes/process_plane.hpp"

#include <utility>

namespace orrery::runtime {
namespace {

// Tags of plans are not negative.
constexpr std::int64_t kSizeTag = -1, kBytesTag = -2;

}  // namespace

ProcessPlane::ProcessPlane(Communicator& communicator, std::function<void()> finished)
    : ControlPlane(communicator.rank(), communicator.mesh().ranks()),
      communicator_(communicator),
      finished_(std::move(finished)) {}

void ProcessPlane::broadcast(Bytes& data) {
    communicator_.set_label("broadcast of the run");
    std::int64_t bytes = std::ssize(data);
    const auto pass_on = [&](void* from, std::int64_t count, std::int64_t tag) {
        transfers_.clear();
        for (plan::Rank peer = rank() == 0 ? 1 : 0; peer < (rank() == 0 ? size() : 1); ++peer)
            transfers_.push_back(
                {peer, rank() == 0 ? Direction::send : Direction::receive, from, count, tag});
        communicator_.exchange(transfers_);
    };
    pass_on(&bytes, sizeof bytes, kSizeTag);
    data.resize(static_cast<std::size_t>(bytes));
    pass_on(data.data(), bytes, kBytesTag);
}

std::vector<ControlPlane::Bytes> ProcessPlane::gather(std::span<const std::byte> mine) {
    communicator_.set_label("gathering of the run");
    if (rank() != 0) {
        std::int64_t bytes = std::ssize(mine);
        const Transfer both[] = {
            {0, Direction::send, &bytes, sizeof bytes, kSizeTag},
            {0, Direction::send, const_cast<std::byte*>(mine.data()), bytes, kBytesTag}};
        communicator_.exchange(both);
        return {};
    }
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(size()));
    transfers_.clear();
    for (plan::Rank peer = 1; peer < size(); ++peer)
        transfers_.push_back({peer, Direction::receive, &bytes[static_cast<std::size_t>(peer)],
                              sizeof(std::int64_t), kSizeTag});
    communicator_.exchange(transfers_);
    std::vector<Bytes> all = {Bytes(mine.begin(), mine.end())};
    transfers_.clear();
    for (plan::Rank peer = 1; peer < size(); ++peer) {
        const std::int64_t count = bytes[static_cast<std::size_t>(peer)];
        all.emplace_back(static_cast<std::size_t>(count));
        transfers_.push_back({peer, Direction::receive, all.back().data(), count, kBytesTag});
    }
    communicator_.exchange(transfers_);
    return all;
}

void ProcessPlane::finish() {
    barrier();
    finished_();
}

}  // namespace orrery::runtime
