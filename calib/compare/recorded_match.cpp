#include "calib/compare/recorded_match.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/check.hpp"

namespace orrery::compare {
namespace {

// What tells ops of one kind apart: of a product its shape, of a collective its bytes, of others
// whether they are of a backward pass.
using MatchKey = std::tuple<WorkKind, std::int64_t, std::int64_t, std::int64_t>;

MatchKey key_of_product(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {WorkKind::gemm, k, std::min(m, n), std::max(m, n)};
}

std::int64_t pass_of(plan::Phase phase) {
    return phase == plan::Phase::backward || phase == plan::Phase::recompute ? 1 : 0;
}

// Of a transfer besides which way it goes, where each was recorded by itself.
MatchKey key_of_transfer(std::int64_t bytes, MessageWay way) {
    return {WorkKind::send_receive, bytes, static_cast<std::int64_t>(way), 0};
}

MatchKey key_of(const plan::Op& op) {
    const WorkKind kind = work_kind(op.kind());
    if (op.is<plan::Gemm>()) {
        const auto& gemm = op.as<plan::Gemm>();
        return key_of_product(gemm.m, gemm.n, gemm.k);
    }
    if (op.is<plan::ActivatedGemm>()) {
        const auto& gemm = op.as<plan::ActivatedGemm>();
        return key_of_product(gemm.m, gemm.n, gemm.k);
    }
    if (op.is<plan::ResidualGemm>()) {
        const auto& gemm = op.as<plan::ResidualGemm>();
        return key_of_product(gemm.m, gemm.n, gemm.k);
    }
    if (op.is<plan::BiasGradientGemm>()) {
        const auto& gemm = op.as<plan::BiasGradientGemm>();
        return key_of_product(gemm.m, gemm.n, gemm.k);
    }
    if (is_communication(kind)) return {kind, plan::message_bytes(op), 0, 0};
    return {kind, pass_of(op.phase), 0, 0};
}

MatchKey key_of(const WorkItem& item) {
    if (item.product && item.product->batch == 1)
        return key_of_product(item.product->m, item.product->n, item.product->k);
    if (item.kind == WorkKind::send_receive)
        return key_of_transfer(static_cast<std::int64_t>(item.message_bytes), item.way);
    if (is_communication(item.kind))
        return {item.kind, static_cast<std::int64_t>(item.message_bytes), 0, 0};
    return {item.kind, pass_of(item.phase), 0, 0};
}

double seconds_of(trace::Picoseconds time) {
    return static_cast<double>(time) / trace::kPsPerSecond;
}

std::vector<const plan::Op*> numbered(const plan::Plan& plan) {
    std::vector<const plan::Op*> ops;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            ops.push_back(&op);
    return ops;
}

struct Sides {
    std::vector<std::uint32_t> planned, recorded;  // op ids; work items
};

// Whether what is recorded of a kind can be what is planned of it. A product is one kernel, and so
// is attention forward, whatever the stack: where there are others of them than are planned, they
// are of another batch, layout or model. All else stacks do in kernels of their own number.
bool may_be_of_plan(const KindMatch& kind) {
    const bool one_each = kind.kind == WorkKind::gemm || kind.kind == WorkKind::attention;
    return kind.kind != WorkKind::other && (!one_each || kind.recorded == kind.planned);
}

// The time of the recorded ones among the planned ones.
template <typename Predicted>
void share_out(const RecordedRank& recorded, const Sides& both, const Predicted& predicted_s,
               RankMatch& match) {
    if (both.planned.empty() || both.recorded.empty()) return;
    double measured = 0, predicted = 0;
    trace::Picoseconds at = INT64_MAX;
    for (const std::uint32_t i : both.recorded) {
        measured += static_cast<double>(recorded.work[i].duration());
        at = std::min(at, recorded.work[i].start);
    }
    for (const std::uint32_t id : both.planned)
        predicted += predicted_s(id);
    for (const std::uint32_t id : both.planned) {
        const auto takes = static_cast<trace::Picoseconds>(measured * predicted_s(id) / predicted);
        match.shared.push_back({id, at, at + takes});
        at += takes;
    }
}

}  // namespace

MessageWay way_of(const plan::Transfer& transfer) {
    return plan::is_send(transfer.action.kind) ? MessageWay::sent : MessageWay::received;
}

RankMatch match_rank(const RecordedRank& recorded, const plan::Plan& plan,
                     const trace::Trace& predicted, const trace::Track& track) {
    const std::vector<const plan::Op*> ops = numbered(plan);
    const trace::ProgramOps& program = predicted.programs[static_cast<std::size_t>(track.program)];
    // Of several simulated steps the last.
    const auto planned_s = [&](std::uint32_t id) {
        return seconds_of(track.events[id].duration());
    };
    std::map<MatchKey, Sides> sides;
    std::map<WorkKind, KindMatch> kinds;
    const bool ways_are_known =
        std::all_of(recorded.work.begin(), recorded.work.end(), [](const WorkItem& item) {
            return item.kind != WorkKind::send_receive || item.way != MessageWay::unknown;
        });
    const plan::Program& steps = plan.programs[static_cast<std::size_t>(track.program)];
    for (std::uint32_t id = 0; id < program.op.size(); ++id) {
        if (track.events[id].end <= predicted.step_start) continue;  // of a step before
        const plan::Op& op = *ops[program.op[id]];
        // What takes no time is no kernel.
        if (planned_s(id) <= 0) continue;
        KindMatch& kind = kinds[work_kind(op.kind())];
        kind.predicted_s += planned_s(id);
        if (op.kind() == plan::OpKind::exchange && ways_are_known) {
            for (const plan::Transfer& transfer : steps.steps[program.step[id]].transfers) {
                sides[key_of_transfer(transfer.bytes, way_of(transfer))].planned.push_back(id);
                ++kind.planned;
            }
            continue;
        }
        sides[key_of(op)].planned.push_back(id);
        ++kind.planned;
    }
    for (std::uint32_t i = 0; i < recorded.work.size(); ++i) {
        const WorkItem& item = recorded.work[i];
        sides[key_of(item)].recorded.push_back(i);
        KindMatch& kind = kinds[item.kind];
        ++kind.recorded;
        kind.measured_s += seconds_of(item.duration());
    }
    for (auto& [kind, of_kind] : kinds)
        of_kind.kind = kind;
    RankMatch match;
    std::vector<std::uint32_t> left;
    for (const auto& [key, both] : sides) {
        if (both.planned.size() != both.recorded.size()) {
            left.insert(left.end(), both.recorded.begin(), both.recorded.end());
            continue;
        }
        for (std::size_t i = 0; i < both.planned.size(); ++i) {
            match.ops.emplace_back(both.planned[i], both.recorded[i]);
            match.by_op_s += seconds_of(recorded.work[both.recorded[i]].duration());
        }
        match.by_op += static_cast<std::int64_t>(both.planned.size());
        kinds[std::get<0>(key)].by_op += static_cast<std::int64_t>(both.planned.size());
    }
    std::map<WorkKind, Sides> by_kind;
    for (const auto& [key, both] : sides)
        if (both.planned.size() != both.recorded.size()) {
            Sides& of_kind = by_kind[std::get<0>(key)];
            of_kind.planned.insert(of_kind.planned.end(), both.planned.begin(), both.planned.end());
            of_kind.recorded.insert(of_kind.recorded.end(), both.recorded.begin(),
                                    both.recorded.end());
        }
    std::erase_if(by_kind, [&](const auto& kind) { return !may_be_of_plan(kinds[kind.first]); });
    for (const auto& [kind, both] : by_kind)
        share_out(recorded, both, planned_s, match);
    std::map<std::string, UnmatchedName> unmatched;
    for (const std::uint32_t i : left) {
        const WorkItem& item = recorded.work[i];
        KindMatch& kind = kinds[item.kind];
        const double seconds = seconds_of(item.duration());
        // Something of the kind is planned that was not matched one by one.
        if (kind.planned > kind.by_op && may_be_of_plan(kind)) {
            ++kind.by_kind;
            ++match.by_kind;
            match.by_kind_s += seconds;
            continue;
        }
        ++match.unmatched;
        match.unmatched_s += seconds;
        UnmatchedName& named = unmatched[recorded.names[item.name]];
        named.name = recorded.names[item.name];
        named.kind = item.kind;
        ++named.count;
        named.seconds += seconds;
    }
    for (const auto& [kind, of_kind] : kinds)
        match.kinds.push_back(of_kind);
    for (auto& [name, named] : unmatched)
        match.names.push_back(std::move(named));
    std::stable_sort(match.names.begin(), match.names.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    return match;
}

namespace {

// By planned op, the mean time in which nothing ran before it: of its own item and of those before
// that are no op's. A mean, so that all together are what the step lost. What is left at the end,
// beside an optimizer that is matched as a whole, is before the last kernel.
std::map<std::uint32_t, trace::Picoseconds> idle_before(const RecordedRank& rank,
                                                        const RankMatch& match,
                                                        const trace::Trace& predicted,
                                                        const trace::ProgramOps& plan) {
    std::map<std::uint32_t, std::uint32_t> planned;  // by work item
    for (const auto& [id, item] : match.ops)
        planned[item] = plan.op[id];
    struct Sum {
        trace::Picoseconds idle = 0;
        std::int64_t runs = 0;
    };
    std::map<std::uint32_t, Sum> sums;
    trace::Picoseconds busy_until = rank.steps[rank.typical].start, idle = 0;
    for (std::uint32_t item = 0; item < rank.work.size(); ++item) {
        idle += std::max<trace::Picoseconds>(0, rank.work[item].start - busy_until);
        busy_until = std::max(busy_until, rank.work[item].end);
        const auto op = planned.find(item);
        if (op == planned.end()) continue;
        sums[op->second].idle += std::exchange(idle, 0);
        ++sums[op->second].runs;
    }
    idle += std::max<trace::Picoseconds>(0, rank.steps[rank.typical].end - busy_until);
    const auto last = std::find_if(plan.op.rbegin(), plan.op.rend(), [&](std::uint32_t op) {
        return predicted.ops[op].stream == plan::Stream::compute;
    });
    if (last != plan.op.rend()) {
        Sum& sum = sums[*last];
        sum.idle += idle;
        if (sum.runs == 0) sum.runs = std::count(plan.op.begin(), plan.op.end(), *last);
    }
    std::map<std::uint32_t, trace::Picoseconds> means;
    for (const auto& [op, sum] : sums)
        means[op] = sum.idle / sum.runs;
    return means;
}

}  // namespace

trace::Trace matched_trace(const std::vector<const RecordedRank*>& ranks,
                           const std::vector<RankMatch>& matches, const trace::Trace& predicted,
                           const std::vector<const trace::Track*>& tracks) {
    ORRERY_CHECK(ranks.size() == matches.size() && ranks.size() == tracks.size(),
                 "a match without its rank");
    trace::Trace out;
    out.origin = trace::Origin::measured;
    out.scenario_json = predicted.scenario_json;
    out.facts.backend = "recorded";
    out.facts.ranks_per_device = 1;
    out.ops = predicted.ops;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        const RecordedRank& rank = *ranks[r];
        const trace::ProgramOps& plan =
            predicted.programs[static_cast<std::size_t>(tracks[r]->program)];
        trace::ProgramOps program;
        program.pipeline_rank = plan.pipeline_rank;
        program.actions = plan.actions;
        program.live_bytes = plan.live_bytes;
        trace::Track track;
        std::vector<trace::Event> events;
        track.rank = rank.rank >= 0 ? rank.rank : static_cast<std::int64_t>(r);
        track.program = static_cast<std::int32_t>(r);
        const trace::Picoseconds begin = rank.steps[rank.typical].start;
        const auto idle = idle_before(rank, matches[r], predicted, plan);
        std::vector<SharedTime> all = matches[r].shared;
        for (const auto& [id, item] : matches[r].ops)
            all.push_back({id, rank.work[item].start, rank.work[item].end});
        // A program's steps ascend: where their number falls a reader takes it for another step's.
        std::stable_sort(all.begin(), all.end(),
                         [](const SharedTime& a, const SharedTime& b) { return a.op < b.op; });
        // An exchange is whole when the last of its transfers is.
        std::vector<SharedTime> whole;
        for (const SharedTime& one : all) {
            if (whole.empty() || whole.back().op != one.op) {
                whole.push_back(one);
                continue;
            }
            whole.back().start = std::min(whole.back().start, one.start);
            whole.back().end = std::max(whole.back().end, one.end);
        }
        for (const SharedTime& one : whole) {
            program.op.push_back(plan.op[one.op]);
            program.step.push_back(plan.step[one.op]);
            program.layer.push_back(plan.layer[one.op]);
            trace::Event event;
            event.ready = event.start = one.start - begin;
            if (const auto late = idle.find(plan.op[one.op]); late != idle.end())
                event.ready -= late->second;
            event.end = one.end - begin;
            events.push_back(event);
            out.step_end = std::max(out.step_end, event.end);
        }
        track.events = events;
        out.facts.step_times_s.push_back(rank.step_s());
        out.step_end = std::max(out.step_end, rank.steps[rank.typical].duration());
        out.programs.push_back(std::move(program));
        out.tracks.push_back(std::move(track));
    }
    return out;
}

}  // namespace orrery::compare
