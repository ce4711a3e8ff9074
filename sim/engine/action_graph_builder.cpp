// From programs of ops to a graph of actions. What an op waits for is reduced to what is not
// implied by the rest: of each op it is counted how many ops of every stream have ended for sure
// when it starts. Ops are one node where only the first waits for others, and others only for the
// last.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "plan/ir/order.hpp"
#include "sim/engine/action_graph.hpp"
#include "sim/engine/op_index.hpp"

namespace orrery::sim {
namespace {

using plan::kStreams;
using plan::StreamCounts;

// A program, op by op.
struct ProgramOrder {
    std::vector<StreamCounts> known;             // ended for sure when the op starts
    std::vector<std::vector<std::uint32_t>> on;  // ops that it follows, without those implied
    std::vector<std::uint32_t> followers;        // ops that follow it
    bool held_back = false;    // the host's queue may be too short for an op to start
    bool runs_beside = false;  // kernels may run while the rank communicates
    bool shares = false;       // ops may run beside one another that leave the node
};

class ProgramReader {
  public:
    // `leaves`: by op number, whether the op leaves a node on any track.
    ProgramReader(const IndexedProgram& program, const OpIndex& index, std::int64_t launch_queue,
                  const std::vector<bool>& leaves)
        : program_(program), index_(index), launch_queue_(launch_queue), leaves_(leaves) {}

    ProgramOrder run() {
        const std::size_t ops = program_.linked->size();
        order_.known.resize(ops);
        order_.on.resize(ops);
        order_.followers.resize(ops);
        for (std::uint32_t op = 0; op < ops; ++op)
            read(op);
        return std::move(order_);
    }

  private:
    std::size_t stream_of(std::uint32_t op) const { return program_.stream_of[op]; }
    // When `op` has ended, so many ops of `stream` have for sure.
    std::uint32_t ended(std::uint32_t op, std::size_t stream) const {
        return order_.known[op][stream] + (stream == stream_of(op) ? 1 : 0);
    }

    void read(std::uint32_t op) {
        const std::size_t own = stream_of(op);
        std::vector<std::uint32_t> on;
        if (issued_[own] > 0) on.push_back(program_.stream_ops[own][issued_[own] - 1].op);
        const plan::LinkedProgram& linked = *program_.linked;
        for (std::uint32_t w = linked.first_wait[op]; w < linked.first_wait[op + 1]; ++w) {
            const plan::Wait& wait = linked.waits[w];
            on.push_back(
                program_.stream_ops[static_cast<std::size_t>(wait.stream)][wait.count - 1].op);
        }
        StreamCounts& known = order_.known[op];
        for (const std::uint32_t before : on)
            for (std::size_t s = 0; s < kStreams; ++s)
                known[s] = std::max(known[s], ended(before, s));
        for (const std::uint32_t before : on) {
            const std::size_t stream = stream_of(before);
            const bool implied = std::any_of(on.begin(), on.end(), [&](std::uint32_t other) {
                return other != before &&
                       order_.known[other][stream] > order_.known[before][stream];
            });
            if (implied) continue;
            order_.on[op].push_back(before);
            ++order_.followers[before];
        }
        look_at_host(op);
        look_beside(op, own);
        ++issued_[own];
    }

    // The host issues at once what its queue has room for: behind ops that have not ended.
    void look_at_host(std::uint32_t op) {
        std::int64_t pending = op;
        for (const std::uint32_t count : order_.known[op])
            pending -= count;
        if (pending >= launch_queue_) order_.held_back = true;
    }

