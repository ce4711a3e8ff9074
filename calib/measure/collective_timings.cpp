#include "calib/measure/collective_timings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <span>

#include <fmt/format.h>

#include "calib/measure/timing.hpp"
#include "plan/check.hpp"
#include "runtime/executor/bound_program.hpp"
#include "runtime/launch/host_names.hpp"

namespace orrery::measure {
namespace {

using plan::OpKind;
using runtime::OpTime;

constexpr std::array kKinds = {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter,
                               OpKind::all_to_all, OpKind::shift};
constexpr std::int64_t kSmall = 1 << 16;   // up to here all sizes are one plan
constexpr std::int64_t kLarge = 16 << 20;  // beyond, fewer calls

double seconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) * 1e-9;
}

std::vector<CollectiveCall> calls_of(const CollectiveGrid& grid, std::int64_t ranks,
                                     std::int64_t from, std::int64_t to) {
    std::vector<CollectiveCall> calls;
    for (std::int64_t bytes = from; bytes <= to; bytes *= 2)
        for (const OpKind kind : kKinds)
            for (const bool in_place : {false, true})
                if (const std::int64_t whole = shared_out(kind, bytes, ranks);
                    whole > 0 && has_way(kind, in_place))
                    calls.push_back({kind, whole, in_place,
                                     1 + (bytes > kLarge ? grid.large_calls : grid.calls)});
    return calls;
}

// One rank of the calibration.
class Rank {
  public:
    Rank(runtime::RankSeat& seat, const CollectiveGrid& grid) : seat_(seat), grid_(grid) {}

    bool first() const { return seat_.rank() == 0; }

    // Performs the plan; on rank 0 the steps that count.
    std::vector<StepOfRanks> perform(const plan::Plan& plan) {
        const runtime::BoundProgram program =
            runtime::bind_program(plan, plan.program_of(seat_.rank()), seat_.rank());
        const std::unique_ptr<runtime::Device> device = seat_.make_device(program, "");
        std::vector<OpTime> own;
        for (int step = 0; step <= grid_.steps; ++step) {
            runtime::StepInputs inputs;
            inputs.step = step + 1;
            device->run(inputs);
            if (step > 0) own.insert(own.end(), device->times().begin(), device->times().end());
        }
        const auto messages = seat_.control().gather(std::as_bytes(std::span(own)));
        std::vector<StepOfRanks> steps;
        if (!first()) return steps;
        const std::size_t ops = own.size() / static_cast<std::size_t>(grid_.steps);
        for (std::size_t step = 0; step < static_cast<std::size_t>(grid_.steps); ++step) {
            StepOfRanks& times = steps.emplace_back();
            for (const auto& message : messages) {
                ORRERY_CHECK(message.size() == own.size() * sizeof(OpTime),
                             "every rank has performed the same program");
                std::memcpy(times.emplace_back(ops).data(),
                            message.data() + step * ops * sizeof(OpTime), ops * sizeof(OpTime));
            }
        }
        return steps;
    }

    // What rank 0 has, on all.
    template <typename Value>
    Value agreed(Value value) {
        runtime::ControlPlane::Bytes bytes(sizeof value);
        std::memcpy(bytes.data(), &value, sizeof value);
        seat_.control().broadcast(bytes);
        std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }

  private:
    runtime::RankSeat& seat_;
    const CollectiveGrid& grid_;
};

void add_rows(const std::vector<CollectiveCall>& calls, const CollectivePlan& plan,
              const std::vector<StepOfRanks>& steps, std::vector<CollectiveRow>& rows) {
    if (steps.empty()) return;  // of a rank that is not the first
    for (std::size_t i = 0; i < calls.size(); ++i) {
        std::vector<double> times;
        for (const StepOfRanks& step : steps)
            times.push_back(seconds_of_call(plan.of[i], step));
        rows.push_back({calls[i].kind, calls[i].in_place, calls[i].bytes, median(times)});
    }
}

// Small sizes, then twice as many bytes each time, as long as the next ones, which take at least
// twice what the last did, end in time.
void time_sizes(Rank& rank, std::int64_t ranks, const CollectiveGrid& grid,
                const std::function<double()>& now,
                const std::function<void(const std::string&)>& progress,
                CollectiveTimings& timings) {
    const double end = now() + grid.seconds;
    double last = 0;
    for (std::int64_t from = grid.least_bytes; from <= grid.most_bytes;) {
        const bool small = from < kSmall;
        const std::int64_t to = small ? std::min(kSmall, grid.most_bytes) : from;
        if (!rank.agreed(from == grid.least_bytes || now() + 2 * last < end)) return;
        if (rank.first()) progress(fmt::format("collectives of up to {} bytes", to));
        const double begin = now();
        const std::vector<CollectiveCall> calls = calls_of(grid, ranks, from, to);
        const CollectivePlan plan = collective_plan(ranks, calls);
        add_rows(calls, plan, rank.perform(plan.plan), timings.rows);
        timings.largest_bytes = to;
        last = small ? 0 : now() - begin;
        from = 2 * to;
    }
}

// How often, so that both take as long, and as long as some of each.
struct Turns {
    int products = 8, calls = 4;
};
Turns balanced(double product_s, double call_s) {
    constexpr double kMost = 256;
    const double both = std::max(16 * product_s, 6 * call_s);
    const auto often = [&](double one) {
        return static_cast<int>(std::clamp(std::ceil(both / one), 1.0, kMost));
    };
    return {often(product_s), often(call_s)};
}

