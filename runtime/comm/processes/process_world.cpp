#include "runtime/comm/processes/process_world.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/comm/processes/mpi_ranks.hpp"
#include "runtime/comm/processes/tcp_transport.hpp"
#include "runtime/launch/handshake.hpp"
#include "runtime/launch/tcp_plane.hpp"
#include "runtime/mpi/mpi_functions.hpp"
#include "runtime/physical_memory.hpp"

namespace orrery::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWatch(250);
// What a rank has to leave its world when the run has ended elsewhere, and when it has ended it
// itself and has an error of its own to tell. mpirun kills one second after it has asked.
constexpr milliseconds kLeaveTime(500), kOwnLeaveTime(10'000);

std::string own_host_name() {
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) != 0) return "an unnamed host";
    return name.data();
}

// Of this machine, the loopback left out, as numbers.
std::vector<std::string> own_addresses() {
    std::vector<std::string> all;
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) return all;
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
        std::array<char, NI_MAXHOST> text{};
        if (getnameinfo(each->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0 &&
            std::string_view(text.data()).rfind("127.", 0) != 0)
            all.emplace_back(text.data());
    }
    freeifaddrs(first);
    return all;
}

// Where rank 0 is, from itself: a port, what its run alone knows, then the names and addresses of
// its host.
std::string meeting_point(const Launch& launch) {
    if (launch.rank != 0) return "";
    const bool one_node = launch.local_size == launch.size;
    const Socket free = listen_at(one_node ? "127.0.0.1" : "0.0.0.0", 0);
    std::string text = fmt::format("{} {}", listening_port(free), new_run_secret());
    if (one_node) return text + " 127.0.0.1";
    for (const std::string& address : own_addresses())
        text += " " + address;
    return text + " " + own_host_name();
}

// The first of rank 0's addresses that takes a connection.
std::string reachable(const std::vector<std::string>& hosts, std::int64_t port) {
    const auto until = std::chrono::steady_clock::now() + kMeetingTimeout;
    for (;;)
        for (const std::string& host : hosts) {
            const auto soon = std::chrono::steady_clock::now() + milliseconds(1000);
            try {
                connect_before(host, port, soon);
                return host;
            } catch (const CommunicationError&) {
                if (soon >= until) throw;
            }
        }
}

// Under mpirun rank 0 says through MPI where it waits: a port that is free, not one that is
// guessed.
Launch found_through_mpi(const Launch& launch) {
    Launch found = launch;
    std::istringstream words(told_by_rank_zero(meeting_point(launch)));
    words >> found.port >> found.secret;
    std::vector<std::string> hosts;
    for (std::string host; words >> host;)
        hosts.push_back(host);
    ORRERY_CHECK(!hosts.empty(), "rank 0 has an address");
    found.host =
        launch.rank == 0 || hosts.size() == 1 ? hosts.front() : reachable(hosts, found.port);
    if (launch.rank == 0 && hosts.size() > 1) found.host = "0.0.0.0";
    return found;
}

bool uses_mpi(const Launch& launch, Carrier carrier) {
    if (carrier == Carrier::tcp) return false;
    const bool can = launch.launcher == Launcher::open_mpi && has_mpi_messages();
    if (carrier == Carrier::mpi && !can)
        throw LaunchError(has_mpi_messages()
                              ? "messages over MPI are for ranks that Open MPI's mpirun has started"
                              : "MPI is not there: " + why_no_mpi() +
                                    " (on Debian: apt-get install libopenmpi-dev, then build "
                                    "again)");
    return can;
}

std::uint64_t random_number() {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
}

// What each rank tells the others of itself; rank 0 also which meeting it is.
struct Card {
    std::array<char, 256> host{};
    std::array<char, 64> address{};  // rank 0's own is empty: the others came to it
    std::int64_t port = 0;
    std::uint64_t meeting = 0;
};

template <std::size_t Size>
void set_text(std::array<char, Size>& to, const std::string& text) {
    std::memcpy(to.data(), text.data(), std::min(text.size(), Size - 1));
}

std::vector<Card> exchange_cards(ControlPlane& plane, const Card& own) {
    std::vector<Card> cards;
    for (const ControlPlane::Bytes& bytes : plane.all_gather(std::as_bytes(std::span(&own, 1)))) {
        if (bytes.size() != sizeof(Card))
            throw CommunicationError("the ranks are not of the same program");
        std::memcpy(&cards.emplace_back(), bytes.data(), sizeof(Card));
    }
    return cards;
}

}  // namespace

