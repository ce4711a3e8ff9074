#include "trace/formats/chakra_graph.hpp"

#include <algorithm>
#include <array>

#include "plan/check.hpp"

namespace orrery::trace::chakra {
namespace {

using plan::GroupKind;
using plan::OpKind;
using plan::Rank;

std::optional<CollectiveType> collective_of(OpKind kind) {
    switch (kind) {
        case OpKind::all_reduce:
            return CollectiveType::all_reduce;
        case OpKind::all_gather:
            return CollectiveType::all_gather;
        case OpKind::reduce_scatter:
            return CollectiveType::reduce_scatter;
        case OpKind::broadcast:
            return CollectiveType::broadcast;
        case OpKind::all_to_all:
        case OpKind::all_to_all_v:
            return CollectiveType::all_to_all;
        default:
            return std::nullopt;
    }
}

class Graph {
  public:
    Graph(const plan::Plan& plan, const plan::Program& program, const plan::LinkedProgram& linked,
          Rank rank, const Groups& groups)
        : plan_(plan), program_(program), linked_(linked), rank_(rank), groups_(groups) {
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                ops_.push_back(&op);
        // A tag names a message among those of a pair of ranks: which stage sends it, for which
        // micro-batch (or which statistic), and where to. What goes round rings is counted.
        std::int64_t stages = 0;
        for (const plan::Program& one : plan.programs)
            for (const plan::Step& step : one.steps)
                for (const plan::Transfer& transfer : step.transfers) {
                    stages = std::max<std::int64_t>(stages, transfer.action.stage + 2);
                    numbers_ = std::max<std::int64_t>(numbers_, transfer.action.micro_batch + 2);
                }
        first_ring_tag_ = 4 * stages * numbers_;
    }

    std::vector<Node> run() {
        for (std::uint32_t id = 0; id < linked_.size(); ++id) {
            const plan::Op& op = *ops_[linked_.op[id]];
            const std::vector<std::uint64_t> after = waits_of(id, op);
            first_node_.push_back(nodes_.size());
            if (op.is<plan::Exchange>())
                add_transfers(id, after);
            else if (op.is<plan::Shift>())
                add_shift(id, op, after);
            else
                add_op(id, op, after);
            on_stream_[plan::index_of(op.stream)].push_back(id);
        }
        return std::move(nodes_);
    }

  private:
    void add_nodes_of(std::uint32_t id, std::vector<std::uint64_t>& into) const {
        const std::size_t end = id + 1 < first_node_.size() ? first_node_[id + 1] : nodes_.size();
        for (std::size_t n = first_node_[id]; n < end; ++n)
            into.push_back(n);
    }

    std::vector<std::uint64_t> waits_of(std::uint32_t id, const plan::Op& op) const {
        std::vector<std::uint64_t> after;
        const auto& own = on_stream_[plan::index_of(op.stream)];
        if (!own.empty()) add_nodes_of(own.back(), after);
        for (std::uint32_t w = linked_.first_wait[id]; w < linked_.first_wait[id + 1]; ++w) {
            const plan::Wait& wait = linked_.waits[w];
            add_nodes_of(on_stream_[plan::index_of(wait.stream)][wait.count - 1], after);
        }
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        return after;
    }

    Node& add(NodeType type, std::uint32_t id, const std::vector<std::uint64_t>& after) {
        Node& node = nodes_.emplace_back();
        node.type = type;
        node.op = id;
        node.after = after;
        return node;
    }

    void add_op(std::uint32_t id, const plan::Op& op, const std::vector<std::uint64_t>& after) {
        if (plan::is_copy(op.kind())) {
            const bool is_load =
                op.stream == plan::Stream::copy || op.stream == plan::Stream::disk_read;
            add(is_load ? NodeType::mem_load : NodeType::mem_store, id, after).bytes =
                plan::message_bytes(op);
            return;
        }
        if (!plan::is_communication(op.kind())) {
            add(NodeType::comp, id, after);  // its bytes are its block's to say
            return;
        }
        const std::int64_t size = plan_.mesh.group_size(op.group);
        const auto collective = collective_of(op.kind());
        ORRERY_CHECK(collective.has_value(), "a collective that Chakra has no name for");
        // Of one rank alone: nothing to say to anybody.
        if (plan_.mesh.group(op.group, rank_).size() < 2) {
            add(NodeType::comp, id, after);
            return;
        }
        Node& node = add(NodeType::comm_coll, id, after);
        node.collective = *collective;
        node.bytes = input_bytes(op, size);
        node.group = groups_.number(op.group, rank_);
        node.group_size = size;
    }

