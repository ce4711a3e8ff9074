#include "runtime/launch/handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

constexpr std::array<char, 8> kMagic = {'o', 'r', 'r', 'e', 'r', 'y', '\n', '\0'};
constexpr std::size_t kLongestFault = 4096;

// Later versions keep the first two members. Bytes as x86-64 and ARM have them.
struct Hello {
    std::array<char, 8> magic = kMagic;
    std::uint64_t version = kMeetingVersion;
    std::int64_t rank = 0;
    std::int64_t size = 0;
    Nonce nonce{};
};
static_assert(sizeof(Hello) == 48);

struct Challenge {
    Nonce nonce{};
    Mark mark{};
};
static_assert(sizeof(Challenge) == 48);

void require_sodium() {
    ORRERY_CHECK(sodium_init() >= 0, "libsodium can be initialised");
}

// Who makes it stands first.
struct Marked {
    std::array<char, 8> by{};
    Nonce nonce_of_rank{}, nonce_of_zero{};
    std::int64_t rank = 0, size = 0;
};
static_assert(sizeof(Marked) == 56);

Mark mark_of(const RunKey& key, const Marked& marked) {
    require_sodium();
    Mark mark{};
    crypto_generichash(reinterpret_cast<unsigned char*>(mark.data()), mark.size(),
                       reinterpret_cast<const unsigned char*>(&marked), sizeof marked,
                       reinterpret_cast<const unsigned char*>(key.data()), key.size());
    return mark;
}

bool same(const Mark& one, const Mark& other) {
    return sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

constexpr std::array<char, 8> kByZero = {'r', 'a', 'n', 'k', ' ', '0'},
                              kByRank = {'r', 'a', 'n', 'k'}, kByPeer = {'p', 'e', 'e', 'r'};

struct Greeting {
    std::array<char, 8> magic{};
    std::int64_t from = 0, to = 0;
    Mark mark{};
};
static_assert(sizeof(Greeting) == kGreetingBytes);
constexpr std::array<char, 8> kGreetingMagic = {'o', 'r', 'r', 'e', 'r', 'y', 'm', '2'};

template <typename Whole>
Whole read_as(std::span<const std::byte> bytes) {
    ORRERY_CHECK(bytes.size() == sizeof(Whole), "as many bytes as are wanted");
    Whole whole;
    std::memcpy(&whole, bytes.data(), sizeof whole);
    return whole;
}

template <typename Whole>
std::vector<std::byte> copied_bytes(const Whole& whole) {
    const auto bytes = std::as_bytes(std::span(&whole, 1));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

RunKey run_key(const std::string& identity, const std::string& secret) {
    require_sodium();
    RunKey key{};
    crypto_generichash_state state;
    crypto_generichash_init(&state, nullptr, 0, key.size());
    // Lengths first, so that no two pairs are the same bytes.
    for (const std::string& each : {secret, identity}) {
        const std::uint64_t length = each.size();
        crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&length),
                                  sizeof length);
        crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(each.data()),
                                  each.size());
    }
    crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(key.data()), key.size());
    return key;
}

Nonce new_nonce() {
    require_sodium();
    Nonce nonce{};
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
}

std::string new_run_secret() {
    std::string digits;
    for (const std::byte byte : new_nonce())
        digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return digits;
}

std::size_t Arrival::wanted() const {
    if (state_ == State::hello) return sizeof(Hello);
    return state_ == State::proof ? sizeof(Mark) : 0;
}

std::vector<std::byte> Arrival::take(std::span<const std::byte> bytes) {
    if (state_ == State::hello) {
        const auto hello = read_as<Hello>(bytes);
        state_ = State::stranger;
        if (hello.magic != kMagic) return {};
        if (hello.version != kMeetingVersion) {
            other_version_ = hello.version;
            return {};
        }
        rank_ = hello.rank;
        size_ = hello.size;
        theirs_ = hello.nonce;
        state_ = State::proof;
        return copied_bytes(Challenge{own_, mark_of(key_, {kByZero, theirs_, own_, rank_, size_})});
    }
    ORRERY_CHECK(state_ == State::proof, "bytes are wanted");
    const bool proven =
        same(read_as<Mark>(bytes), mark_of(key_, {kByRank, theirs_, own_, rank_, size_}));
    state_ = proven ? State::proven : State::stranger;
    return {};
}

std::vector<std::byte> Approach::hello() const {
    Hello hello;
    hello.rank = rank_;
    hello.size = size_;
    hello.nonce = own_;
    return copied_bytes(hello);
}

std::size_t Approach::wanted() const {
    switch (state_) {
        case State::challenge:
            return sizeof(Challenge);
        case State::length:
            return sizeof(std::uint64_t);
        case State::text:
            return text_bytes_;
        case State::welcome:
        case State::refused:
        case State::stranger:
            break;
    }
    return 0;
}

std::vector<std::byte> Approach::take(std::span<const std::byte> bytes) {
    switch (state_) {
        case State::challenge: {
            const auto challenge = read_as<Challenge>(bytes);
            const Mark expected = mark_of(key_, {kByZero, own_, challenge.nonce, rank_, size_});
            state_ = same(challenge.mark, expected) ? State::length : State::stranger;
            if (state_ == State::stranger) return {};
            return copied_bytes(mark_of(key_, {kByRank, own_, challenge.nonce, rank_, size_}));
        }
        case State::length:
            text_bytes_ = read_as<std::uint64_t>(bytes);
            state_ = text_bytes_ == 0 ? State::welcome : State::text;
            if (text_bytes_ > kLongestFault) state_ = State::stranger;
            return {};
        case State::text:
            refusal_ = printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
            state_ = State::refused;
            return {};
        case State::welcome:
        case State::refused:
        case State::stranger:
            break;
    }
    ORRERY_CHECK(false, "bytes are wanted");
    return {};
}

std::vector<std::byte> answer_of(const std::string& fault) {
    const std::uint64_t length = std::min(fault.size(), kLongestFault);
    std::vector<std::byte> answer(sizeof length + length);
    std::memcpy(answer.data(), &length, sizeof length);
    std::memcpy(answer.data() + sizeof length, fault.data(), length);
    return answer;
}

std::array<std::byte, kGreetingBytes> greeting_of(const RunKey& key, std::uint64_t meeting,
                                                  std::int64_t from, std::int64_t to) {
    Marked marked{kByPeer, {}, {}, from, to};
    std::memcpy(marked.nonce_of_rank.data(), &meeting, sizeof meeting);
    const Greeting greeting{kGreetingMagic, from, to, mark_of(key, marked)};
    std::array<std::byte, kGreetingBytes> bytes{};
    std::memcpy(bytes.data(), &greeting, sizeof greeting);
    return bytes;
}

std::int64_t greeting_rank(std::span<const std::byte, kGreetingBytes> greeting, const RunKey& key,
                           std::uint64_t meeting, std::int64_t to) {
    const auto from = read_as<Greeting>(greeting).from;
    const auto expected = greeting_of(key, meeting, from, to);
    return sodium_memcmp(expected.data(), greeting.data(), expected.size()) == 0 ? from : -1;
}

std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return c != '\n' && (static_cast<unsigned char>(c) < ' ' || c == '\x7f'); },
        '?');
    return text;
}

}  // namespace orrery::runtime
