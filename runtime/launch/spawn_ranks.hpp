// Ranks on this machine without a launcher: this very program, started once for each, with the
// variables that torchrun would set. They meet on the loopback.
//
// Rank 0 has our stdout; the others' goes to stderr, which all share. Each rank is a process group
// of its own, so that a terminal's Ctrl-C reaches it once: SIGINT and SIGTERM are passed on to all.
// Where a rank fails, the others have some seconds to end by themselves and to say why (what
// connects them tells them), then SIGTERM, then SIGKILL.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/launch/variable.hpp"

namespace orrery::runtime {

struct SpawnOptions {
    std::chrono::milliseconds until_terminated = std::chrono::seconds(5);
    std::chrono::milliseconds until_killed = std::chrono::seconds(10);  // both from the failure on
};

// Those of this process, without its name.
std::vector<std::string> own_arguments();

// `variables_of`: what a rank has beside torchrun's variables. Returns when all have ended: 0, or
// the exit code of the first that failed, 128 + the signal where that ended it. Throws
// CommunicationError where a process cannot be started; the others are killed then.
int spawn_ranks(std::int64_t ranks, const std::vector<std::string>& arguments,
                const std::function<std::vector<Variable>(std::int64_t rank)>& variables_of,
                const SpawnOptions& options = {});

// What lets several ranks of NCCL 2.28 use one GPU: each takes itself for a machine of its own and
// speaks through sockets, over few channels, one of a simple kind. It shows that results are right,
// and says nothing about time. None where each rank has a GPU of its own: NCCL then finds the best
// way by itself.
std::vector<Variable> variables_of_shared_gpu(std::int64_t rank, std::int64_t ranks_of_gpu);

}  // namespace orrery::runtime
