#include "sim/search/schedule_skeleton.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "plan/check.hpp"
#include "plan/schedule/exchanges.hpp"
#include "sim/search/blocking_walk.hpp"
#include "sim/search/pass_rows.hpp"

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

bool has_halves(const std::vector<Action>& row) {
    return std::any_of(row.begin(), row.end(), [](const Action& action) {
        return action.kind == ActionKind::backward_input;
    });
}

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

// Of a pass in each of several steps; as in TimedPass.
template <typename Seconds>
struct Timing {
    Seconds free, sent, received, gathered, start, end;
};

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

void PipelinePace::add(const std::array<PassTimes, 4>& stage) {
    if (runs.empty() || !(runs.back().passes == stage)) runs.push_back({0, stage});
    ++runs.back().stages;
}

std::vector<const std::array<PassTimes, 4>*> PipelinePace::by_stage() const {
    std::vector<const std::array<PassTimes, 4>*> stages;
    for (const Run& run : runs)
        stages.insert(stages.end(), static_cast<std::size_t>(run.stages), &run.passes);
    return stages;
}

ScheduleSkeleton::ScheduleSkeleton(const plan::ScheduleKind& kind, const plan::ScheduleShape& shape)
    : ScheduleSkeleton([&kind](const plan::ScheduleShape& of) { return kind.schedule(of); },
                       shape) {}

ScheduleSkeleton::ScheduleSkeleton(const Order& order, const plan::ScheduleShape& shape)
    : order_(order), more_(shape), fewer_(shape), walks_(std::make_unique<Walks>()) {
    const auto pipeline = static_cast<std::int64_t>(shape.pipeline);
    has_fewer_ = shape.micro_batches > kMore * pipeline;
    if (has_fewer_) {
        more_.micro_batches = static_cast<std::int32_t>(kMore * pipeline);
        fewer_.micro_batches = static_cast<std::int32_t>(kFewer * pipeline);
        more_than_fewer_ = more_.micro_batches - fewer_.micro_batches;
    }
    micro_batches_ = more_.micro_batches;
    const plan::Schedule& schedule = walks_->of_more = order(more_);
    stages_.resize(static_cast<std::size_t>(shape.pipeline));
    for (std::int32_t stage = 0; stage < schedule.placement.stages(); ++stage) {
        rank_of_.push_back(schedule.placement.rank_of(stage));
        stages_[static_cast<std::size_t>(rank_of_.back())].push_back(stage);
    }
    transfers_.resize(stages_.size());
    for (std::size_t stage = 1; stage < rank_of_.size(); ++stage) {
        const std::int32_t from = rank_of_[stage - 1], to = rank_of_[stage];
        if (from == to) continue;
        add_transfer(transfers_[static_cast<std::size_t>(from)], from, to, shape.pipeline);
        add_transfer(transfers_[static_cast<std::size_t>(to)], to, from, shape.pipeline);
    }
    counts_.resize(rank_of_.size());
    for (const auto& row : schedule.grid) {
        for (const Action& action : row)
            ++counts_[static_cast<std::size_t>(action.stage)]
                     [static_cast<std::size_t>(action.kind)];
        ends_with_.push_back(plan::makes_input_gradient(row.back().kind) ? row.back().stage : -1);
    }
    fullest_ = fullest_of(schedule);
    if (has_fewer_) fullest_of_fewer_ = fullest_of(walks_->of_fewer = order(fewer_));
    part_moments();
}

plan::Schedule ScheduleSkeleton::take(plan::Schedule& made,
                                      const plan::ScheduleShape& shape) const {
    const std::lock_guard lock(walks_->taken);
    return made.grid.empty() ? order_(shape) : std::exchange(made, {});
}

const ScheduleSkeleton::Walks& ScheduleSkeleton::walks() const {
    std::call_once(walks_->made, [&] {
        walks_->more = walk_of(take(walks_->of_more, more_), more_.micro_batches);
        if (has_fewer_)
            walks_->fewer = walk_of(take(walks_->of_fewer, fewer_), fewer_.micro_batches);
    });
    return *walks_;
}

