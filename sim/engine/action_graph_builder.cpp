// From programs of ops to a graph of actions. An op joins the node of the ops that it follows,
// where they are of its action and it follows nothing else; else it begins a node.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "plan/ir/turns.hpp"
#include "sim/engine/action_graph.hpp"
#include "sim/engine/program_order.hpp"

namespace orrery::sim {
class ActionGraphBuilder {
  public:
    ActionGraphBuilder(const EngineInput& input, int repetitions)
        : in_(input), index_(input), repetitions_(static_cast<std::uint32_t>(repetitions)) {}

    std::optional<ActionGraph> run() {
        if (in_.peers_never_wait || !in_.plan->statistics.empty() || runs_on()) return std::nullopt;
        for (std::size_t p = 0; p < in_.linked.size(); ++p) {
            const auto program = static_cast<std::int32_t>(p);
            orders_.push_back(
                order_of(index_.program(program), index_, in_.launch_queue, leaving(program)));
            const bool slowed = in_.compute_slowdown_permille > 0 && orders_.back().runs_beside;
            const bool held_back = in_.launch.none() && orders_.back().held_back;
            if (slowed || held_back || orders_.back().shares) return std::nullopt;
        }
        graph_.tracks_ = in_.tracks.size();
        graph_.launch_ = in_.launch;
        graph_.graphs_ = in_.graphs;
        graph_.launch_queue_ = in_.launch_queue;
        graph_.slowdown_permille_ = in_.compute_slowdown_permille;
        graph_.classes_.emplace_back();
        runs_.push_back(0);
        add_node(0);
        for (std::size_t t = 0; t < in_.tracks.size(); ++t)
            if (in_.tracks[t].times != nullptr || in_.tracks[t].factors != nullptr ||
                in_.tracks[t].compute_slowdown_permille || !add_track(static_cast<TrackId>(t)))
                return std::nullopt;
        if (!complete()) return std::nullopt;
        number_delays();
        if (!put_in_order()) return std::nullopt;
        return std::move(graph_);
    }

  private:
    using NodeId = std::uint32_t;
    // The end of an op of a node, by index; of node 0 a launch of the host, 0: none.
    struct Place {
        NodeId node = 0;
        std::uint32_t op = 0;
        auto operator<=>(const Place&) const = default;
    };
    struct Draft {
        std::uint32_t action_class = 0;
        std::uint32_t action = 0;  // of one rank; 0: none
        std::vector<Place> before;
    };
    // (sender, forward, its stage, micro-batch, step)
    using Message = std::tuple<TrackId, bool, std::int32_t, std::int32_t, std::uint32_t>;
    struct Shared {
        NodeId node = 0;
        std::size_t came = 0;  // sides or members so far
        std::size_t needed = 0;
        ActionClass kind;  // of a meeting
    };
    // A node of ops, while its track is added.
    struct Own {
        NodeId node = 0;
        std::vector<std::uint32_t> ops;
        std::vector<bool> waited_for;  // by op: others wait for it
    };
    static constexpr std::int32_t kShared = -1;

    // A track while it is added.
    struct Adding {
        TrackId track = 0;
        const IndexedProgram& program;
        const ProgramOrder& order;
        std::uint32_t of_one;                 // ops of one step
        std::vector<Picoseconds> host_waits;  // empty: none
        std::vector<Own> nodes;
        std::vector<std::int32_t> node_of;  // by op, into nodes; or kShared
        std::vector<Place> end;             // by op; of an exchange its first transfer's
        std::map<std::uint32_t, std::vector<NodeId>> transfers;  // of exchanges

        std::uint32_t number(std::uint32_t op) const { return program.linked->op[op]; }
        bool same_action(std::uint32_t one, std::uint32_t other) const {
            return program.linked->step[one] == program.linked->step[other] &&
                   one / of_one == other / of_one;
        }
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
        drafts_.push_back({action_class, 0, {}});
        return static_cast<NodeId>(drafts_.size() - 1);
    }