    void look_beside(std::uint32_t op, std::size_t own) {
        const StreamCounts& known = order_.known[op];
        if (own == kCompute)
            for (std::size_t s = 0; s < kStreams; ++s)
                if (known[s] < communicated_[s]) order_.runs_beside = true;
        if (!plan::is_communication(index_.kind(program_.linked->op[op]))) return;
        if (known[kCompute] < issued_[kCompute]) order_.runs_beside = true;
        communicated_[own] = issued_[own] + 1;
        if (!leaves_[program_.linked->op[op]]) return;
        for (std::size_t s = 0; s < kStreams; ++s)
            if (s != own && known[s] < left_node_[s]) order_.shares = true;
        left_node_[own] = issued_[own] + 1;
        if (stream_of(op) != static_cast<std::size_t>(plan::Stream::pipeline_comm)) return;
        const auto& transfers = program_.program->steps[program_.linked->step[op]].transfers;
        const auto sends = std::count_if(transfers.begin(), transfers.end(), [](const auto& t) {
            return plan::is_send(t.action.kind);
        });
        if (sends > 1 || static_cast<std::ptrdiff_t>(transfers.size()) - sends > 1)
            order_.shares = true;
    }

    const IndexedProgram& program_;
    const OpIndex& index_;
    std::int64_t launch_queue_;
    StreamCounts issued_{};
    const std::vector<bool>& leaves_;
    StreamCounts communicated_{};  // up to the last communication of each stream
    StreamCounts left_node_{};     // the same of what leaves a node
    ProgramOrder order_;
};

}  // namespace

class ActionGraphBuilder {
  public:
    ActionGraphBuilder(const EngineInput& input, int repetitions)
        : in_(input), index_(input), repetitions_(static_cast<std::uint32_t>(repetitions)) {}

    std::optional<ActionGraph> run() {
        if (!in_.launch.none() || in_.peers_never_wait || !in_.plan->statistics.empty())
            return std::nullopt;
        for (std::size_t p = 0; p < in_.linked.size(); ++p) {
            const auto program = static_cast<std::int32_t>(p);
            orders_.push_back(
                ProgramReader(index_.program(program), index_, in_.launch_queue, leaving(program))
                    .run());
            const bool slowed = in_.compute_slowdown_permille > 0 && orders_.back().runs_beside;
            if (slowed || orders_.back().held_back || orders_.back().shares) return std::nullopt;
        }
        graph_.tracks_ = in_.tracks.size();
        graph_.classes_.emplace_back();
        graph_.runs_.push_back(0);
        add_node(0);
        for (std::size_t t = 0; t < in_.tracks.size(); ++t)
            if (in_.tracks[t].times != nullptr || in_.tracks[t].uneven != nullptr ||
                !add_track(static_cast<TrackId>(t)))
                return std::nullopt;
        if (!complete() || !put_in_order()) return std::nullopt;
        return std::move(graph_);
    }

  private:
    using NodeId = std::uint32_t;
    struct Draft {
        std::uint32_t action_class = 0;
        std::vector<NodeId> before;
    };
    // (sender, forward, its stage, micro-batch, step)
    using Message = std::tuple<TrackId, bool, std::int32_t, std::int32_t, std::uint32_t>;
    struct Shared {
        NodeId node = 0;
        std::size_t came = 0;  // sides or members so far
        std::size_t needed = 0;
        ActionClass kind;  // of a meeting
    };

    // Ops by number that take from the network, of the tracks of a program.
    std::vector<bool> leaving(std::int32_t program) const {
        std::vector<bool> leaves(index_.size());
        if (in_.node_network_kBps == 0) return leaves;
        for (const EngineTrack& track : in_.tracks) {
            if (track.program != program) continue;
            const bool sends = std::any_of(track.use_to_peer.begin(), track.use_to_peer.end(),
                                           [](const NetworkUse& use) { return use.kBps > 0; });
            for (std::uint32_t op = 0; op < leaves.size(); ++op)
                if (track.use_of(op).kBps > 0 ||
                    (sends && index_.kind(op) == plan::OpKind::exchange))
                    leaves[op] = true;
        }
        return leaves;
    }

    NodeId add_node(std::uint32_t action_class) {
        drafts_.push_back({action_class, {}});
        return static_cast<NodeId>(drafts_.size() - 1);
    }