    void add_transfers(std::uint32_t id, const std::vector<std::uint64_t>& after) {
        for (const plan::Transfer& transfer : program_.steps[linked_.step[id]].transfers) {
            const bool sends = plan::is_send(transfer.action.kind);
            const Rank peer = plan_.mesh.pipeline_peer(rank_, transfer.peer);
            Node& node = add(sends ? NodeType::comm_send : NodeType::comm_recv, id, after);
            node.bytes = transfer.bytes;
            node.group_size = 2;
            node.message = {sends ? rank_ : peer, sends ? peer : rank_, tag_of(transfer.action)};
        }
    }

    std::int32_t tag_of(const plan::Action& action) const {
        const std::int32_t sender = plan::is_send(action.kind)
                                        ? action.stage
                                        : action.stage + plan::hop_to_peer(action.kind);
        const std::int64_t way = (plan::goes_onward(action.kind) ? 1 : 0) +
                                 (plan::carries_statistic(action.kind) ? 2 : 0);
        return static_cast<std::int32_t>((sender * 4 + way) * numbers_ + action.micro_batch + 1);
    }

    void add_shift(std::uint32_t id, const plan::Op& op, const std::vector<std::uint64_t>& after) {
        const std::vector<Rank> ring = plan_.mesh.group(op.group, rank_);
        const auto own =
            static_cast<std::size_t>(std::find(ring.begin(), ring.end(), rank_) - ring.begin());
        const std::int32_t tag =
            static_cast<std::int32_t>(first_ring_tag_ +
                                      ring_messages_[static_cast<std::size_t>(op.group)]++ *
                                          static_cast<std::int64_t>(plan::kGroupKinds) +
                                      static_cast<std::int64_t>(op.group));
        const Rank next = ring[(own + 1) % ring.size()];
        const Rank before = ring[(own + ring.size() - 1) % ring.size()];
        for (const bool sends : {true, false}) {
            Node& node = add(sends ? NodeType::comm_send : NodeType::comm_recv, id, after);
            node.bytes = plan::message_bytes(op);
            node.group_size = static_cast<std::int64_t>(ring.size());
            node.message = sends ? Message{rank_, next, tag} : Message{before, rank_, tag};
        }
    }

    const plan::Plan& plan_;
    const plan::Program& program_;
    const plan::LinkedProgram& linked_;
    Rank rank_;
    const Groups& groups_;
    std::vector<const plan::Op*> ops_;
    std::int64_t numbers_ = 1;  // micro-batches and statistics, with −1
    std::int64_t first_ring_tag_ = 0;
    std::array<std::int64_t, plan::kGroupKinds> ring_messages_{};
    std::vector<Node> nodes_;
    std::vector<std::size_t> first_node_;                               // by op id
    std::array<std::vector<std::uint32_t>, plan::kStreams> on_stream_;  // op ids
};

}  // namespace

Groups::Groups(const plan::Plan& plan) : mesh_(plan.mesh) {
    std::array<bool, plan::kGroupKinds> used{};
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            if (collective_of(op.kind())) used[static_cast<std::size_t>(op.group)] = true;
    for (std::size_t k = 0; k < plan::kGroupKinds; ++k) {
        if (!used[k]) continue;
        const auto kind = static_cast<GroupKind>(k);
        for (Rank rank = 0; rank < mesh_.ranks(); ++rank) {
            std::vector<Rank> group = mesh_.group(kind, rank);
            if (group.size() < 2 || group.front() != rank) continue;
            members_.push_back(std::move(group));
            of_first_.emplace(std::pair(kind, rank), static_cast<std::int64_t>(members_.size()));
        }
    }
}

std::int64_t Groups::number(GroupKind kind, Rank rank) const {
    return of_first_.at({kind, mesh_.group(kind, rank).front()});
}

std::int64_t input_bytes(const plan::Op& op, std::int64_t group_size) {
    const std::int64_t bytes = plan::message_bytes(op);
    return op.is<plan::AllGather>() ? bytes / group_size : bytes;
}

std::vector<Node> nodes_of(const plan::Plan& plan, const plan::Program& program,
                           const plan::LinkedProgram& linked, Rank rank, const Groups& groups) {
    return Graph(plan, program, linked, rank, groups).run();
}

}  // namespace orrery::trace::chakra
