#include "sim/search/schedule_skeleton.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

using plan::Action;
using plan::ActionKind;

// A pipeline of p ranks is full after at most 2p micro-batches.
constexpr std::int64_t kFewer = 3;
constexpr std::int64_t kMore = 4;

constexpr auto kForward = static_cast<std::size_t>(ActionKind::forward);
constexpr auto kBackward = static_cast<std::size_t>(ActionKind::backward);
constexpr auto kInput = static_cast<std::size_t>(ActionKind::backward_input);
constexpr auto kWeight = static_cast<std::size_t>(ActionKind::backward_weight);

double extrapolated(double more, double fewer, double beyond) {
    return more + beyond * (more - fewer);
}

InFlight less(const InFlight& of, const InFlight& other) {
    return {of.until_backward - other.until_backward, of.until_weights - other.until_weights,
            of.between_halves - other.between_halves};
}

InFlight extrapolated(const InFlight& more, const InFlight& fewer, double beyond) {
    return {extrapolated(more.until_backward, fewer.until_backward, beyond),
            extrapolated(more.until_weights, fewer.until_weights, beyond),
            extrapolated(more.between_halves, fewer.between_halves, beyond)};
}

// By stage and pass in one row.
std::vector<PassTimes> in_a_row(const std::vector<std::array<PassTimes, 4>>& times) {
    std::vector<PassTimes> passes;
    passes.reserve(4 * times.size());
    for (const std::array<PassTimes, 4>& of : times)
        passes.insert(passes.end(), of.begin(), of.end());
    return passes;
}

}  // namespace

void begin_pass(ActionKind pass, InFlight& of) {
    if (pass == ActionKind::forward) {
        ++of.until_backward;
        ++of.until_weights;
    }
    if (pass == ActionKind::backward_input) ++of.between_halves;
}

void end_pass(ActionKind pass, InFlight& of) {
    if (plan::makes_input_gradient(pass)) --of.until_backward;
    if (plan::ends_micro_batch(pass)) --of.until_weights;
    if (pass == ActionKind::backward_weight) --of.between_halves;
}

std::int64_t ScheduleSkeleton::walked(std::int64_t micro_batches, std::int64_t pipeline) {
    return std::min(micro_batches, kMore * pipeline + 1);
}

ScheduleSkeleton::ScheduleSkeleton(const plan::ScheduleKind& kind, const plan::ScheduleShape& shape)
    : ScheduleSkeleton([&kind](const plan::ScheduleShape& of) { return kind.schedule(of); },
                       shape) {}

ScheduleSkeleton::ScheduleSkeleton(const Order& order, const plan::ScheduleShape& shape) {
    plan::ScheduleShape more = shape, fewer = shape;
    const auto pipeline = static_cast<std::int64_t>(shape.pipeline);
    const bool all = shape.micro_batches <= kMore * pipeline;
    if (!all) {
        more.micro_batches = static_cast<std::int32_t>(kMore * pipeline);
        fewer.micro_batches = static_cast<std::int32_t>(kFewer * pipeline);
        more_than_fewer_ = more.micro_batches - fewer.micro_batches;
    }
    micro_batches_ = more.micro_batches;
    const plan::Schedule schedule = order(more);
    stages_.resize(static_cast<std::size_t>(shape.pipeline));
    for (std::int32_t stage = 0; stage < schedule.placement.stages(); ++stage)
        stages_[static_cast<std::size_t>(schedule.placement.rank_of(stage))].push_back(stage);
    more_ = walk_of(schedule, more.micro_batches);
    fullest_ = fullest_of(schedule);
    if (!all) {
        const plan::Schedule shorter = order(fewer);
        fewer_ = walk_of(shorter, fewer.micro_batches);
        fullest_of_fewer_ = fullest_of(shorter);
    }
    part_moments();
}

void ScheduleSkeleton::part_moments() {
    for (std::size_t rank = 0; rank < fullest_.size(); ++rank) {
        const std::vector<Moment>& all = fullest_[rank];
        const std::vector<Moment>& fewer =
            fullest_of_fewer_.empty() ? fullest_[rank] : fullest_of_fewer_[rank];
        std::vector<Grown>& different = moments_.emplace_back();
        for (std::size_t i = 0; i < all.size(); ++i) {
            bool known = false;
            for (std::size_t j = 0; j < i && !known; ++j)
                known = all[i] == all[j] && fewer[i] == fewer[j];
            for (std::size_t chunk = 0; !known && chunk < all[i].size(); ++chunk)
                different.push_back({all[i][chunk], less(all[i][chunk], fewer[i][chunk])});
        }
    }
}