    std::uint32_t class_of(ActionClass kind) {
        const auto [it, fresh] =
            numbers_.emplace(std::move(kind), static_cast<std::uint32_t>(graph_.classes_.size()));
        if (fresh) {
            graph_.classes_.push_back(it->first);
            graph_.runs_.push_back(0);
        }
        return it->second;
    }

    const EngineTrack& spec(TrackId track) const {
        return in_.tracks[static_cast<std::size_t>(track)];
    }

    // A track while it is added. A node has ops of one step.
    struct Adding {
        TrackId track = 0;
        const IndexedProgram& program;
        const ProgramOrder& order;
        std::uint32_t of_one;                   // ops of one step
        std::vector<std::vector<NodeId>> ends;  // nodes of which the last ends the op

        std::uint32_t number(std::uint32_t op) const { return program.linked->op[op]; }
    };
    bool is_exchange(const Adding& a, std::uint32_t op) const {
        return index_.kind(a.number(op)) == plan::OpKind::exchange;
    }
    // That other tracks meet in for this op, −1: none.
    std::int32_t group_of(const Adding& a, std::uint32_t op) const {
        if (!plan::is_communication(index_.kind(a.number(op))) || is_exchange(a, op)) return -1;
        return spec(a.track).groups[static_cast<std::size_t>(index_.group(a.number(op)))];
    }

    // Nodes as lists of ops, in issue order: whole actions, else runs of ops.
    std::vector<std::vector<std::uint32_t>> nodes_of(const Adding& a) const {
        std::vector<std::vector<std::uint32_t>> nodes;
        const auto size = static_cast<std::uint32_t>(a.ends.size());
        for (std::uint32_t first = 0, end = 0; first < size; first = end) {
            end = first + 1;
            while (end < size && a.program.linked->step[end] == a.program.linked->step[first] &&
                   end / a.of_one == first / a.of_one)
                ++end;
            if (is_whole(a, first, end)) {
                nodes.emplace_back(end - first);
                std::iota(nodes.back().begin(), nodes.back().end(), first);
            } else {
                add_runs(a, first, end, nodes);
            }
        }
        return nodes;
    }

    bool is_own(const Adding& a, std::uint32_t op) const {
        return !is_exchange(a, op) && group_of(a, op) < 0;
    }

    // Whether of these ops only the first waits for others, and others only for the last, which
    // every one of them comes before.
    bool is_whole(const Adding& a, std::uint32_t first, std::uint32_t end) const {
        std::vector<std::uint32_t> followers(end - first);
        for (std::uint32_t op = first; op < end; ++op) {
            if (!is_own(a, op)) return false;
            if (op == first) continue;
            if (a.order.on[op].empty()) return false;
            for (const std::uint32_t other : a.order.on[op]) {
                if (other < first) return false;
                ++followers[other - first];
            }
        }
        for (std::uint32_t op = first; op + 1 < end; ++op)
            if (followers[op - first] == 0 || followers[op - first] != a.order.followers[op])
                return false;
        return true;
    }

    // An op continues the run of the one op that it follows and that nothing else follows.
    void add_runs(const Adding& a, std::uint32_t first, std::uint32_t end,
                  std::vector<std::vector<std::uint32_t>>& nodes) const {
        std::vector<std::size_t> node_of(end - first);
        for (std::uint32_t op = first; op < end; ++op) {
            const auto& on = a.order.on[op];
            const bool continues = on.size() == 1 && on[0] >= first &&
                                   a.order.followers[on[0]] == 1 && is_own(a, op) &&
                                   is_own(a, on[0]);
            if (!continues) nodes.emplace_back();
            node_of[op - first] = continues ? node_of[on[0] - first] : nodes.size() - 1;
            nodes[node_of[op - first]].push_back(op);
        }
    }

    bool add_track(TrackId track) {
        const IndexedProgram& program = index_.program(spec(track).program);
        const std::size_t size = program.linked->size();
        Adding a{track, program, orders_[static_cast<std::size_t>(spec(track).program)],
                 static_cast<std::uint32_t>(size) / repetitions_,
                 std::vector<std::vector<NodeId>>(size)};
        for (const std::vector<std::uint32_t>& ops : nodes_of(a))
            if (!add_ops(a, ops)) return false;
        note_last(a);
        return true;
    }