    std::uint32_t class_of(ActionClass kind) {
        const auto [it, fresh] = class_numbers_.emplace(
            std::move(kind), static_cast<std::uint32_t>(graph_.classes_.size()));
        if (fresh) {
            graph_.classes_.push_back(it->first);
            runs_.push_back(0);
        }
        return it->second;
    }

    // Whether steps run on into one another.
    bool runs_on() const {
        return std::any_of(
            in_.plan->programs.begin(), in_.plan->programs.end(),
            [](const plan::Program& program) { return plan::turns_of(program) > 1; });
    }

    const EngineTrack& spec(TrackId track) const {
        return in_.tracks[static_cast<std::size_t>(track)];
    }
    bool is_exchange(const Adding& a, std::uint32_t op) const {
        return index_.kind(a.number(op)) == plan::OpKind::exchange;
    }
    // That other tracks meet in for this op, −1: none.
    std::int32_t group_of(const Adding& a, std::uint32_t op) const {
        if (!plan::is_communication(index_.kind(a.number(op))) || is_exchange(a, op)) return -1;
        return spec(a.track).groups[static_cast<std::size_t>(index_.group(a.number(op)))];
    }

    bool add_track(TrackId track) {
        const IndexedProgram& program = index_.program(spec(track).program);
        const std::size_t size = program.linked->size();
        Adding a{track,
                 program,
                 orders_[static_cast<std::size_t>(spec(track).program)],
                 static_cast<std::uint32_t>(size) / repetitions_,
                 {},
                 {},
                 std::vector<std::int32_t>(size, kShared),
                 std::vector<Place>(size),
                 {}};
        if (!in_.launch.none() && !look_at_host(a)) return false;
        for (std::uint32_t op = 0; op < size; ++op)
            if (!add_op(a, op)) return false;
        note_last(a);
        for (const Own& own : a.nodes)
            classify(a, own);
        return true;
    }

    bool look_at_host(Adding& a) {
        const EngineTrack& of = spec(a.track);
        std::vector<Picoseconds> takes;
        for (std::uint32_t op = 0; op < a.end.size(); ++op) {
            takes.push_back((*of.durations)[a.number(op)]);
            if (of.uneven != nullptr && index_.is_kernel(a.number(op)))
                takes.back() = of.uneven->of(op, takes.back());
            if (!is_exchange(a, op)) continue;
            for (const plan::Transfer& transfer : transfers_of(a, op))
                takes.back() = std::max(takes.back(), of.time_of(transfer));
        }
        auto waits =
            host_waits(a.program, a.order, index_, in_.launch_queue, takes, in_.graphs.step);
        if (!waits) return false;
        a.host_waits = std::move(*waits);
        graph_.least_.push_back({*of.durations, of.transfer_to_peer,
                                 of.uneven == nullptr ? std::optional<Uneven>() : *of.uneven});
        return true;
    }

    const std::vector<plan::Transfer>& transfers_of(const Adding& a, std::uint32_t op) const {
        return a.program.program->steps[a.program.linked->step[op]].transfers;
    }

    // The node that an op of the rank's own joins, or kShared: it begins one.
    std::int32_t joined(const Adding& a, std::uint32_t op) const {
        const auto on = a.order.followed_by(op);
        if (on.empty() || (!a.host_waits.empty() && a.host_waits[op] >= 0)) return kShared;
        const std::int32_t node = a.node_of[on.front()];
        const auto is_same = [&](std::uint32_t other) {
            return a.node_of[other] == node && a.same_action(other, op);
        };
        return std::all_of(on.begin(), on.end(), is_same) ? node : kShared;
    }

