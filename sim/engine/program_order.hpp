// What each op of a program follows, reduced to what is not implied by the rest: of each op it is
// counted how many ops of every stream have ended for sure when it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/op_index.hpp"

namespace orrery::sim {

struct ProgramOrder {
    // By op:
    std::vector<plan::StreamCounts> known;  // ended for sure when it starts
    std::vector<std::uint32_t> first_on;    // into on; one more entry than ops
    std::vector<std::uint32_t> on;          // ops that it follows, without those implied
    bool runs_beside = false;               // a kernel may run while the rank communicates
    bool shares = false;                    // ops may run beside one another that leave the node
    // A queue so short may keep the host from issuing an op that could start.
    bool held_back = false;

    std::span<const std::uint32_t> followed_by(std::uint32_t op) const {
        return {on.data() + first_on[op], on.data() + first_on[op + 1]};
    }
    // When `op`, of stream `own`, has ended, so many ops of `stream` have for sure.
    std::uint32_t ended(std::uint32_t op, std::size_t own, std::size_t stream) const {
        return known[op][stream] + (stream == own ? 1 : 0);
    }
};

// `leaves`: by op number, whether the op leaves a node.
ProgramOrder order_of(const IndexedProgram& program, const OpIndex& index,
                      std::int64_t launch_queue, const std::vector<bool>& leaves);

// By op, when a host has issued it that launches take time and no queue holds back: where the op
// may have to wait for that, else −1. Nothing where a full queue may matter. Ops take at least
// `takes`; the host begins at `first`.
std::optional<std::vector<Picoseconds>> host_waits(const IndexedProgram& program,
                                                   const ProgramOrder& order, const OpIndex& index,
                                                   std::int64_t launch_queue,
                                                   const std::vector<Picoseconds>& takes,
                                                   Picoseconds first);

}  // namespace orrery::sim
