// A rank's step as the nodes of a Chakra execution trace: an op is a node, but for transfers
// between pipeline ranks and round a ring, which are a node a message. Internal to trace/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "trace/formats/chakra_fields.hpp"
#include "trace/trace.hpp"

namespace orrery::trace::chakra {

// Process groups of a plan's collectives: of each kind the groups of more than one rank, numbered
// from 1 by kind, then by their first rank. Number 0 means every rank to ASTRA-sim.
class Groups {
  public:
    explicit Groups(const plan::Plan& plan);

    std::int64_t number(plan::GroupKind kind, plan::Rank rank) const;
    // By number, from 1.
    const std::vector<std::vector<plan::Rank>>& members() const { return members_; }

  private:
    const plan::Mesh& mesh_;
    std::map<std::pair<plan::GroupKind, plan::Rank>, std::int64_t> of_first_;
    std::vector<std::vector<plan::Rank>> members_;
};

struct Message {
    plan::Rank from = 0, to = 0;
    std::int32_t tag = 0;
};

struct Node {
    NodeType type = NodeType::comp;
    std::uint32_t op = 0;              // id in the program
    std::vector<std::uint64_t> after;  // ids of nodes, ascending
    std::int64_t bytes = 0;            // comm_size; of others tensor_size
    std::int64_t group = 0;            // of collectives
    std::int64_t group_size = 0;
    CollectiveType collective = CollectiveType::all_reduce;
    std::optional<Message> message;  // of sends and receives
};

// In issue order; a node's id is its index. A node comes after the op before it on its stream and
// after those that the plan says it waits for on others, so that no path leads back.
std::vector<Node> nodes_of(const plan::Plan& plan, const plan::Program& program,
                           const plan::LinkedProgram& linked, plan::Rank rank,
                           const Groups& groups);

// Bytes of what a rank hands to a collective, which is what comm_size says: its share of what is
// gathered, the whole of what is reduced, scattered or exchanged.
std::int64_t input_bytes(const plan::Op& op, std::int64_t group_size);

}  // namespace orrery::trace::chakra