    bool add_ops(Adding& a, const std::vector<std::uint32_t>& ops) {
        const std::uint32_t first = ops.front();
        std::vector<NodeId> before;
        for (const std::uint32_t other : a.order.on[first])
            before.insert(before.end(), a.ends[other].begin(), a.ends[other].end());
        if (is_exchange(a, first)) return add_exchange(a, first, before);
        if (const std::int32_t group = group_of(a, first); group >= 0) {
            a.ends[first] = {meet(group, a.track, a.number(first), before)};
            return true;
        }
        const NodeId node = add_node(class_of(class_of_ops(a, ops)));
        if (first / a.of_one + 1 == repetitions_) ++graph_.runs_[drafts_[node].action_class];
        drafts_[node].before = std::move(before);
        for (const std::uint32_t op : ops)
            a.ends[op] = {node};
        return true;
    }

    static ActionClass class_of_ops(const Adding& a, const std::vector<std::uint32_t>& ops) {
        ActionClass kind{ActionClass::Kind::ops, {a.track}, {}, {}, false};
        for (std::uint32_t i = 0; i < ops.size(); ++i) {
            kind.numbers.push_back(a.number(ops[i]));
            kind.computes |= a.program.stream_of[ops[i]] == kCompute;
            if (i == 0) continue;
            for (const std::uint32_t other : a.order.on[ops[i]]) {
                const auto at = std::lower_bound(ops.begin(), ops.end(), other);
                kind.waits.emplace_back(static_cast<std::uint32_t>(at - ops.begin()), i);
            }
        }
        return kind;
    }

    // The last op of each stream, of the steps before the last and of all.
    void note_last(const Adding& a) {
        const std::uint32_t boundary = a.of_one * (repetitions_ - 1);
        for (const std::vector<StreamOp>& ops : a.program.stream_ops) {
            if (ops.empty()) continue;
            const auto& last = a.ends[ops.back().op];
            graph_.ends_.insert(graph_.ends_.end(), last.begin(), last.end());
            const auto after = std::partition_point(
                ops.begin(), ops.end(), [&](const StreamOp& op) { return op.op < boundary; });
            if (after == ops.begin()) continue;
            const auto& before = a.ends[std::prev(after)->op];
            graph_.ends_before_.insert(graph_.ends_before_.end(), before.begin(), before.end());
        }
    }

    bool add_exchange(Adding& a, std::uint32_t op, const std::vector<NodeId>& before) {
        for (const plan::Transfer& transfer :
             a.program.program->steps[a.program.linked->step[op]].transfers) {
            const plan::ActionKind kind = transfer.action.kind;
            const TrackId peer =
                spec(a.track).pipeline_peers[static_cast<std::size_t>(transfer.peer)];
            const bool sends = plan::is_send(kind);
            const bool forward =
                kind == plan::ActionKind::send_f || kind == plan::ActionKind::recv_f;
            const TrackId from = sends ? a.track : peer, to = sends ? peer : a.track;
            // Forward messages go to the next stage, backward ones to the one before.
            const std::int32_t behind = forward ? 1 : -1;
            const std::int32_t stage = transfer.action.stage - (sends ? 0 : behind);
            Shared& shared =
                transfers_[{from, forward, stage, transfer.action.micro_batch, op / a.of_one}];
            if (shared.came++ == 0) {
                if (hop(from, to) != hop(to, from)) return false;
                shared.needed = 2;
                shared.node =
                    add_node(class_of({ActionClass::Kind::transfer, {from, to}, {}, {}, false}));
            }
            auto& all = drafts_[shared.node].before;
            all.insert(all.end(), before.begin(), before.end());
            a.ends[op].push_back(shared.node);
        }
        return true;
    }