double ScheduleSkeleton::beyond(std::int64_t micro_batches) const {
    return static_cast<double>(micro_batches - micro_batches_) /
           static_cast<double>(more_than_fewer_);
}

ScheduleSkeleton::Walk ScheduleSkeleton::walk_of(const plan::Schedule& schedule,
                                                 std::int32_t micro_batches) {
    const plan::StagePlacement& placement = schedule.placement;
    const auto m = static_cast<std::size_t>(micro_batches);
    const auto stages = static_cast<std::size_t>(placement.stages());
    std::vector<std::int32_t> forward(stages * m, -1), backward(stages * m, -1);
    const auto at = [&](std::int32_t stage, std::int32_t micro_batch) {
        return static_cast<std::size_t>(stage) * m + static_cast<std::size_t>(micro_batch);
    };
    const std::int32_t last = placement.stages() - 1;
    std::vector<std::size_t> next(schedule.grid.size());
    std::vector<std::int32_t> last_of(stages * kPassesOfStage, -1);
    Walk walk;
    walk.nodes.reserve(2 * stages * m);
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t rank = 0; rank < schedule.grid.size(); ++rank) {
            const auto& row = schedule.grid[rank];
            for (; next[rank] < row.size(); ++next[rank]) {
                const Action& action = row[next[rank]];
                Node node;
                node.rank = static_cast<std::int32_t>(rank);
                node.pass = static_cast<std::int32_t>(kPassesOfStage) * action.stage +
                            static_cast<std::int32_t>(action.kind);
                const bool onward = action.kind == ActionKind::forward;
                const bool back = plan::makes_input_gradient(action.kind);
                const std::int32_t from = onward ? action.stage - 1 : action.stage + 1;
                const std::int32_t to = onward ? action.stage + 1 : action.stage - 1;
                const auto away = [&](std::int32_t stage) {
                    return stage >= 0 && stage <= last &&
                           placement.rank_of(stage) != static_cast<std::int32_t>(rank);
                };
                if (onward && action.stage > 0)
                    node.waits_for = forward[at(from, action.micro_batch)];
                if (back)
                    node.waits_for = action.stage == last ? forward[at(last, action.micro_batch)]
                                                          : backward[at(from, action.micro_batch)];
                if (((onward && action.stage > 0) || back) && node.waits_for < 0) break;
                node.receives = (onward || back) && away(from);
                node.sends = node.sends_alone = (onward || back) && away(to);
                const auto number = static_cast<std::int32_t>(walk.nodes.size());
                if (onward) forward[at(action.stage, action.micro_batch)] = number;
                if (back) backward[at(action.stage, action.micro_batch)] = number;
                last_of[static_cast<std::size_t>(node.pass)] = number;
                walk.nodes.push_back(node);
                moved = true;
            }
        }
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank)
        ORRERY_CHECK(next[rank] == schedule.grid[rank].size(), "a schedule that cannot run");
    // A message that is received together with one that is sent.
    const auto node_of = [&](const Action& transfer) {
        const bool activation = plan::goes_onward(transfer.kind);
        return (activation ? forward : backward)[at(transfer.stage, transfer.micro_batch)];
    };
    for (const auto& row : plan::add_transfers(schedule.grid, placement))
        for (const plan::LoweredStep& step : row) {
            if (!step.with || !plan::is_transfer(step.action.kind)) continue;
            const bool first_sends = plan::is_send(step.action.kind);
            if (first_sends == plan::is_send(step.with->kind)) continue;
            const Action& sent = first_sends ? step.action : *step.with;
            const Action& received = first_sends ? *step.with : step.action;
            walk.nodes[static_cast<std::size_t>(node_of(received))].with = node_of(sent);
            walk.nodes[static_cast<std::size_t>(node_of(sent))].sends_alone = false;
        }
    std::copy_if(last_of.begin(), last_of.end(), std::back_inserter(walk.last),
                 [](std::int32_t node) { return node >= 0; });
    return walk;
}

