#include "sim/replay/measured.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "trace/describe_plan.hpp"
#include "trace/joining.hpp"

namespace orrery::sim {
namespace {

using trace::Event;
using trace::Track;

// All measurements of one op.
struct Runs {
    std::vector<Picoseconds> late;
    std::vector<Picoseconds> durations;
};

// A step is a sum: what ops of a kind take in another one follows from their mean, of which as many
// make up what these took. A median leaves out what only some of them waited for.
Picoseconds mean_of(const std::vector<Picoseconds>& values) {
    if (values.empty()) return 0;
    const Picoseconds sum = std::accumulate(values.begin(), values.end(), Picoseconds{0});
    return sum / std::ssize(values);
}

double relative_deviation(const std::vector<Picoseconds>& values, Picoseconds mean) {
    if (values.size() < 2 || mean == 0) return 0;
    double squares = 0;
    for (const Picoseconds value : values)
        squares += std::pow(static_cast<double>(value - mean), 2);
    return std::sqrt(squares / static_cast<double>(values.size() - 1)) / static_cast<double>(mean);
}

// Prices that differ by less are the same: sums of doubles in another order.
constexpr double kSamePrice = 1e-9;

bool is_same(double a, double b) {
    return std::abs(a - b) <= kSamePrice * std::max(std::abs(a), std::abs(b));
}

// What an op took over what the model says.
struct Ratio {
    double measured = 0;   // seconds, of all its runs in a step
    double predicted = 0;  // likewise
};

// Logarithms of ratios, weighed by predicted time: the deviation of one drawn from them.
double deviation_of(const std::vector<Ratio>& ratios) {
    if (ratios.size() < 2) return 0;
    double weights = 0, mean = 0, squares = 0;
    for (const Ratio& ratio : ratios) {
        weights += ratio.predicted;
        mean += ratio.predicted * std::log(ratio.measured / ratio.predicted);
    }
    mean /= weights;
    for (const Ratio& ratio : ratios) {
        const double off = std::log(ratio.measured / ratio.predicted) - mean;
        squares += ratio.predicted * off * off;
    }
    const auto n = static_cast<double>(ratios.size());
    return std::sqrt(squares / weights * n / (n - 1));
}

// Whether nobody else was waited for: what lies between ready and start is this rank's own.
bool came_last(const Event& event) {
    return event.late_track < 0;
}

}  // namespace

std::string_view name(PriceSource source) {
    static constexpr std::array<std::string_view, kPriceSources> names = {"own_time", "mean",
                                                                          "scaled", "profile"};
    return names[static_cast<std::size_t>(source)];
}

MeasuredCosts::Key MeasuredCosts::key_of(const trace::OpName& op) {
    return {op.block, op.label, op.kind,  op.phase,     op.stream,
            op.group, op.flops, op.bytes, op.sent_bytes};
}

MeasuredCosts::MeasuredCosts(trace::Trace trace, std::string path)
    : trace_(std::move(trace)), path_(std::move(path)) {
    if (trace_.origin != trace::Origin::measured)
        throw CostsError(path_ + ": a predicted trace; prices come from a measured one");
    std::map<Key, Runs> runs;
    std::array<std::vector<Picoseconds>, plan::kStreams> late;
    for (const Track& track : trace_.tracks) {
        if (track.represents() != 1)
            throw CostsError(path_ + ": a track stands for several ranks; a measured one for one");
        const trace::ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
        for (std::size_t i = trace::first_of_last_step(program); i < track.events.size(); ++i) {
            const Event event = track.events[i];
            const trace::OpName& op = trace_.ops[program.op[i]];
            Runs& of = runs[key_of(op)];
            of.durations.push_back(event.end - event.start);
            if (!came_last(event)) continue;
            of.late.push_back(event.start - event.ready);
            late[plan::index_of(op.stream)].push_back(event.start - event.ready);
        }
    }
    for (auto& [key, of] : runs) {
        MeasuredOp& op = ops_[key];
        op.runs = static_cast<std::int64_t>(of.durations.size());
        op.time = {mean_of(of.late), mean_of(of.durations)};
        op.relative_sd = relative_deviation(of.durations, op.time.duration);
    }
    for (std::size_t stream = 0; stream < late.size(); ++stream)
        late_[stream] = mean_of(late[stream]);
}

std::array<MeasuredCosts::PoolKey, 3> MeasuredCosts::pools_of(const trace::OpName& op,
                                                              CostFamily family) {
    const auto kind = static_cast<int>(op.kind);
    return {PoolKey{family, kind, static_cast<int>(op.phase)}, PoolKey{family, kind, -1},
            PoolKey{family, -1, -1}};
}

std::map<MeasuredCosts::Key, MeasuredCosts::PredictedMean> MeasuredCosts::means_of(
    const std::vector<PredictedOp>& predicted) {
    std::map<Key, PredictedMean> means;
    for (const PredictedOp& op : predicted) {
        PredictedMean& mean = means[key_of(op.name)];
        mean.runs += op.runs;
        mean.seconds += (op.price.seconds - mean.seconds) * static_cast<double>(op.runs) /
                        static_cast<double>(mean.runs);
        mean.families.insert(op.price.family);
    }
    return means;
}

// What was measured of an op is parted among its places as the model has it.
void MeasuredCosts::hold_against(const std::vector<PredictedOp>& predicted) {
    predicted_ = means_of(predicted);
    std::map<PoolKey, std::vector<Ratio>> ratios;
    for (const PredictedOp& op : predicted) {
        const MeasuredOp* measured = find(op.name);
        const double mean = predicted_.at(key_of(op.name)).seconds;
        if (measured == nullptr || measured->time.duration <= 0 || op.price.seconds <= 0) continue;
        const double here = op.price.seconds * static_cast<double>(op.runs);
        for (const PoolKey& pool : pools_of(op.name, op.price.family))
            ratios[pool].push_back({to_seconds(measured->time.duration) * here / mean, here});
    }
    for (const auto& [key, of_pool] : ratios) {
        Ratio all;
        for (const Ratio& ratio : of_pool) {
            all.measured += ratio.measured;
            all.predicted += ratio.predicted;
        }
        pools_[key] = {all.measured / all.predicted, deviation_of(of_pool), all.measured};
    }
}

std::optional<MeasuredCosts::OverModel> MeasuredCosts::over_model(CostFamily family) const {
    const auto pool = pools_.find({family, -1, -1});
    if (pool == pools_.end()) return std::nullopt;
    return OverModel{pool->second.factor, pool->second.relative_sd, pool->second.measured_s};
}

std::optional<MeasuredPrice> MeasuredCosts::price(const trace::OpName& op,
                                                  const Price& predicted) const {
    const MeasuredOp* measured = find(op);
    const auto there = predicted_.find(key_of(op));
    if (measured != nullptr) {
        const double then = there == predicted_.end() ? 0 : there->second.seconds;
        if (there == predicted_.end() || is_same(then, predicted.seconds))
            return MeasuredPrice{measured->time, measured->relative_sd, PriceSource::mean};
        if (there->second.families.contains(predicted.family) && then > 0) {
            const double seconds = to_seconds(measured->time.duration) * (predicted.seconds / then);
            return MeasuredPrice{{measured->time.late, from_seconds(seconds)},
                                 std::hypot(measured->relative_sd, predicted.relative_sd),
                                 PriceSource::scaled};
        }
    }
    for (const PoolKey& key : pools_of(op, predicted.family)) {
        const auto pool = pools_.find(key);
        if (pool == pools_.end()) continue;
        return MeasuredPrice{
            {late_on(op.stream), from_seconds(predicted.seconds * pool->second.factor)},
            std::hypot(pool->second.relative_sd, predicted.relative_sd),
            PriceSource::scaled};
    }
    return std::nullopt;
}

bool MeasuredCosts::are_priced_alike(const std::vector<PredictedOp>& predicted) const {
    const auto here = means_of(predicted);
    return std::all_of(here.begin(), here.end(), [&](const auto& op) {
        const auto there = predicted_.find(op.first);
        return there == predicted_.end() || is_same(there->second.seconds, op.second.seconds);
    });
}

const MeasuredOp* MeasuredCosts::find(const trace::OpName& op) const {
    const auto found = ops_.find(key_of(op));
    return found == ops_.end() ? nullptr : &found->second;
}

bool MeasuredCosts::is_of(const plan::Plan& plan) const {
    if (trace_.programs.size() != plan.programs.size() ||
        static_cast<std::int64_t>(trace_.tracks.size()) != plan.mesh.ranks())
        return false;
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program));
    const trace::Trace of_plan = trace::describe_plan(plan, std::move(linked));
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        if (!trace::same_step(of_plan, of_plan.programs[p], trace_, trace_.programs[p]))
            return false;
    std::vector<bool> found(trace_.tracks.size());
    for (const Track& track : trace_.tracks) {
        const auto rank = static_cast<std::size_t>(track.rank);
        if (rank >= found.size() || found[rank] ||
            track.program != plan.mesh.coordinates(track.rank).pipeline)
            return false;
        found[rank] = true;
    }
    return true;
}