ProcessWorld::ProcessWorld(const plan::Mesh& mesh, const Launch& launch,
                           ProcessWorldOptions options)
    : options_(std::move(options)) {
    ORRERY_CHECK(launch.size == mesh.ranks(), "a process for each rank");
    const bool mpi = uses_mpi(launch, options_.carrier);
    if (mpi) begin_mpi();
    const Launch found = mpi ? found_through_mpi(launch) : launch;
    if (found.host.empty())
        throw LaunchError(
            "Open MPI's variables do not say on which node rank 0 is, and messages do not go over "
            "MPI: set MASTER_ADDR to the host of rank 0 (mpirun -x MASTER_ADDR=HOST)");
    plane_ = tcp_plane(found, kMeetingTimeout, options_.waiting, &own_host_, &host_of_zero_);
    plane_->set_patience(options_.timeouts.usual);  // all are there: who says nothing hangs
    transport_ = connect(found);
    // A rank computes and communicates.
    if (mpi)
        transport_ = mpi_transport(2 * launch.local_size <= std::thread::hardware_concurrency());
    ProcessCommunicatorOptions of_communicator;
    of_communicator.most_early_bytes =
        physical_memory_bytes().value_or(of_communicator.most_early_bytes);
    of_communicator.timeouts = options_.timeouts;
    of_communicator.hosts = hosts_;
    of_communicator.abort = [this](std::string_view reason) { abort(reason); };
    communicator_ = std::make_unique<ProcessCommunicator>(mesh, launch.rank, *transport_,
                                                          std::move(of_communicator));
    watch_ = std::thread([this] { watch(); });
}

std::unique_ptr<Transport> ProcessWorld::connect(const Launch& launch) {
    TcpTransportOptions tcp;
    tcp.rank = launch.rank;
    tcp.key = run_key(launch.run, launch.secret);
    tcp.listening =
        listen_at(launch.rank == 0 ? listening_host(launch.host, launch.local_size == launch.size)
                                   : own_host_,
                  0);
    Card own;
    set_text(own.host, own_host_name());
    set_text(own.address, own_host_);
    own.port = listening_port(tcp.listening);
    own.meeting = launch.rank == 0 ? random_number() : 0;
    for (const Card& card : exchange_cards(*plane_, own)) {
        hosts_.emplace_back(card.host.data());
        const bool zero = tcp.addresses.empty();
        tcp.addresses.push_back({zero ? host_of_zero_ : card.address.data(), card.port});
        if (zero) tcp.meeting = card.meeting;
    }
    plane_->know_hosts(hosts_);
    return tcp_transport(std::move(tcp));
}

ProcessWorld::~ProcessWorld() {
    bool finished = false;
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
        finished = finished_;
    }
    changed_.notify_all();
    if (!finished) plane_->abort("it left before the others had finished");  // wakes the watch
    if (watch_.joinable()) watch_.join();
}

void ProcessWorld::abort(std::string_view reason) {
    {
        const std::lock_guard lock(mutex_);
        aborted_ = true;
    }
    plane_->abort(reason);
}

void ProcessWorld::finish() {
    plane_->set_patience(options_.timeouts.usual);
    plane_->finish();
    {
        const std::lock_guard lock(mutex_);
        finished_ = true;
    }
    transport_->finish();
}

bool ProcessWorld::wait_until_left(milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return leaving_; });
}

void ProcessWorld::watch() {
    const pid_t parent = getppid();
    for (;;) {
        const std::string reason = plane_->wait_for_end(kWatch);
        if (reason.empty()) {
            if (wait_until_left(milliseconds(0))) return;
            bool finished = false;
            {
                const std::lock_guard lock(mutex_);
                finished = finished_;
            }
            if (finished) {  // what is left is MPI's own end, for which all are there
                if (wait_until_left(options_.timeouts.usual)) return;
                if (options_.overdue) options_.overdue("the end of MPI has not come");
                return;
            }
            if (getppid() != parent) plane_->abort("the process that started it has gone");
            continue;
        }
        communicator_->end(reason);
        if (wait_until_left(milliseconds(0))) return;
        if (options_.ended) options_.ended(*this, reason);
        bool aborted = false;
        {
            const std::lock_guard lock(mutex_);
            aborted = aborted_;
        }
        if (wait_until_left(aborted ? kOwnLeaveTime : kLeaveTime)) return;
        if (options_.overdue) options_.overdue(reason);
        return;
    }
}

}  // namespace orrery::runtime