std::vector<std::vector<Moment>> ScheduleSkeleton::fullest_of(
    const plan::Schedule& schedule) const {
    std::vector<std::vector<Moment>> all;
    for (std::size_t rank = 0; rank < schedule.grid.size(); ++rank) {
        const std::vector<Action>& row = schedule.grid[rank];
        // Where most is in flight of each kind, and of kinds together: which of these is the most
        // in bytes is the layout's.
        constexpr std::size_t kWays = 7;
        std::array<std::size_t, kWays> most{};  // actions of the row, up to the first such moment
        std::array<std::int32_t, kWays> largest{};
        std::int32_t to_backward = 0, to_weights = 0, between = 0;
        for (std::size_t a = 0; a < row.size(); ++a) {
            const ActionKind pass = row[a].kind;
            to_backward += pass == ActionKind::forward ? 1 : 0;
            to_weights += pass == ActionKind::forward ? 1 : 0;
            between += pass == ActionKind::backward_input ? 1 : 0;
            // Way + 1 has a bit for each kind.
            const std::array<std::int32_t, kWays> counts = {to_backward,
                                                            to_weights,
                                                            to_backward + to_weights,
                                                            between,
                                                            to_backward + between,
                                                            to_weights + between,
                                                            to_backward + to_weights + between};
            for (std::size_t way = 0; way < kWays; ++way) {
                if (counts[way] <= largest[way]) continue;
                largest[way] = counts[way];
                most[way] = a + 1;
            }
            to_backward -= plan::makes_input_gradient(pass) ? 1 : 0;
            to_weights -= plan::ends_micro_batch(pass) ? 1 : 0;
            between -= pass == ActionKind::backward_weight ? 1 : 0;
        }
        std::vector<Moment>& moments = all.emplace_back(kWays, Moment(stages_[rank].size()));
        Moment now(stages_[rank].size());
        const std::size_t end = *std::max_element(most.begin(), most.end());
        for (std::size_t a = 0; a < end; ++a) {
            const auto chunk = std::find(stages_[rank].begin(), stages_[rank].end(), row[a].stage);
            InFlight& of = now[static_cast<std::size_t>(chunk - stages_[rank].begin())];
            begin_pass(row[a].kind, of);
            for (std::size_t way = 0; way < kWays; ++way)
                if (most[way] == a + 1) moments[way] = now;
            end_pass(row[a].kind, of);
        }
    }
    return all;
}

std::vector<Moment> ScheduleSkeleton::fullest(std::size_t rank, std::int64_t micro_batches) const {
    std::vector<Moment> moments = fullest_[rank];
    if (fewer_.nodes.empty()) return moments;
    const double more = beyond(micro_batches);
    for (std::size_t i = 0; i < moments.size(); ++i)
        for (std::size_t chunk = 0; chunk < moments[i].size(); ++chunk)
            moments[i][chunk] =
                extrapolated(moments[i][chunk], fullest_of_fewer_[rank][i][chunk], more);
    return moments;
}

double ScheduleSkeleton::most(std::size_t rank, std::int64_t micro_batches,
                              const std::vector<InFlight>& bytes) const {
    const std::vector<Grown>& moments = moments_[rank];
    const double more = fewer_.nodes.empty() ? 0 : beyond(micro_batches);
    double most = 0;
    for (std::size_t i = 0; i < moments.size(); i += bytes.size()) {
        double sum = 0;
        for (std::size_t chunk = 0; chunk < bytes.size(); ++chunk) {
            const auto& [now, grown] = moments[i + chunk];
            sum +=
                (now.until_backward + more * grown.until_backward) * bytes[chunk].until_backward +
                (now.until_weights + more * grown.until_weights) * bytes[chunk].until_weights +
                (now.between_halves + more * grown.between_halves) * bytes[chunk].between_halves;
        }
        most = std::max(most, sum);
    }
    return most;
}

