// Ranks of one process: a thread each, which read one another's memory. Any layout runs on one
// computer this way; other backends' communicators are held against this one.
//
// Waiting ranks sleep (there may be many more threads than cores); they spin for some microseconds
// first only where all that compute have a core.
//
// A run that cannot go on ends at once, on all ranks, with CommunicationError: members of a group
// that call different operations, or the same with other element types, counts or roots; a transfer
// that meets one of another size; ranks that wait for one another in a circle; a rank that throws,
// or returns from its function while others wait for it. The rank that finds it says what it did
// and what its peer did; all others say which rank ended the run and why.
#pragma once

#include <chrono>
#include <functional>

#include "plan/ir/mesh.hpp"
#include "runtime/comm/communicator.hpp"

namespace orrery::runtime {

struct ThreadWorldOptions {
    // How long a call may wait for other ranks before it ends the run: it is for ranks that hang
    // outside of communication, every other fault is found at once. It must exceed the longest that
    // one rank computes while another waits.
    std::chrono::milliseconds timeout = std::chrono::minutes(10);
    // Threads with which each rank computes: ranks spin before they sleep where ranks × this is at
    // most the computer's cores. A thread beside them that waits in a call takes no core from them
    // for longer than a spin.
    int threads_per_rank = 1;
};

// Runs `body` once per rank of the mesh, each on a thread of its own, and returns when all have
// returned. If the run ended before, rethrows what ended it first, as it was thrown: what left the
// body of the rank that failed first, or the CommunicationError of the rank that found a fault. Of
// a rank that called abort() it is what its body throws then, if that is no CommunicationError.
void run_ranks(const plan::Mesh& mesh, const ThreadWorldOptions& options,
               const std::function<void(plan::Rank, Communicator&)>& body);

}  // namespace orrery::runtime