    bool add_op(Adding& a, std::uint32_t op) {
        const bool exchange = is_exchange(a, op);
        const std::int32_t group = group_of(a, op);
        if (!exchange && group < 0) {
            if (const std::int32_t node = joined(a, op); node != kShared) {
                append(a, op, node);
                return true;
            }
        }
        const std::vector<Place> before = before_of(a, op);
        if (exchange) return add_exchange(a, op, before);
        if (group >= 0) {
            a.end[op] = {meet(group, a.track, a.number(op), before), 0};
            return true;
        }
        if (a.nodes.empty() || !a.same_action(a.nodes.back().ops.front(), op)) ++actions_;
        a.nodes.push_back({add_node(0), {}, {}});
        drafts_[a.nodes.back().node].before = before;
        drafts_[a.nodes.back().node].action = actions_;
        append(a, op, static_cast<std::int32_t>(a.nodes.size()) - 1);
        return true;
    }

    static void append(Adding& a, std::uint32_t op, std::int32_t node) {
        Own& own = a.nodes[static_cast<std::size_t>(node)];
        a.node_of[op] = node;
        a.end[op] = {own.node, static_cast<std::uint32_t>(own.ops.size())};
        own.ops.push_back(op);
        own.waited_for.push_back(false);
    }

    std::vector<Place> before_of(Adding& a, std::uint32_t op) {
        std::vector<Place> before;
        for (const std::uint32_t other : a.order.followed_by(op))
            add_ends(a, other, before);
        if (!a.host_waits.empty() && a.host_waits[op] >= 0) {
            graph_.host_.push_back(a.host_waits[op]);
            before.push_back({0, static_cast<std::uint32_t>(graph_.host_.size())});
        }
        return before;
    }

    // The last of these ends `op`, which must be kept apart in its node.
    static void add_ends(Adding& a, std::uint32_t op, std::vector<Place>& ends) {
        if (const auto exchange = a.transfers.find(op); exchange != a.transfers.end()) {
            for (const NodeId node : exchange->second)
                ends.push_back({node, 0});
            return;
        }
        ends.push_back(a.end[op]);
        if (a.node_of[op] == kShared) return;
        a.nodes[static_cast<std::size_t>(a.node_of[op])].waited_for[a.end[op].op] = true;
    }

    // The last op of each stream, of the steps before the last and of all.
    void note_last(Adding& a) {
        const std::uint32_t boundary = a.of_one * (repetitions_ - 1);
        for (const std::vector<StreamOp>& ops : a.program.stream_ops) {
            if (ops.empty()) continue;
            add_ends(a, ops.back().op, ends_);
            const auto after = std::partition_point(
                ops.begin(), ops.end(), [&](const StreamOp& op) { return op.op < boundary; });
            if (after != ops.begin()) add_ends(a, std::prev(after)->op, ends_before_);
        }
    }

    void classify(const Adding& a, const Own& own) {
        ActionClass kind;
        kind.kind = ActionClass::Kind::ops;
        kind.tracks = {a.track};
        const Uneven* uneven = spec(a.track).uneven;
        if (uneven != nullptr && uneven->draws_each()) kind.ids = own.ops;
        std::int32_t last_kernel = -1;
        for (std::uint32_t i = 0; i < own.ops.size(); ++i) {
            const std::uint32_t op = own.ops[i];
            kind.numbers.push_back(a.number(op));
            if (a.program.stream_of[op] == kCompute) last_kernel = static_cast<std::int32_t>(i);
            for (const std::uint32_t other : a.order.followed_by(op))
                if (i > 0) kind.waits.emplace_back(a.end[other].op, i);
        }
        for (std::uint32_t i = 0; i < own.ops.size(); ++i) {
            const bool is_last = static_cast<std::int32_t>(i) == last_kernel;
            if (is_last) kind.last_kernel = static_cast<std::int32_t>(kind.outputs.size());
            if (is_last || own.waited_for[i]) kind.outputs.push_back(i);
        }
        const std::uint32_t number = class_of(std::move(kind));
        drafts_[own.node].action_class = number;
        if (own.ops.front() / a.of_one + 1 == repetitions_) ++runs_[number];
    }

