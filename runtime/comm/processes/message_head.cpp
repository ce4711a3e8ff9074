#include "runtime/comm/processes/message_head.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace orrery::runtime {
namespace {

// Bytes as x86-64 and ARM have them. The first three members never change.
struct Encoded {
    std::uint32_t magic = kMagic;
    std::uint16_t version = 1;
    std::uint16_t length = 0;  // of the head, its label included
    std::uint8_t operation = 0;
    std::uint8_t group = 0;
    std::uint8_t dtype = 0;
    std::uint8_t reduction = 0;
    std::uint32_t part = 0;
    std::int64_t elements = 0;
    std::int64_t root = 0;
    std::int64_t tag = 0;
    std::int64_t bytes = 0;

    static constexpr std::uint32_t kMagic = 0x7972726f;  // "orry"
};
static_assert(sizeof(Encoded) == 48);
static_assert(kLongestHead == sizeof(Encoded) + 256);

constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;

Encoded start_of(std::span<const std::byte> bytes) {
    Encoded encoded;
    std::memcpy(&encoded, bytes.data(), std::min(bytes.size(), sizeof encoded));
    return encoded;
}

[[noreturn]] void refuse() {
    throw CommunicationError("a message came that no rank of this program sends");
}

}  // namespace

std::vector<std::byte> MessageHead::encoded() const {
    Encoded out;
    const std::string_view name = call.label.substr(0, kLongestHead - sizeof out);
    out.length = static_cast<std::uint16_t>(sizeof out + name.size());
    out.operation = static_cast<std::uint8_t>(call.operation);
    out.group = static_cast<std::uint8_t>(call.group);
    out.dtype = static_cast<std::uint8_t>(call.dtype);
    out.reduction = static_cast<std::uint8_t>(call.reduction);
    out.part = part;
    out.elements = call.elements;
    out.root = call.root;
    out.tag = tag;
    out.bytes = bytes;
    std::vector<std::byte> all(out.length);
    std::memcpy(all.data(), &out, sizeof out);
    if (!name.empty()) std::memcpy(all.data() + sizeof out, name.data(), name.size());
    return all;
}

std::size_t head_length(std::span<const std::byte> start) {
    const Encoded encoded = start_of(start);
    if (start.size() < kHeadStart || encoded.magic != Encoded::kMagic || encoded.version != 1 ||
        encoded.length < sizeof encoded || encoded.length > kLongestHead)
        refuse();
    return encoded.length;
}

MessageHead read_head(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(Encoded) || head_length(bytes) != bytes.size()) refuse();
    const Encoded in = start_of(bytes);
    if (in.operation > static_cast<std::uint8_t>(Operation::exchange) ||
        in.group >= plan::kGroupKinds ||
        in.dtype > static_cast<std::uint8_t>(plan::DType::fp8_e5m2) ||
        in.reduction > static_cast<std::uint8_t>(Reduction::max) || in.elements < 0 ||
        in.bytes < 0 || in.bytes > kMostBytes)
        refuse();
    MessageHead head;
    head.call.operation = static_cast<Operation>(in.operation);
    head.call.group = static_cast<plan::GroupKind>(in.group);
    head.call.dtype = static_cast<plan::DType>(in.dtype);
    head.call.reduction = static_cast<Reduction>(in.reduction);
    head.call.elements = in.elements;
    head.call.root = in.root;
    head.part = in.part;
    head.tag = in.tag;
    head.bytes = in.bytes;
    const auto label = bytes.subspan(sizeof in);
    head.label.assign(reinterpret_cast<const char*>(label.data()), label.size());
    return head;
}

}  // namespace orrery::runtime