// An op is late by what passed between the end of all that it waits for, on this rank, and its
// start, or, where others came after it, until it said that it was ready. What it waits for of the
// step before ended a step earlier than in this one.
std::vector<OpTime> MeasuredCosts::times_of(const plan::LinkedProgram& linked,
                                            const plan::Plan& plan, const Track& track,
                                            int repetitions) const {
    std::vector<plan::Stream> stream_of;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            stream_of.push_back(op.stream);
    const std::size_t size = linked.size() / static_cast<std::size_t>(repetitions);
    const std::size_t before = linked.size() - size;  // ops of earlier steps
    const trace::ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
    const std::size_t first = trace::first_of_last_step(program);
    const auto event_of = [&](std::size_t op) { return track.events[first + op]; };
    const Picoseconds period = trace_.step_end - trace_.step_start;
    std::array<std::vector<std::size_t>, plan::kStreams> on_stream;
    std::vector<OpTime> times;
    for (std::size_t i = 0; i < linked.size(); ++i) {
        const std::size_t own = plan::index_of(stream_of[linked.op[i]]);
        if (i >= before) {
            Picoseconds free = repetitions == 1 ? trace_.step_start : trace_.step_start - period;
            const auto follow = [&](std::size_t op) {
                free = std::max(
                    free, op >= before ? event_of(op - before).end : event_of(op).end - period);
            };
            if (!on_stream[own].empty()) follow(on_stream[own].back());
            for (std::uint32_t w = linked.first_wait[i]; w < linked.first_wait[i + 1]; ++w)
                follow(
                    on_stream[plan::index_of(linked.waits[w].stream)][linked.waits[w].count - 1]);
            const Event event = event_of(i - before);
            const Picoseconds came = came_last(event) ? event.start : event.ready;
            times.push_back({std::max<Picoseconds>(0, came - free), event.duration()});
        }
        on_stream[own].push_back(i);
    }
    return times;
}

