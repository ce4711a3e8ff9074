#include "runtime/launch/communicator_plane.hpp"

#include <algorithm>
#include <limits>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

constexpr auto kWorld = plan::GroupKind::world;

std::int32_t size_of(std::span<const std::byte> bytes) {
    ORRERY_CHECK(bytes.size() <= std::numeric_limits<std::int32_t>::max(), "a small message");
    return static_cast<std::int32_t>(bytes.size());
}

}  // namespace

CommunicatorPlane::CommunicatorPlane(Communicator& communicator)
    : ControlPlane(communicator.rank(), communicator.mesh().ranks()), communicator_(communicator) {}

void CommunicatorPlane::broadcast(Bytes& data) {
    communicator_.set_label("broadcast of the run");
    std::int32_t size = size_of(data);
    communicator_.broadcast(kWorld, plan::DType::i32, &size, 1, 0);
    data.resize(static_cast<std::size_t>(size));
    communicator_.broadcast(kWorld, plan::DType::u8, data.data(), size, 0);
}

std::vector<ControlPlane::Bytes> CommunicatorPlane::gather(std::span<const std::byte> mine) {
    communicator_.set_label("gathering of the run");
    const std::int32_t size = size_of(mine);
    const auto ranks = static_cast<std::size_t>(this->size());
    std::vector<std::int32_t> sizes(ranks);
    communicator_.all_gather(kWorld, plan::DType::i32, &size, sizes.data(), this->size());
    const auto largest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
    Bytes padded(mine.begin(), mine.end());
    padded.resize(largest);
    Bytes all(ranks * largest);
    communicator_.all_gather(kWorld, plan::DType::u8, padded.data(), all.data(),
                             static_cast<std::int64_t>(all.size()));
    if (rank() != 0) return {};
    std::vector<Bytes> parts;
    for (std::size_t r = 0; r < ranks; ++r) {
        const auto* const first = all.data() + r * largest;
        parts.emplace_back(first, first + sizes[r]);
    }
    return parts;
}

double CommunicatorPlane::sum(double mine) {
    communicator_.set_label("loss");
    communicator_.all_reduce(kWorld, plan::DType::fp64, &mine, 1);
    return mine;
}

void CommunicatorPlane::finish() {
    communicator_.set_label("end of the run");
    communicator_.barrier(kWorld);
}

}  // namespace orrery::runtime