    Picoseconds hop(TrackId from, TrackId to) const {
        return spec(from).transfer_to_peer[static_cast<std::size_t>(spec(to).program)];
    }

    NodeId meet(std::int32_t group, TrackId track, std::uint32_t number,
                const std::vector<NodeId>& before) {
        const std::uint32_t occurrence = met_[{group, track}]++;
        Shared& shared = meetings_[{group, occurrence}];
        if (shared.came++ == 0) {
            shared.needed = in_.groups[static_cast<std::size_t>(group)].size();
            shared.node = add_node(0);
            shared.kind.kind = ActionClass::Kind::meeting;
        }
        shared.kind.tracks.push_back(track);
        shared.kind.numbers.push_back(number);
        auto& all = drafts_[shared.node].before;
        all.insert(all.end(), before.begin(), before.end());
        return shared.node;
    }

    // Whether each transfer has both its sides, and each collective its members.
    bool complete() {
        for (const auto& [message, shared] : transfers_)
            if (shared.came != shared.needed) return false;
        for (const auto& [key, shared] : meetings_) {
            if (shared.came != shared.needed) return false;
            drafts_[shared.node].action_class = class_of(shared.kind);
        }
        return true;
    }

    // More than a node has room for meet in nodes that take no time.
    void make_room() {
        for (NodeId n = 1; n < drafts_.size(); ++n) {
            std::vector<NodeId> before = std::move(drafts_[n].before);
            std::sort(before.begin(), before.end());
            before.erase(std::unique(before.begin(), before.end()), before.end());
            while (before.size() > ActionGraph::kBefore) {
                const NodeId node = add_node(0);
                const auto some = before.end() - ActionGraph::kBefore;
                drafts_[node].before.assign(some, before.end());
                before.erase(some, before.end());
                before.push_back(node);
            }
            drafts_[n].before = std::move(before);
        }
    }

    // Breadth first, so that nodes in a row seldom follow one another; false: a cycle.
    bool put_in_order() {
        make_room();
        std::vector<std::vector<NodeId>> after(drafts_.size());
        std::vector<std::size_t> missing(drafts_.size());
        std::vector<NodeId> order = {0};
        for (NodeId n = 1; n < drafts_.size(); ++n) {
            missing[n] = drafts_[n].before.size();
            for (const NodeId before : drafts_[n].before)
                after[before].push_back(n);
            if (missing[n] == 0) order.push_back(n);
        }
        for (std::size_t i = 0; i < order.size(); ++i)
            for (const NodeId n : after[order[i]])
                if (--missing[n] == 0) order.push_back(n);
        if (order.size() != drafts_.size()) return false;
        std::vector<NodeId> place(drafts_.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            place[order[i]] = static_cast<NodeId>(i);
        for (const NodeId n : order) {
            ActionGraph::Node node;
            node.action_class = drafts_[n].action_class;
            for (std::size_t i = 0; i < drafts_[n].before.size(); ++i)
                node.before[i] = place[drafts_[n].before[i]];
            graph_.nodes_.push_back(node);
        }
        for (auto* ends : {&graph_.ends_before_, &graph_.ends_}) {
            for (NodeId& n : *ends)
                n = place[n];
            std::sort(ends->begin(), ends->end());
            ends->erase(std::unique(ends->begin(), ends->end()), ends->end());
        }
        return true;
    }

    const EngineInput& in_;
    OpIndex index_;
    std::uint32_t repetitions_;
    std::vector<ProgramOrder> orders_;
    std::vector<Draft> drafts_;
    std::map<ActionClass, std::uint32_t> numbers_;
    std::map<Message, Shared> transfers_;
    std::map<std::pair<std::int32_t, std::uint32_t>, Shared> meetings_;  // by group, occurrence
    std::map<std::pair<std::int32_t, TrackId>, std::uint32_t> met_;
    ActionGraph graph_;
};

std::optional<ActionGraph> ActionGraph::of(const EngineInput& input, int repetitions) {
    return ActionGraphBuilder(input, repetitions).run();
}

}  // namespace orrery::sim