const ScheduleSkeleton::Walks& ScheduleSkeleton::blocking_walks() const {
    std::call_once(walks_->made_blocking, [&] {
        walks_->blocking_more = BlockingWalk(take(walks_->of_more, more_));
        if (has_fewer_) walks_->blocking_fewer = BlockingWalk(take(walks_->of_fewer, fewer_));
    });
    return *walks_;
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
    // In turns of one pass of each rank, none of which waits for another: a processor then has
    // several under way while it walks.
    for (bool moved = true; moved;) {
        const auto turn = static_cast<std::int32_t>(walk.nodes.size());
        for (std::size_t rank = 0; rank < schedule.grid.size(); ++rank) {
            if (next[rank] == schedule.grid[rank].size()) continue;
            const Action& action = schedule.grid[rank][next[rank]];
            Node node;
            node.rank = static_cast<std::int32_t>(rank);
            node.pass = static_cast<std::int32_t>(kPassesOfStage) * action.stage +
                        static_cast<std::int32_t>(action.kind);
            const bool onward = action.kind == ActionKind::forward;
            const bool back = plan::makes_input_gradient(action.kind);
            const std::int32_t from = onward ? action.stage - 1 : action.stage + 1;
            const std::int32_t to = onward ? action.stage + 1 : action.stage - 1;
            const auto away = [&](std::int32_t stage) {
                return stage >= 0 && stage <= last && placement.rank_of(stage) != node.rank;
            };
            const bool waits = (onward && action.stage > 0) || back;
            if (waits)
                node.waits_for = onward || action.stage == last
                                     ? forward[at(onward ? from : last, action.micro_batch)]
                                     : backward[at(from, action.micro_batch)];
            if (waits && (node.waits_for < 0 || node.waits_for >= turn)) continue;
            node.receives = (onward || back) && away(from);
            node.sends_alone = (onward || back) && away(to);
            const auto number = static_cast<std::int32_t>(walk.nodes.size());
            if (onward) forward[at(action.stage, action.micro_batch)] = number;
            if (back) backward[at(action.stage, action.micro_batch)] = number;
            last_of[static_cast<std::size_t>(node.pass)] = number;
            walk.nodes.push_back(node);
            ++next[rank];
        }
        moved = static_cast<std::size_t>(turn) < walk.nodes.size();
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank)
        ORRERY_CHECK(next[rank] == schedule.grid[rank].size(), "a schedule that cannot run");
    // A message that is received together with one that is sent.
    const auto node_of = [&](const Action& transfer) {
        const bool activation = plan::goes_onward(transfer.kind);
        return (activation ? forward : backward)[at(transfer.stage, transfer.micro_batch)];
    };
    for (const plan::SentAndReceived& both : plan::exchanges_of(schedule.grid, placement)) {
        const std::int32_t sent = node_of(both.sent);
        walk.nodes[static_cast<std::size_t>(node_of(both.received))].with = sent;
        walk.nodes[static_cast<std::size_t>(sent)].sends_alone = false;
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
        // Without halves there is nothing between them, and the others are fullest at once.
        constexpr std::size_t kBetween = 3;
        const bool halves = has_halves(row);
        const std::size_t ways = halves ? kWays : 1;
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
            const bool adds = pass == ActionKind::forward || pass == ActionKind::backward_input;
            for (std::size_t way = 0; adds && way < ways; ++way) {
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
            for (std::size_t way = 0; way < ways; ++way)
                if (most[way] == a + 1) moments[way] = now;
            end_pass(row[a].kind, of);
        }
        for (std::size_t way = 1; !halves && way < kWays; ++way)
            if (way != kBetween) moments[way] = moments.front();
    }
    return all;
}

