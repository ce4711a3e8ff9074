#include "runtime/comm/processes/mpi_ranks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/mpi/mpi_functions.hpp"

namespace orrery::runtime {
namespace {

// A body up to this size travels with its head.
constexpr std::int64_t kWithHead = 2048;
// MPI counts in int.
constexpr std::int64_t kPiece = std::int64_t{1} << 30;
constexpr int kHeadTag = 1, kBodyTag = 2;

void expect_success(int code, const char* what) {
    if (code == 0) return;
    std::array<char, kLongestMpiError> text{};
    int length = 0;
    mpi()->error_text(code, text.data(), &length);
    throw CommunicationError(fmt::format(
        "{}: {}", what, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

// Requests of one message, in the order in which they were made.
class Requests {
  public:
    void add(MpiRequest request) { open_.push_back(request); }
    bool none() const { return open_.empty(); }

    // Whether one has ended.
    bool test() {
        bool ended = false;
        while (!open_.empty()) {
            int flag = 0;
            expect_success(mpi()->test(&open_.front(), &flag), "MPI_Test");
            if (flag == 0) return ended;
            open_.pop_front();
            ended = true;
        }
        return ended;
    }

  private:
    std::deque<MpiRequest> open_;
};

struct Sending {
    std::vector<std::byte> head;  // and a small body
    Requests requests;
};

struct Receiving {
    std::array<std::byte, kLongestHead + kWithHead> head;
    MpiRequest head_request;
    bool asked = false;      // for the next head …
    bool come = false;       // … which is there
    std::int64_t bytes = 0;  // of the message whose head was taken last …
    std::size_t body_at = 0;
    bool wanted = false;  // … whose body nobody has asked for
    Requests body;
};

class MpiTransport final : public Transport {
  public:
    explicit MpiTransport(bool spins) : spins_(spins) {}

    std::string name() const override { return "MPI"; }

    void send(plan::Rank to, const MessageHead& head, const std::byte* body) override {
        std::deque<Sending>& queue = sending_[to];
        Sending& message = queue.emplace_back();
        message.head = head.encoded();
        const bool with_head = head.bytes <= kWithHead;
        if (with_head && head.bytes > 0)
            message.head.insert(message.head.end(), body, body + head.bytes);
        isend(message, message.head.data(), static_cast<std::int64_t>(message.head.size()), to,
              kHeadTag);
        for (std::int64_t at = 0; !with_head && at < head.bytes; at += kPiece)
            isend(message, body + at, std::min(kPiece, head.bytes - at), to, kBodyTag);
        push(queue);
    }
    bool sent(plan::Rank to) const override {
        const auto found = sending_.find(to);
        return found == sending_.end() || found->second.empty();
    }

    std::optional<MessageHead> take_head(plan::Rank from) override {
        Receiving& peer = receiving_[from];
        if (!received(from)) return std::nullopt;
        if (!peer.asked) ask(peer, from);
        if (!peer.come) test_head(peer);
        if (!peer.come) return std::nullopt;
        const std::span<const std::byte> all(peer.head);
        peer.body_at = head_length(all);
        MessageHead head = read_head(all.first(peer.body_at));
        peer.bytes = head.bytes;
        peer.wanted = true;
        peer.asked = peer.come = false;
        return head;
    }

    void receive(plan::Rank from, std::byte* body) override {
        Receiving& peer = receiving_[from];
        peer.wanted = false;
        if (peer.bytes <= kWithHead) {
            if (peer.bytes > 0)
                std::memcpy(body, peer.head.data() + peer.body_at,
                            static_cast<std::size_t>(peer.bytes));
            return;
        }
        for (std::int64_t at = 0; at < peer.bytes; at += kPiece) {
            MpiRequest request;
            expect_success(
                mpi()->irecv(body + at, static_cast<int>(std::min(kPiece, peer.bytes - at)),
                             static_cast<int>(from), kBodyTag, &request),
                "MPI_Irecv");
            peer.body.add(request);
        }
        peer.body.test();
    }
    bool received(plan::Rank from) const override {
        const auto found = receiving_.find(from);
        return found == receiving_.end() || (!found->second.wanted && found->second.body.none());
    }
    std::string lost(plan::Rank) const override { return ""; }

    // MPI has nothing that one could sleep on: looks, for about what a sleep costs where each rank
    // has a core, then sleeps longer and longer. (To yield instead would give a busy core away for
    // milliseconds.)
    bool progress(std::span<const plan::Rank> from, std::chrono::milliseconds patience) override {
        const auto begin = std::chrono::steady_clock::now();
        std::chrono::microseconds pause(5);
        for (;;) {
            bool moved = false;
            for (auto& [rank, queue] : sending_)
                moved |= push(queue);
            for (const plan::Rank rank : from)
                moved |= pull(rank);
            if (moved) return true;
            const auto waited = std::chrono::steady_clock::now() - begin;
            if (woken_.exchange(false) || waited >= patience) return false;
            if (spins_ && waited < kSpinning) continue;
            std::this_thread::sleep_for(pause);
            pause = std::min(pause * 2, kLongestPause);
        }
    }
    void wake() override { woken_.store(true); }

    void finish() override { mpi()->finalize(); }

  private:
    static constexpr std::chrono::microseconds kSpinning{50};
    static constexpr std::chrono::microseconds kLongestPause{500};

    static void isend(Sending& message, const std::byte* data, std::int64_t bytes, plan::Rank to,
                      int tag) {
        MpiRequest request;
        expect_success(
            mpi()->isend(data, static_cast<int>(bytes), static_cast<int>(to), tag, &request),
            "MPI_Isend");
        message.requests.add(request);
    }

    static bool push(std::deque<Sending>& queue) {
        bool moved = false;
        while (!queue.empty()) {
            moved |= queue.front().requests.test();
            if (!queue.front().requests.none()) break;
            queue.pop_front();
        }
        return moved;
    }

    static void ask(Receiving& peer, plan::Rank from) {
        expect_success(mpi()->irecv(peer.head.data(), static_cast<int>(peer.head.size()),
                                    static_cast<int>(from), kHeadTag, &peer.head_request),
                       "MPI_Irecv");
        peer.asked = true;
    }

    static void test_head(Receiving& peer) {
        int flag = 0;
        expect_success(mpi()->test(&peer.head_request, &flag), "MPI_Test");
        peer.come = flag != 0;
    }

    bool pull(plan::Rank from) {
        Receiving& peer = receiving_[from];
        if (!peer.body.none()) return peer.body.test();
        if (!peer.asked || peer.come) return false;
        test_head(peer);
        return peer.come;
    }

    bool spins_;
    std::map<plan::Rank, std::deque<Sending>> sending_;
    std::map<plan::Rank, Receiving> receiving_;
    std::atomic<bool> woken_{false};
};

}  // namespace

bool has_mpi_messages() {
    return mpi() != nullptr;
}

void begin_mpi() {
    int supports = 0;
    expect_success(mpi()->begin(1, &supports), "MPI_Init_thread");
    if (supports == 0) throw CommunicationError("this MPI can be used by one thread only");
}

std::string told_by_rank_zero(const std::string& said) {
    std::string text = said;
    int size = static_cast<int>(text.size());
    expect_success(mpi()->broadcast(&size, sizeof size), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(size));
    expect_success(mpi()->broadcast(text.data(), size), "MPI_Bcast");
    return text;
}

std::unique_ptr<Transport> mpi_transport(bool spins) {
    return std::make_unique<MpiTransport>(spins);
}

}  // namespace orrery::runtime