// What another program ran may have another order than the plan.
bool MeasuredCosts::ran_in_order() const {
    for (const Track& track : trace_.tracks) {
        const trace::ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
        std::array<Picoseconds, plan::kStreams> last{};
        last.fill(std::numeric_limits<Picoseconds>::min());
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            Picoseconds& before = last[plan::index_of(trace_.ops[program.op[i]].stream)];
            const Picoseconds start = track.events[i].start;
            if (start < before) return false;
            before = start;
        }
    }
    return true;
}

std::optional<Replay> MeasuredCosts::replay_of(const plan::Plan& plan) const {
    if (by_means_ || !is_of(plan) || !ran_in_order()) return std::nullopt;
    Replay replay;
    Picoseconds last = trace_.step_start;
    for (const Track& track : trace_.tracks)
        for (const Event event : track.events) {
            if (event.start < trace_.step_start) replay.repetitions = 2;
            last = std::max(last, event.end);
        }
    replay.tail = std::max<Picoseconds>(0, trace_.step_end - last);
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program, replay.repetitions));
    replay.times.resize(trace_.tracks.size());
    for (const Track& track : trace_.tracks)
        replay.times[static_cast<std::size_t>(track.rank)] = times_of(
            linked[static_cast<std::size_t>(track.program)], plan, track, replay.repetitions);
    return replay;
}

}  // namespace orrery::sim