template <typename Visit>
PipelineTimes ScheduleSkeleton::run(const Walk& walk, const std::vector<PassTimes>& times,
                                    double hop, bool blocks, Visit visit) const {
    // What a pass that waits for nothing has waited for: without a branch in this loop, which takes
    // most of what pricing a layout does.
    constexpr double kLongAgo = -1e300;
    struct Rank {
        double free = 0;  // from the end of its last pass on
        double told = 0;  // the end of what that told others: what the next asks them comes after
        double sending = 0;  // the end of its last message, if nothing waits for that here
        double gathers = 0;  // from when on it can gather parameters
    };
    std::vector<Rank> ranks(stages_.size());
    // By node, behind one for none.
    const auto all = std::make_unique_for_overwrite<double[]>(walk.nodes.size() + 1);
    all[0] = kLongAgo;
    double* const ready = all.get() + 1;
    const std::array<double, 2> to_receive = {0, hop}, to_send = {0, blocks ? hop : 0};
    const double goes_on = blocks ? kLongAgo : hop;
    const auto at_most_hop = [hop](double beside) { return std::min(std::max(beside, 0.0), hop); };
    double* own = ready;
    for (const Node& node : walk.nodes) {
        const PassTimes& pass = times[static_cast<std::size_t>(node.pass)];
        Rank& rank = ranks[static_cast<std::size_t>(node.rank)];
        TimedPass timed;
        timed.free = rank.free;
        timed.sent = std::max(ready[node.waits_for], ready[node.with]);
        timed.received = timed.sent + to_receive[node.receives];
        // The pass before it ran beside the message, and what it sent goes beside this one.
        const double beside = at_most_hop(std::min(timed.received, timed.free) - timed.sent);
        const double asked = std::max(timed.received, pass.lead > 0 ? rank.told : kLongAgo);
        const double came = node.waits_for < 0 ? kLongAgo : asked + pass.lead;
        timed.gathered = pass.gathers > 0 ? rank.gathers + pass.gathers : 0;
        timed.start = std::max({timed.free + pass.slowed * beside, came, timed.gathered});
        const double sending = at_most_hop(rank.sending - timed.start);
        timed.end = timed.start + pass.busy + pass.slowed * sending;
        rank.told = timed.end + pass.tail;
        *own++ = rank.told;
        rank.sending = node.sends_alone ? rank.told + goes_on : rank.sending;
        rank.gathers = timed.end + pass.gathers_on;
        rank.free = timed.freed = timed.end + to_send[node.sends];
        visit(node, timed);
    }
    PipelineTimes out;
    for (const Rank& rank : ranks)
        out.rank_ends.push_back(rank.free);
    // A rank's passes of one kind end one after another.
    for (const std::int32_t node : walk.last)
        out.end = std::max(out.end, ready[node]);
    return out;
}

PipelineTimes ScheduleSkeleton::run(std::int64_t micro_batches,
                                    const std::vector<std::array<PassTimes, 4>>& times, double hop,
                                    bool blocks) const {
    static_assert(kForward == 0 && kBackward == 1 && kInput == 2 && kWeight == 3);
    const std::vector<PassTimes> passes = in_a_row(times);
    const auto ignored = [](const Node&, const TimedPass&) {};
    PipelineTimes out = run(more_, passes, hop, blocks, ignored);
    if (fewer_.nodes.empty()) return out;
    const PipelineTimes shorter = run(fewer_, passes, hop, blocks, ignored);
    const double more = beyond(micro_batches);
    out.end = extrapolated(out.end, shorter.end, more);
    for (std::size_t rank = 0; rank < out.rank_ends.size(); ++rank)
        out.rank_ends[rank] = extrapolated(out.rank_ends[rank], shorter.rank_ends[rank], more);
    return out;
}

std::vector<std::vector<TimedPass>> ScheduleSkeleton::timed(
    const plan::Schedule& schedule, const std::vector<std::array<PassTimes, 4>>& times, double hop,
    bool blocks) const {
    std::vector<std::vector<TimedPass>> passes(stages_.size());
    const auto keep = [&](const Node& node, TimedPass pass) {
        const auto rank = static_cast<std::size_t>(node.rank);
        pass.action = schedule.grid[rank][passes[rank].size()];
        if (node.waits_for < 0) pass.sent = pass.received = 0;
        if (node.receives)
            pass.from = schedule.placement.rank_of(
                pass.action.stage + (pass.action.kind == ActionKind::forward ? -1 : 1));
        passes[rank].push_back(pass);
    };
    std::int32_t micro_batches = 0;
    for (const Action& action : schedule.grid.front())
        micro_batches = std::max(micro_batches, action.micro_batch + 1);
    run(walk_of(schedule, micro_batches), in_a_row(times), hop, blocks, keep);
    return passes;
}

}  // namespace orrery::sim
