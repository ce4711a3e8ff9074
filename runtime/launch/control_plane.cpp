#include "runtime/launch/control_plane.hpp"

#include <cstring>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

using Bytes = ControlPlane::Bytes;

void append(Bytes& to, std::span<const std::byte> from) {
    to.insert(to.end(), from.begin(), from.end());
}

template <typename Value>
std::span<const std::byte> bytes_of(const Value& value) {
    return std::as_bytes(std::span(&value, 1));
}

template <typename Value>
Value value_of(std::span<const std::byte> bytes) {
    Value value{};
    ORRERY_CHECK(bytes.size() == sizeof value, "a message of another size than was sent");
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

}  // namespace

std::vector<Bytes> ControlPlane::all_gather(std::span<const std::byte> mine) {
    std::vector<Bytes> parts = gather(mine);
    Bytes packed;  // each part after its size
    for (const Bytes& part : parts) {
        append(packed, bytes_of(static_cast<std::uint64_t>(part.size())));
        append(packed, part);
    }
    broadcast(packed);
    parts.resize(static_cast<std::size_t>(size_));
    std::span<const std::byte> rest = packed;
    for (Bytes& part : parts) {
        const auto size = value_of<std::uint64_t>(rest.first(sizeof(std::uint64_t)));
        rest = rest.subspan(sizeof size);
        part.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
        rest = rest.subspan(size);
    }
    return parts;
}

double ControlPlane::sum(double mine) {
    double total = 0;
    for (const Bytes& part : gather(bytes_of(mine)))
        total += value_of<double>(part);
    Bytes result(bytes_of(total).begin(), bytes_of(total).end());
    broadcast(result);
    return value_of<double>(result);
}

void ControlPlane::barrier() {
    gather({});
    Bytes nothing;
    broadcast(nothing);
}

}  // namespace orrery::runtime