double median_s(const OpRange& range, const StepOfRanks& times) {
    std::vector<double> all;
    for (const auto& rank : times)
        for (std::size_t op = range.first; op < range.first + range.count; ++op)
            all.push_back(seconds(rank[op].end - rank[op].begin));
    return std::max(1e-9, median(std::move(all)));
}

void time_overlap(Rank& rank, std::int64_t ranks, const CollectiveGrid& grid,
                  CollectiveTimings& timings) {
    for (const OpKind kind : {OpKind::all_reduce, OpKind::all_gather}) {
        const bool in_place = !has_way(kind, false);
        OverlapCalls calls{{kind, shared_out(kind, grid.overlap_bytes, ranks), in_place, 1},
                           grid.product_size,
                           grid.product_dtype,
                           1,
                           grid.workspace_bytes};
        Turns turns;
        const auto performed = [&](const OverlapPlan& plan) { return rank.perform(plan.plan); };
        calls.products = turns.products;
        calls.call.calls = turns.calls;
        const OverlapPlan first = overlap_plan(ranks, calls);
        const auto alone = performed(first);
        if (rank.first())
            turns = balanced(median_s(first.products, alone.back()),
                             median_s(first.calls, alone.back()));
        turns = rank.agreed(turns);
        calls.products = turns.products;
        calls.call.calls = turns.calls;
        const OverlapPlan plan = overlap_plan(ranks, calls);
        std::vector<double> products, collectives;
        for (const StepOfRanks& step : performed(plan))
            if (const auto row = overlap_of(plan, kind, step)) {
                products.push_back(row->products);
                collectives.push_back(row->calls);
            }
        if (!products.empty())
            timings.overlap.push_back({kind, median(products), median(collectives)});
    }
}

std::vector<CollectiveTimings::Place> places_of(runtime::ControlPlane& control,
                                                const std::string& device) {
    const std::vector<std::string> hosts = runtime::host_names(control);
    const std::string own = fmt::format("{} {}", getpid(), device);
    std::vector<CollectiveTimings::Place> places;
    for (const auto& bytes : control.gather(std::as_bytes(std::span(own)))) {
        const std::string text = runtime::text_of(bytes);
        const std::size_t space = text.find(' ');
        places.push_back(
            {hosts[places.size()], std::stoll(text.substr(0, space)), text.substr(space + 1)});
    }
    return places;
}

}  // namespace

std::int64_t CollectiveTimings::nodes() const {
    std::set<std::string> hosts;
    for (const Place& place : places)
        hosts.insert(place.host);
    return static_cast<std::int64_t>(hosts.size());
}

double seconds_of_call(const OpRange& range, const StepOfRanks& times) {
    ORRERY_CHECK(range.count > 1, "the first call is not counted");
    double sum = 0;
    for (const auto& rank : times)
        sum += seconds(rank[range.first + range.count - 1].end - rank[range.first].end) /
               static_cast<double>(range.count - 1);
    return sum / static_cast<double>(times.size());
}

std::optional<OverlapRow> overlap_of(const OverlapPlan& plan, OpKind kind,
                                     const StepOfRanks& times) {
    std::vector<double> products, calls;
    for (const auto& rank : times) {
        const auto each = [&](bool computes, const auto& visit) {
            for (std::size_t i = 0; i < plan.both.count; ++i)
                if (plan.computes[i] == computes) visit(rank[plan.both.first + i]);
        };
        const auto span = [&](bool computes) {
            OpTime whole{std::numeric_limits<std::int64_t>::max(),
                         std::numeric_limits<std::int64_t>::min()};
            each(computes, [&](const OpTime& op) {
                whole.begin = std::min(whole.begin, op.begin);
                whole.end = std::max(whole.end, op.end);
            });
            return whole;
        };
        const auto collect = [&](bool computes, std::vector<double>& durations) {
            const OpTime other = span(!computes);
            each(computes, [&](const OpTime& op) {
                if (other.begin <= op.begin && op.end <= other.end)
                    durations.push_back(seconds(op.end - op.begin));
            });
        };
        collect(true, products);
        collect(false, calls);
    }
    if (products.empty() || calls.empty()) return std::nullopt;
    return OverlapRow{kind, median(products) / median_s(plan.products, times),
                      median(calls) / median_s(plan.calls, times)};
}

std::optional<CollectiveTimings> time_collectives(
    std::int64_t ranks, runtime::Backend& backend, const CollectiveGrid& grid,
    const std::function<double()>& now, const DescribeDevice& describe,
    const std::function<void(const std::string&)>& progress) {
    plan::Mesh mesh;
    mesh.data = ranks;
    std::optional<CollectiveTimings> result;
    backend.run_ranks(mesh, [&](runtime::RankSeat& seat) {
        CollectiveTimings timings;
        timings.ranks = ranks;
        timings.calls = grid.calls;
        timings.places = places_of(seat.control(), describe());
        Rank rank(seat, grid);
        time_sizes(rank, ranks, grid, now, progress, timings);
        if (grid.product_size > 0) {
            if (rank.first()) progress("products beside collectives");
            time_overlap(rank, ranks, grid, timings);
        }
        seat.control().finish();
        if (rank.first()) result = std::move(timings);
    });
    return result;
}

}  // namespace orrery::measure
