#include "runtime/comm/threads/thread_world.hpp"

#include <exception>
#include <thread>
#include <vector>

#include "runtime/comm/threads/meeting_place.hpp"
#include "runtime/comm/threads/thread_communicator.hpp"

namespace orrery::runtime {

void run_ranks(const plan::Mesh& mesh, const ThreadWorldOptions& options,
               const std::function<void(plan::Rank, Communicator&)>& body) {
    MeetingPlace place(mesh, options), beside(mesh, options);
    const auto left = [&](plan::Rank rank, const std::exception_ptr& thrown) {
        place.left(rank, thrown);
        beside.left(rank, thrown);
    };
    const auto live = [&](plan::Rank rank) {
        std::exception_ptr thrown;
        try {
            ThreadCommunicator other(mesh, rank, beside);
            ThreadCommunicator communicator(mesh, rank, place, &other);
            body(rank, communicator);
        } catch (...) {
            thrown = std::current_exception();
        }
        left(rank, thrown);
    };
    std::vector<std::thread> threads;
    try {
        for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank)
            threads.emplace_back(live, rank);
    } catch (...) {  // the system has no thread for it
        left(static_cast<plan::Rank>(threads.size()), std::current_exception());
    }
    for (std::thread& thread : threads)
        thread.join();
    if (place.cause()) std::rethrow_exception(place.cause());
}

}  // namespace orrery::runtime
