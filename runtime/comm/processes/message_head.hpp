// What a message between processes says of itself before its bytes: the call of the sender that it
// belongs to, so that the receiver can hold it against its own. It comes from a network: reading
// takes nothing for granted (tests/fuzz).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/call.hpp"

namespace orrery::runtime {

struct MessageHead {
    Call call;               // without its label …
    std::string label;       // … which is this, of what was received
    std::uint32_t part = 0;  // of a call that sends several times, counted from 0
    std::int64_t tag = 0;    // of a transfer
    std::int64_t bytes = 0;  // that follow

    // Of a call with its label; a long one is cut.
    std::vector<std::byte> encoded() const;
    // The call with its label, of what was received; for as long as this object lives.
    Call told() const {
        Call whole = call;
        whole.label = label;
        return whole;
    }
};

// Of every encoded head the first bytes, which say how long it is.
inline constexpr std::size_t kHeadStart = 8;
inline constexpr std::size_t kLongestHead = 304;

// The length of the head that begins so (kHeadStart bytes at least). Throws CommunicationError
// where none does.
std::size_t head_length(std::span<const std::byte> start);

// `bytes`: head_length of them. Throws CommunicationError for what no rank sends.
MessageHead read_head(std::span<const std::byte> bytes);

}  // namespace orrery::runtime
