#include "sim/engine/shared_links.hpp"

#include <algorithm>
#include <utility>

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

constexpr double kMostAsked = 1e15;  // kB/s: far above any fabric, and summed in 64 bits

// Of the whole, in millionths; in full, so that nothing overflows.
std::int64_t part_of(std::int64_t whole, std::int64_t millionths) {
    return static_cast<std::int64_t>(static_cast<Work>(whole) * millionths / kOwnRate);
}

}  // namespace

SharedLinks::SharedLinks(std::vector<std::int64_t> capacities, std::int32_t jobs) {
    const auto count = static_cast<std::size_t>(jobs);
    for (const std::int64_t capacity : capacities) {
        ORRERY_CHECK(capacity > 0, "a link that carries nothing");
        Link link;
        link.capacity = capacity;
        link.of_job.resize(count);
        link.carried.resize(count);
        link.held.resize(count);
        links_.push_back(std::move(link));
    }
    asked_.resize(count);
}

std::int32_t SharedLinks::add_path(std::vector<Passage> path) {
    for (const Passage& passage : path)
        ORRERY_CHECK(passage.flows > 0 && static_cast<std::size_t>(passage.link) < links_.size(),
                     "a path over a link that is not there");
    paths_.push_back(std::move(path));
    return static_cast<std::int32_t>(paths_.size() - 1);
}

std::int64_t SharedLinks::unit_flows(const Passing& passing) {
    return path_of(flow(passing.flow))[static_cast<std::size_t>(passing.passage)].flows;
}

std::int64_t SharedLinks::asked(const Passing& passing, std::int64_t rate) {
    return part_of(flow(passing.flow).demands[static_cast<std::size_t>(passing.passage)], rate);
}

// What has passed since it was last counted.
void SharedLinks::count(Flow& counted) {
    const Picoseconds passed = now_ - counted.since;
    counted.since = now_;
    if (passed == 0) return;
    const std::int64_t rate = std::min(counted.rate, counted.allowed);
    const std::vector<Passage>& path = path_of(counted);
    for (std::size_t p = 0; p < path.size(); ++p)
        link(path[p].link).carried[static_cast<std::size_t>(counted.job)] +=
            static_cast<Work>(counted.demands[p]) * rate * passed;
    if (counted.bottleneck >= 0)
        link(counted.bottleneck).held[static_cast<std::size_t>(counted.job)] +=
            static_cast<Work>(counted.allowed - rate) * passed;
}

void SharedLinks::count(Link& counted) {
    const Picoseconds passed = now_ - counted.since;
    counted.since = now_;
    if (counted.jobs > 0) counted.sums.busy += passed;
    if (counted.jobs > 1) counted.sums.met += passed;
    if (counted.full) counted.sums.full += passed;
}

bool SharedLinks::meets_others(const Flow& one) {
    const std::vector<Passage>& path = path_of(one);
    return std::any_of(path.begin(), path.end(),
                       [&](const Passage& passage) { return link(passage.link).jobs > 1; });
}

std::int32_t SharedLinks::begin(std::int32_t job, std::int32_t of_job, std::int32_t path,
                                std::int64_t kBps) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::int32_t>(flows_.size()));
        flows_.emplace_back();
    }
    const std::int32_t number = free_.back();
    free_.pop_back();
    in_flight_.push_back(number);
    Flow& begun = flow(number);
    begun.job = job;
    begun.flow = of_job;
    begun.path = path;
    begun.bottleneck = -1;
    begun.demands.clear();
    begun.allowed = begun.rate = kOwnRate;
    begun.since = now_;
    std::int32_t passage = 0;
    for (const Passage& on : path_of(begun)) {
        begun.demands.push_back(
            static_cast<std::int64_t>(std::min(kMostAsked, static_cast<double>(kBps) * on.load)));
        Link& passed = link(on.link);
        count(passed);
        passed.passing.push_back({number, passage++});
        if (passed.of_job[static_cast<std::size_t>(job)]++ == 0) ++passed.jobs;
    }
    changed_ = changed_ || meets_others(begun);
    return number;
}

void SharedLinks::allow(std::int32_t number, std::int64_t rate) {
    Flow& allowed = flow(number);
    if (allowed.allowed == rate) return;
    count(allowed);
    allowed.allowed = rate;
    changed_ = changed_ || meets_others(allowed);
}

void SharedLinks::end(std::int32_t number) {
    Flow& ended = flow(number);
    count(ended);
    changed_ = changed_ || meets_others(ended);
    for (const Passage& on : path_of(ended)) {
        Link& passed = link(on.link);
        count(passed);
        passed.passing.erase(
            std::find_if(passed.passing.begin(), passed.passing.end(),
                         [&](const Passing& passing) { return passing.flow == number; }));
        if (--passed.of_job[static_cast<std::size_t>(ended.job)] == 0) --passed.jobs;
    }
    ended.job = -1;
    in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), number));
    free_.push_back(number);
}

// Links of several jobs that are asked for more than they have, and what each shares out.
void SharedLinks::find_crowded() {
    crowded_.clear();
    for (std::size_t l = 0; l < links_.size(); ++l) {
        Link& one = links_[l];
        if (one.jobs < 2) continue;
        std::fill(asked_.begin(), asked_.end(), 0);
        for (const Passing& passing : one.passing)
            asked_[static_cast<std::size_t>(flow(passing.flow).job)] +=
                asked(passing, flow(passing.flow).allowed);
        std::int64_t all = 0, most = 0;
        for (const std::int64_t of_job : asked_) {
            all += of_job;
            most = std::max(most, of_job);
        }
        one.shared_out = std::max(one.capacity, most);
        if (all <= one.shared_out) continue;
        one.was_crowded = true;
        crowded_.push_back(static_cast<std::int32_t>(l));
    }
}

