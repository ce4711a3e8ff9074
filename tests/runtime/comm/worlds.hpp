// Ranks as threads that read one another's memory, and ranks that have only connections, which are
// threads of the test all the same: what holds of one communicator is asked of the other.
#pragma once

#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/comm/processes/process_world.hpp"
#include "runtime/comm/threads/thread_world.hpp"
#include "runtime/launch/socket.hpp"

namespace orrery::runtime {

enum class World { threads, tcp };

inline std::string name_of(World world) {
    return world == World::tcp ? "Tcp" : "Threads";
}

inline Launch on_loopback(std::int64_t rank, std::int64_t size, std::int64_t port) {
    return {Launcher::torchrun, rank, size, rank, size, "127.0.0.1", port};
}

// The rank as the world's messages name it.
inline std::string named(World world, plan::Rank rank) {
    std::array<char, 256> host{};
    if (world == World::threads || gethostname(host.data(), host.size() - 1) != 0)
        return "rank " + std::to_string(rank);
    return "rank " + std::to_string(rank) + " on " + host.data();
}

// As run_ranks: of what ranks throw, the first.
inline void run_over_tcp(const plan::Mesh& mesh, std::chrono::milliseconds timeout,
                         const std::function<void(plan::Rank, Communicator&)>& body) {
    const std::int64_t port = free_loopback_port();
    std::mutex mutex;
    std::exception_ptr first;
    const auto live = [&](plan::Rank rank) {
        ProcessWorldOptions options;
        options.timeouts.usual = timeout;
        try {
            ProcessWorld world(mesh, on_loopback(rank, mesh.ranks(), port), options);
            try {
                body(rank, world.communicator());
                world.finish();
            } catch (const std::exception& error) {
                {
                    const std::lock_guard lock(mutex);
                    if (!first) first = std::current_exception();
                }
                world.abort(error.what());
            }
        } catch (const std::exception&) {  // it could not be made
            const std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank)
        threads.emplace_back(live, rank);
    for (std::thread& thread : threads)
        thread.join();
    if (first) std::rethrow_exception(first);
}

inline void run_world(World world, const plan::Mesh& mesh,
                      const std::function<void(plan::Rank, Communicator&)>& body,
                      std::chrono::milliseconds timeout = std::chrono::minutes(10)) {
    if (world == World::tcp) return run_over_tcp(mesh, timeout, body);
    ThreadWorldOptions options;
    options.timeout = timeout;
    run_ranks(mesh, options, body);
}

inline auto each_world() {
    return testing::Values(World::threads, World::tcp);
}

}  // namespace orrery::runtime