    bool add_exchange(Adding& a, std::uint32_t op, const std::vector<Place>& before) {
        for (const plan::Transfer& transfer : transfers_of(a, op)) {
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
                ActionClass both;
                both.kind = ActionClass::Kind::transfer;
                both.tracks = {from, to};
                shared.needed = 2;
                shared.node = add_node(class_of(std::move(both)));
            }
            auto& all = drafts_[shared.node].before;
            all.insert(all.end(), before.begin(), before.end());
            a.transfers[op].push_back(shared.node);
        }
        return true;
    }

    Picoseconds hop(TrackId from, TrackId to) const {
        return spec(from).transfer_to_peer[static_cast<std::size_t>(spec(to).program)];
    }

    NodeId meet(std::int32_t group, TrackId track, std::uint32_t number,
                const std::vector<Place>& before) {
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

    // None, those of the host, then class by class.
    void number_delays() {
        std::size_t next = 1 + graph_.host_.size();
        for (std::size_t c = 0; c < graph_.classes_.size(); ++c) {
            const ActionClass& one = graph_.classes_[c];
            first_delay_.push_back(static_cast<std::uint32_t>(next));
            if (one.last_kernel >= 0 && runs_[c] > 0)
                graph_.computing_.push_back(
                    {static_cast<std::size_t>(one.tracks[0]),
                     static_cast<std::uint32_t>(next) + static_cast<std::uint32_t>(one.last_kernel),
                     runs_[c]});
            next += one.delays();
        }
        delays_ = static_cast<std::uint32_t>(next);
    }

    PathEnd end_of(const Place& place) const {
        if (place.node == 0) return {0, place.op};
        const std::uint32_t number = drafts_[place.node].action_class;
        const ActionClass& one = graph_.classes_[number];
        const auto at = std::lower_bound(one.outputs.begin(), one.outputs.end(), place.op);
        return {place.node,
                first_delay_[number] + static_cast<std::uint32_t>(at - one.outputs.begin())};
    }
    std::vector<PathEnd> ends_of_places(const std::vector<Place>& places) const {
        std::vector<PathEnd> ends;
        for (const Place& place : places)
            ends.push_back(end_of(place));
        return ends;
    }

    // False: a cycle.
    bool put_in_order() {
        std::vector<std::vector<PathEnd>> before;
        std::vector<std::uint32_t> actions;
        for (const Draft& draft : drafts_) {
            before.push_back(ends_of_places(draft.before));
            actions.push_back(draft.action);
        }
        graph_.ends_before_ = ends_of_places(ends_before_);
        graph_.ends_ = ends_of_places(ends_);
        PathDraft draft(std::move(before), std::move(actions));
        if (!draft.shorten(delays_, {&graph_.ends_before_, &graph_.ends_})) return false;
        graph_.nodes_ = draft.nodes();
        graph_.derived_ = draft.derived();
        return true;
    }

    const EngineInput& in_;
    OpIndex index_;
    std::uint32_t repetitions_;
    std::vector<ProgramOrder> orders_;
    std::vector<Draft> drafts_;
    std::uint32_t actions_ = 0;
    std::vector<Place> ends_before_, ends_;
    std::map<ActionClass, std::uint32_t> class_numbers_;
    std::vector<std::int64_t> runs_;          // by class: nodes of the last step
    std::vector<std::uint32_t> first_delay_;  // by class
    std::uint32_t delays_ = 0;                // of host and classes
    std::map<Message, Shared> transfers_;
    std::map<std::pair<std::int32_t, std::uint32_t>, Shared> meetings_;  // by group, occurrence
    std::map<std::pair<std::int32_t, TrackId>, std::uint32_t> met_;
    ActionGraph graph_;
};

std::optional<ActionGraph> ActionGraph::of(const EngineInput& input, int repetitions) {
    return ActionGraphBuilder(input, repetitions).run();
}

}  // namespace orrery::sim
