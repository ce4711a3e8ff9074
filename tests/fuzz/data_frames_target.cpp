// What a rank of the run may send to another over TCP, whatever it is: the other's calls end with
// what was asked for or with a CommunicationError, take no more memory than they may, and write
// nothing but their own. The first byte says in which pieces the rest comes.
#include <array>
#include <chrono>
#include <numeric>

#include "plan/check.hpp"
#include "runtime/comm/processes/process_communicator.hpp"
#include "runtime/comm/processes/tcp_transport.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

constexpr std::int64_t kMostEarly = 4096;
constexpr std::uint64_t kMeeting = 1;

plan::Mesh two_ranks() {
    plan::Mesh mesh;
    mesh.tensor = 2;
    return mesh;
}

// A connection of rank 1 to a port of rank 0, as it greets.
class Peer {
  public:
    Peer() : listening_(runtime::listen_at("127.0.0.1", 0)) {
        const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        socket_ = runtime::connect_before("127.0.0.1", runtime::listening_port(listening_), soon);
        send(runtime::greeting_of({}, kMeeting, 1, 0));
    }

    // With the port, once.
    std::unique_ptr<runtime::Transport> transport() {
        runtime::TcpTransportOptions options;
        options.listening = std::move(listening_);
        options.addresses.resize(2);
        options.meeting = kMeeting;
        return runtime::tcp_transport(std::move(options));
    }
    void send(std::span<const std::byte> bytes) const { socket_.send_all(bytes); }

  private:
    runtime::Socket listening_;
    runtime::Socket socket_;
};

// Sends the next piece whenever all before was read.
class InPieces final : public runtime::Transport {
  public:
    InPieces(runtime::Transport& to, const Peer& peer, std::span<const std::byte> bytes,
             std::size_t piece)
        : to_(to), peer_(peer), bytes_(bytes), piece_(piece) {}

    std::string name() const override { return to_.name(); }
    void send(plan::Rank to, const runtime::MessageHead& head, const std::byte* body) override {
        to_.send(to, head, body);
    }
    bool sent(plan::Rank to) const override { return to_.sent(to); }
    std::optional<runtime::MessageHead> take_head(plan::Rank from) override {
        return to_.take_head(from);
    }
    void receive(plan::Rank from, std::byte* body) override { to_.receive(from, body); }
    bool received(plan::Rank from) const override { return to_.received(from); }
    bool progress(std::span<const plan::Rank> from, std::chrono::milliseconds) override {
        const std::chrono::milliseconds at_once(0);
        if (to_.progress(from, at_once)) return true;
        const std::size_t next = std::min(piece_, bytes_.size());
        peer_.send(bytes_.first(next));
        bytes_ = bytes_.subspan(next);
        return to_.progress(from, at_once) || next > 0;
    }
    void wake() override { to_.wake(); }
    std::string lost(plan::Rank peer) const override { return to_.lost(peer); }

  private:
    runtime::Transport& to_;
    const Peer& peer_;
    std::span<const std::byte> bytes_;
    std::size_t piece_;
};

// What both ranks do, one kind of call after another. Throws CommunicationError.
void calls(runtime::Communicator& communicator) {
    constexpr auto kTensor = plan::GroupKind::tensor;
    std::array<float, 4> sums = {1, 2, 3, 4}, gathered{};
    std::array<std::byte, 24> transferred{};
    communicator.set_label("qkv");
    communicator.all_reduce(kTensor, plan::DType::fp32, sums.data(), 4, runtime::Reduction::sum);
    const plan::Rank other = 1 - communicator.rank();
    const std::array transfers = {
        runtime::Transfer{other, runtime::Direction::receive, transferred.data(), 24, 7},
        runtime::Transfer{other, runtime::Direction::send, transferred.data(), 24, 7}};
    communicator.exchange(transfers);
    communicator.all_gather(kTensor, plan::DType::fp32, sums.data(), gathered.data(), 4);
    communicator.barrier(kTensor);
}

// What rank 1 says in these calls, as one that keeps it all; what it hears is what it says.
class Echo final : public runtime::Transport {
  public:
    std::string said;

    std::string name() const override { return "echo"; }
    void send(plan::Rank, const runtime::MessageHead& head, const std::byte* body) override {
        const auto bytes = head.encoded();
        said.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        said.append(reinterpret_cast<const char*>(body), static_cast<std::size_t>(head.bytes));
        heard_ = head;
        heard_->label = head.call.label;
        body_ = {body, body + head.bytes};
    }
    bool sent(plan::Rank) const override { return true; }
    std::optional<runtime::MessageHead> take_head(plan::Rank) override {
        return std::exchange(heard_, std::nullopt);
    }
    void receive(plan::Rank, std::byte* body) override {
        std::copy(body_.begin(), body_.end(), body);
    }
    bool received(plan::Rank) const override { return true; }
    bool progress(std::span<const plan::Rank>, std::chrono::milliseconds) override { return true; }
    void wake() override {}
    std::string lost(plan::Rank) const override { return ""; }

  private:
    std::optional<runtime::MessageHead> heard_;
    std::vector<std::byte> body_;
};

std::string honest() {
    Echo echo;
    runtime::ProcessCommunicatorOptions options;
    options.abort = [](std::string_view) {};
    runtime::ProcessCommunicator rank(two_ranks(), 1, echo, options);
    calls(rank);
    return echo.said;
}

void run(std::string_view input) {
    if (input.empty()) return;
    static const std::string kHonest = honest();
    Peer peer;
    const auto tcp = peer.transport();
    InPieces transport(*tcp, peer, std::as_bytes(std::span(input).subspan(1)),
                       static_cast<unsigned char>(input.front()) + std::size_t{1});
    runtime::ProcessCommunicatorOptions options;
    options.timeouts.usual = std::chrono::milliseconds(0);
    options.abort = [](std::string_view) {};
    options.most_early_bytes = kMostEarly;
    runtime::ProcessCommunicator communicator(two_ranks(), 0, transport, options);
    try {
        calls(communicator);
    } catch (const runtime::CommunicationError&) {
        ORRERY_CHECK(input.substr(1) != kHonest, "a rank of the run is understood");
    }
}

std::vector<std::string> seeds() {
    const std::string said = honest();
    return {'\xff' + said, '\0' + said, '\x0b' + said};
}

}  // namespace

const Target kDataFrames = {"data_frames", 1024, run, seeds};

}  // namespace orrery::fuzz
