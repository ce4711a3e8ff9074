// Heads of messages between ranks: read, and written the same again, or a CommunicationError.
#include <cstring>

#include "plan/check.hpp"
#include "runtime/comm/processes/message_head.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

void run(std::string_view input) {
    const auto bytes = std::as_bytes(std::span(input.data(), input.size()));
    try {
        const std::size_t length = runtime::head_length(bytes);
        ORRERY_CHECK(length <= runtime::kLongestHead, "a head that no buffer holds");
        if (bytes.size() < length) return;
        runtime::MessageHead head = runtime::read_head(bytes.first(length));
        head.call.label = head.label;
        const auto again = head.encoded();
        ORRERY_CHECK(std::memcmp(again.data(), bytes.data(), length) == 0, "another head");
    } catch (const runtime::CommunicationError&) {
    }
}

std::vector<std::string> seeds() {
    std::vector<std::string> all;
    for (const auto operation : {runtime::Operation::all_reduce, runtime::Operation::exchange}) {
        runtime::MessageHead head;
        head.call = {
            operation, plan::GroupKind::tensor, plan::DType::bf16, 12, 0, runtime::Reduction::max,
            "qkv"};
        head.part = 2;
        head.tag = 16389;
        head.bytes = 24;
        const auto bytes = head.encoded();
        all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return all;
}

}  // namespace

const Target kMessageHead = {"message_head", 512, run, seeds};

}  // namespace orrery::fuzz
