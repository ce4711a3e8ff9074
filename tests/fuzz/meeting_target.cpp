// What comes to the meeting of a run's ranks, to rank 0 and from it: strangers are shown out,
// nobody is asked for more bytes than a hello or a refusal has, and only the key's marks prove
// anything.
#include "plan/check.hpp"
#include "runtime/launch/handshake.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

constexpr std::size_t kMostWanted = 4096;  // the longest refusal
constexpr std::int64_t kRank = 3, kSize = 8;

runtime::Nonce nonce_of(unsigned char byte) {
    runtime::Nonce nonce;
    nonce.fill(std::byte{byte});
    return nonce;
}

const runtime::RunKey& key() {
    static const runtime::RunKey kKey = runtime::run_key("run", "secret");
    return kKey;
}

runtime::Arrival arrival() {
    return {key(), nonce_of(1)};
}
runtime::Approach approach() {
    return {key(), nonce_of(2), kRank, kSize};
}

// Feeds as many bytes as are wanted until they end or none are; returns what was sent.
template <typename Side>
std::vector<std::byte> feed(Side& side, std::span<const std::byte> bytes) {
    std::vector<std::byte> sent;
    while (side.wanted() > 0 && side.wanted() <= bytes.size()) {
        ORRERY_CHECK(side.wanted() <= kMostWanted, "a bounded number of bytes is wanted");
        const std::size_t taken = side.wanted();
        const auto reply = side.take(bytes.first(taken));
        sent.insert(sent.end(), reply.begin(), reply.end());
        bytes = bytes.subspan(taken);
    }
    return sent;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The honest conversation: what each side hears from the other.
struct Conversation {
    std::vector<std::byte> to_zero, to_rank;
};

Conversation conversation(const std::string& fault) {
    runtime::Arrival zero = arrival();
    runtime::Approach rank = approach();
    Conversation all;
    all.to_zero = rank.hello();
    all.to_rank = feed(zero, all.to_zero);
    const auto proof = feed(rank, all.to_rank);
    all.to_zero.insert(all.to_zero.end(), proof.begin(), proof.end());
    const auto answer = runtime::answer_of(fault);
    all.to_rank.insert(all.to_rank.end(), answer.begin(), answer.end());
    return all;
}

void run(std::string_view input) {
    static const Conversation kHonest = conversation("");
    const auto bytes = std::as_bytes(std::span(input.data(), input.size()));
    runtime::Arrival zero = arrival();
    feed(zero, bytes);
    // A nonce of one's own and the key are needed for a proof, so only the honest bytes are one.
    if (zero.state() == runtime::Arrival::State::proven)
        ORRERY_CHECK(text_of(bytes.first(kHonest.to_zero.size())) == text_of(kHonest.to_zero),
                     "a stranger is not proven");
    runtime::Approach rank = approach();
    feed(rank, bytes);
    using State = runtime::Approach::State;
    if (rank.state() != State::challenge && rank.state() != State::stranger)
        ORRERY_CHECK(text_of(bytes.first(48)) == text_of(std::span(kHonest.to_rank).first(48)),
                     "a stranger is not taken for rank 0");
    for (const char c : rank.refusal())
        ORRERY_CHECK(c == '\n' || static_cast<unsigned char>(c) >= ' ', "text for a terminal");
}

std::vector<std::string> seeds() {
    const Conversation welcome = conversation(""), refused = conversation("rank 3 is here already");
    return {text_of(welcome.to_zero), text_of(welcome.to_rank), text_of(refused.to_rank)};
}

}  // namespace

const Target kMeeting = {"meeting", 4352, run, seeds};

}  // namespace orrery::fuzz
