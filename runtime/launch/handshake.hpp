// How two processes prove to each other that they are of one run, before either believes a number
// that the other says. Both know the run's key; neither sends it.
//
//   rank n   hello      magic, version, rank, size, nonce                    48 bytes
//   rank 0   challenge  its nonce, and the key's mark of both nonces         48 bytes
//   rank n   proof      the key's mark of the same, the other way round      32 bytes
//   rank 0   answer     once all have come: length of a text, the text       0: welcome
//
// A mark is BLAKE2b of 256 bits, keyed (libsodium's crypto_generichash), of who makes it, both
// nonces, rank and size: it cannot be used in another connection, nor sent back to who made it.
// Whoever cannot make one learns nothing and is no part of the run. A connection between two ranks
// begins with such a mark too, of both and of the meeting's number, which all of them have by then.
// Both sides are functions of the bytes that come, so that a fuzzer and an exhaustive test can
// drive them without a network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace orrery::runtime {

using Nonce = std::array<std::byte, 16>;
using Mark = std::array<std::byte, 32>;
using RunKey = std::array<std::byte, 32>;

// `identity`: what launchers call the run, the same on all its ranks and another for every other
// run that could meet it. `secret`: may be empty; then only who knows the identity can join.
RunKey run_key(const std::string& identity, const std::string& secret);

Nonce new_nonce();

// 32 hexadecimal digits, for ranks that this process starts or tells.
std::string new_run_secret();

inline constexpr std::uint64_t kMeetingVersion = 2;

// Rank 0's side of a connection.
class Arrival {
  public:
    enum class State : std::uint8_t { hello, proof, proven, stranger };

    Arrival(const RunKey& key, const Nonce& own) : key_(key), own_(own) {}

    State state() const { return state_; }
    // How many bytes are to come next; 0: none.
    std::size_t wanted() const;
    // Takes so many, and returns what is to be sent; nothing to a stranger.
    std::vector<std::byte> take(std::span<const std::byte> bytes);

    // As it says; true only once it is proven.
    std::int64_t rank() const { return rank_; }
    std::int64_t size() const { return size_; }
    // Of another version of this protocol; 0: of this one, or of none.
    std::uint64_t other_version() const { return other_version_; }

  private:
    RunKey key_;
    Nonce own_;
    Nonce theirs_{};
    State state_ = State::hello;
    std::int64_t rank_ = 0;
    std::int64_t size_ = 0;
    std::uint64_t other_version_ = 0;
};

// The other side: of a rank that comes to rank 0.
class Approach {
  public:
    enum class State : std::uint8_t { challenge, length, text, welcome, refused, stranger };

    Approach(const RunKey& key, const Nonce& own, std::int64_t rank, std::int64_t size)
        : key_(key), own_(own), rank_(rank), size_(size) {}

    std::vector<std::byte> hello() const;

    State state() const { return state_; }
    std::size_t wanted() const;
    std::vector<std::byte> take(std::span<const std::byte> bytes);

    // Why it was refused, in characters that a terminal may be shown.
    const std::string& refusal() const { return refusal_; }

  private:
    RunKey key_;
    Nonce own_;
    std::int64_t rank_;
    std::int64_t size_;
    State state_ = State::challenge;
    std::uint64_t text_bytes_ = 0;
    std::string refusal_;
};

// Rank 0's last word to one that is proven; empty: welcome.
std::vector<std::byte> answer_of(const std::string& fault);

// How a connection begins that rank `from` makes to rank `to`: magic, both, and the key's mark of
// them and of the meeting's number, a random one that rank 0 has told the others.
inline constexpr std::size_t kGreetingBytes = 56;
std::array<std::byte, kGreetingBytes> greeting_of(const RunKey& key, std::uint64_t meeting,
                                                  std::int64_t from, std::int64_t to);

// Who greets rank `to` so; −1: nobody of this meeting.
std::int64_t greeting_rank(std::span<const std::byte, kGreetingBytes> greeting, const RunKey& key,
                           std::uint64_t meeting, std::int64_t to);

// Control characters, but for line ends, as '?'.
std::string printable(std::string text);

}  // namespace orrery::runtime