// Flows that need less than an equal part take what they need, until none is left that does.
SharedLinks::Level SharedLinks::level_of(std::int32_t number) {
    Link& one = link(number);
    Level level{number, one.shared_out, 0};
    taken_.assign(one.passing.size(), false);
    for (std::size_t i = 0; i < one.passing.size(); ++i) {
        taken_[i] = flow(one.passing[i].flow).frozen;
        if (taken_[i])
            level.left -= asked(one.passing[i], flow(one.passing[i].flow).filled);
        else
            level.units += unit_flows(one.passing[i]);
    }
    level.left = std::max<std::int64_t>(0, level.left);
    for (bool more = level.units > 0; more;) {
        more = false;
        for (std::size_t i = 0; i < one.passing.size() && level.units > 0; ++i) {
            if (taken_[i]) continue;
            const std::int64_t needs = asked(one.passing[i], flow(one.passing[i].flow).allowed);
            const std::int64_t units = unit_flows(one.passing[i]);
            if (static_cast<Work>(needs) * level.units > static_cast<Work>(level.left) * units)
                continue;
            taken_[i] = more = true;
            level.left -= needs;
            level.units -= units;
        }
    }
    return level;
}

// Those that need more than its level have it, and stay there.
void SharedLinks::hold(const Level& level) {
    level_of(level.link);  // for taken_
    const std::vector<Passing>& passing = link(level.link).passing;
    for (std::size_t i = 0; i < passing.size(); ++i) {
        if (taken_[i]) continue;
        Flow& held = flow(passing[i].flow);
        const std::int64_t needs = held.demands[static_cast<std::size_t>(passing[i].passage)];
        const Work rate = static_cast<Work>(level.left) * unit_flows(passing[i]) * kOwnRate /
                          (static_cast<Work>(needs) * level.units);
        held.filled = std::clamp<std::int64_t>(static_cast<std::int64_t>(rate), 1, held.allowed);
        held.frozen = true;
        held.bottleneck = level.link;
    }
}

void SharedLinks::fill() {
    for (;;) {
        Level lowest;
        for (const std::int32_t number : crowded_) {
            const Level level = level_of(number);
            if (level.units == 0) continue;
            if (lowest.link < 0 || static_cast<Work>(level.left) * lowest.units <
                                       static_cast<Work>(lowest.left) * level.units)
                lowest = level;
        }
        if (lowest.link < 0) return;
        hold(lowest);
    }
}

const std::vector<SharedLinks::Limit>& SharedLinks::settle() {
    limits_.clear();
    if (!changed_) return limits_;
    changed_ = false;
    for (const std::int32_t number : in_flight_) {
        Flow& one = flow(number);
        count(one);
        one.bottleneck = -1;
        one.frozen = false;
        one.filled = kOwnRate;
    }
    find_crowded();
    fill();
    for (const std::int32_t number : in_flight_) {
        Flow& one = flow(number);
        if (one.filled == one.rate) continue;
        one.rate = one.filled;
        limits_.push_back({one.job, one.flow, one.rate});
    }
    note_full();
    return limits_;
}

bool SharedLinks::crowds(std::int32_t job) const {
    return std::any_of(crowded_.begin(), crowded_.end(), [&](std::int32_t number) {
        return links_[static_cast<std::size_t>(number)].of_job[static_cast<std::size_t>(job)] > 0;
    });
}

// Of links that are full alike one holds a flow, but all are full.
void SharedLinks::note_full() {
    for (std::size_t l = 0, c = 0; l < links_.size(); ++l) {
        Link& one = links_[l];
        bool full = c < crowded_.size() && static_cast<std::size_t>(crowded_[c]) == l;
        if (full) {
            ++c;
            auto used = static_cast<std::int64_t>(one.passing.size());  // rates are rounded down
            std::int64_t largest = 0;
            for (const Passing& passing : one.passing) {
                const Flow& of = flow(passing.flow);
                used += asked(passing, std::min(of.filled, of.allowed));
                largest = std::max(largest, of.demands[static_cast<std::size_t>(passing.passage)]);
            }
            full = used + largest / kOwnRate * static_cast<std::int64_t>(one.passing.size()) >=
                   one.shared_out;
        }
        if (full == one.full) continue;
        count(one);
        one.full = full;
    }
}

void SharedLinks::begin_sums() {
    sums();
    for (Link& one : links_) {
        std::fill(one.carried.begin(), one.carried.end(), 0);
        std::fill(one.held.begin(), one.held.end(), 0);
        one.sums = {};
    }
}

std::vector<LinkSums> SharedLinks::sums() {
    for (const std::int32_t number : in_flight_)
        count(flow(number));
    std::vector<LinkSums> all;
    for (Link& one : links_) {
        count(one);
        all.push_back(one.sums);
        for (std::size_t job = 0; job < one.carried.size(); ++job) {
            // kB/s · ps · 10⁻⁶ = 10⁻¹⁵ B.
            all.back().bytes.push_back(static_cast<double>(one.carried[job]) * 1e-15);
            all.back().held.push_back(static_cast<Picoseconds>(one.held[job] / kOwnRate));
        }
    }
    return all;
}

}  // namespace orrery::sim