std::vector<Moment> ScheduleSkeleton::fullest(std::size_t rank, std::int64_t micro_batches) const {
    std::vector<Moment> moments = fullest_[rank];
    if (!has_fewer_) return moments;
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
    const double more = has_fewer_ ? beyond(micro_batches) : 0;
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

template <typename Seconds, typename Visit>
std::vector<PipelineTimes> ScheduleSkeleton::run(const Walk& walk,
                                                 std::span<const PipelinePace* const> paces,
                                                 Visit visit) const {
    struct Rank {
        Seconds free{};     // from the end of its last pass on
        Seconds told{};     // the end of what that told others: what the next asks them comes after
        Seconds sending{};  // the end of its last message, if nothing waits for that here
        Seconds gathers{};  // from when on it can gather parameters
    };
    const Passes<Seconds> passes(paces);
    std::vector<Rank> ranks(stages_.size());
    // By node, behind one for none.
    const auto all = std::make_unique_for_overwrite<Seconds[]>(walk.nodes.size() + 1);
    const auto none = in_all<Seconds>(0);
    all[0] = in_all<Seconds>(kLongAgo);
    Seconds* const ready = all.get() + 1;
    Seconds hop{};
    for (std::size_t i = 0; i < paces.size(); ++i)
        set_lane(hop, i, paces[i]->hop);
    const std::array<Seconds, 2> to_receive = {none, hop};
    const auto at_most_hop = [&](const Seconds& beside) {
        return smaller(larger(beside, none), hop);
    };
    Seconds* own = ready;
    for (const Node& node : walk.nodes) {
        const std::int32_t row = passes.row_of[static_cast<std::size_t>(node.pass)];
        const Pass<Seconds>& pass = passes.rows[static_cast<std::size_t>(row)];
        Rank& rank = ranks[static_cast<std::size_t>(node.rank)];
        Timing<Seconds> timing;
        timing.free = rank.free;
        timing.sent = larger(ready[node.waits_for], ready[node.with]);
        timing.received = timing.sent + to_receive[node.receives];
        // The pass before it ran beside the message, and what it sent goes beside this one.
        const Seconds beside = at_most_hop(smaller(timing.received, timing.free) - timing.sent);
        const Seconds came = larger(timing.received, rank.told + pass.asks) + pass.lead;
        timing.gathered = rank.gathers + pass.gathers;
        timing.start = larger(larger(timing.free + pass.slowed * beside, came), timing.gathered);
        const Seconds sending = at_most_hop(rank.sending - timing.start);
        timing.end = timing.start + pass.busy[0] + pass.slowed * sending;
        rank.told = timing.end + pass.tail;
        *own++ = rank.told;
        if (node.sends_alone) rank.sending = rank.told + hop;
        rank.gathers = timing.end + pass.gathers_on;
        rank.free = timing.end;
        visit(node, timing);
    }
    std::vector<PipelineTimes> out(paces.size());
    for (std::size_t i = 0; i < paces.size(); ++i) {
        for (const Rank& rank : ranks)
            out[i].rank_ends.push_back(lane(rank.free, i));
        // A rank's passes of one kind end one after another.
        for (const std::int32_t node : walk.last)
            out[i].end = std::max(out[i].end, lane(ready[node], i));
    }
    return out;
}

std::vector<PipelineTimes> ScheduleSkeleton::run_alike(
    std::span<const PipelinePace* const> paces) const {
    static_assert(kForward == 0 && kBackward == 1 && kInput == 2 && kWeight == 3);
    if (paces.front()->blocks)
        return extrapolated_times(paces, blocking_walks().blocking_more.run(paces),
                                  [&] { return blocking_walks().blocking_fewer.run(paces); });
    const auto run_over = [&](const Walk& walk) {
        const auto ignored = [](const Node&, const auto& /*timing*/) {};
        return paces.size() == 1 ? run<double>(walk, paces, ignored)
                                 : run<Four>(walk, paces, ignored);
    };
    return extrapolated_times(paces, run_over(walks().more),
                              [&] { return run_over(walks().fewer); });
}

template <typename Shorter>
std::vector<PipelineTimes> ScheduleSkeleton::extrapolated_times(
    std::span<const PipelinePace* const> paces, std::vector<PipelineTimes> all,
    Shorter run_shorter) const {
    if (has_fewer_) {
        const std::vector<PipelineTimes> shorter = run_shorter();
        for (std::size_t i = 0; i < all.size(); ++i) {
            const double more = beyond(paces[i]->micro_batches);
            all[i].end = extrapolated(all[i].end, shorter[i].end, more);
            for (std::size_t rank = 0; rank < all[i].rank_ends.size(); ++rank)
                all[i].rank_ends[rank] =
                    extrapolated(all[i].rank_ends[rank], shorter[i].rank_ends[rank], more);
        }
    }
    return all;
}

std::vector<PipelineTimes> ScheduleSkeleton::run(std::span<const PipelinePace* const> paces) const {
    std::vector<PipelineTimes> out;
    out.reserve(paces.size());
    for (std::size_t first = 0, end = 0; first < paces.size(); first = end) {
        while (end < paces.size() && end - first < kLanes<Four> &&
               paces[end]->blocks == paces[first]->blocks)
            ++end;
        std::vector<PipelineTimes> times = run_alike(paces.subspan(first, end - first));
        std::move(times.begin(), times.end(), std::back_inserter(out));
    }
    return out;
}

PipelineTimes ScheduleSkeleton::run(const PipelinePace& pace) const {
    const PipelinePace* const one = &pace;
    return std::move(run(std::span(&one, 1)).front());
}

// A stage begins when what its first micro-batch makes has come up to it, its rank then runs all of
// its passes, and what the last of these makes goes down to the first stage.
std::vector<double> ScheduleSkeleton::least_rank_ends(const PipelinePace& pace) const {
    std::vector<double> ends(stages_.size());
    if (has_fewer_) return ends;
    const std::vector<const std::array<PassTimes, 4>*> passes = pace.by_stage();
    const auto hop_between = [&](std::size_t stage, std::size_t next) {
        return rank_of_[stage] == rank_of_[next] ? 0 : pace.hop;
    };
    double begins = 0;
    for (std::size_t stage = 0; stage < passes.size(); ++stage) {
        if (stage > 0) {
            const PassTimes& before = (*passes[stage - 1])[kForward];
            begins =
                std::max(0.0, begins + before.busy + before.tail + hop_between(stage - 1, stage) +
                                  (*passes[stage])[kForward].lead);
        }
        double& end = ends[static_cast<std::size_t>(rank_of_[stage])];
        if (end == 0) end = begins;
        for (std::size_t pass = 0; pass < kPassesOfStage; ++pass)
            end += counts_[stage][pass] * (*passes[stage])[pass].busy;
    }
    double ended = 0;  // of the last gradient that the stage hands on
    for (std::size_t stage = passes.size(); stage-- > 0;) {
        double& end = ends[static_cast<std::size_t>(rank_of_[stage])];
        if (stage + 1 < passes.size()) {
            double least = std::numeric_limits<double>::infinity();  // from its input on
            for (const std::size_t pass : {kBackward, kInput})
                if (counts_[stage][pass] > 0)
                    least =
                        std::min(least, (*passes[stage])[pass].lead + (*passes[stage])[pass].busy);
            ended += hop_between(stage, stage + 1) + least;
            end = std::max(end, ended);
        }
        if (ends_with_[static_cast<std::size_t>(rank_of_[stage])] ==
            static_cast<std::int32_t>(stage))
            ended = std::max(ended, end);
    }
    return ends;
}

std::vector<std::vector<TimedPass>> ScheduleSkeleton::timed(const plan::Schedule& schedule,
                                                            const PipelinePace& pace) const {
    if (pace.blocks) return BlockingWalk(schedule).timed(schedule, pace);
    std::vector<std::vector<TimedPass>> passes(stages_.size());
    const auto keep = [&](const Node& node, const Timing<double>& timing) {
        const auto rank = static_cast<std::size_t>(node.rank);
        TimedPass pass;
        pass.action = schedule.grid[rank][passes[rank].size()];
        pass.free = timing.free;
        if (node.waits_for >= 0) {
            pass.sent = timing.sent;
            pass.received = timing.received;
        }
        pass.gathered = std::max(0.0, timing.gathered);
        pass.start = timing.start;
        pass.end = timing.end;
        pass.freed = timing.end;
        if (node.receives)
            pass.from = schedule.placement.rank_of(
                pass.action.stage + (pass.action.kind == ActionKind::forward ? -1 : 1));
        passes[rank].push_back(pass);
    };
    std::int32_t micro_batches = 0;
    for (const Action& action : schedule.grid.front())
        micro_batches = std::max(micro_batches, action.micro_batch + 1);
    const PipelinePace* const one = &pace;
    run<double>(walk_of(schedule, micro_batches), std::span(&one, 1), keep);
    return passes;
}

}  // namespace orrery::sim
