#include "trace/excerpt.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace orrery::trace {
namespace {

constexpr std::int32_t kGone = -1;

bool holds(const std::vector<RankRange>& ranges, std::int64_t number) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const RankRange& range) {
        return number >= range.first && number - range.first < range.count;
    });
}

// Those ranks of a track that are chosen, as a track of their own.
std::optional<Track> chosen_ranks(const Track& track, const std::vector<RankRange>& chosen) {
    if (chosen.empty()) return track;
    std::vector<RankRange> mine = {{track.rank, 1}}, kept;
    mine.insert(mine.end(), track.alike.begin(), track.alike.end());
    for (const RankRange& one : mine)
        for (const RankRange& range : chosen) {
            const std::int64_t first = std::max(one.first, range.first);
            const std::int64_t end = std::min(one.first + one.count, range.first + range.count);
            if (end > first) kept.push_back({first, end - first});
        }
    if (kept.empty()) return std::nullopt;
    Track out = track;
    out.rank = kept.front().first;
    ++kept.front().first;
    --kept.front().count;
    if (kept.front().count == 0) kept.erase(kept.begin());
    out.alike = std::move(kept);
    return out;
}

// Ops of a program that are chosen; by op of the whole its number among them, or kGone.
std::vector<std::int32_t> number_ops(const Trace& trace, const ProgramOps& program,
                                     const ExcerptChoice& choice) {
    std::vector<std::int32_t> numbers(program.op.size(), kGone);
    std::int32_t next = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const plan::OpKind kind = trace.ops[program.op[i]].kind;
        const bool is_kind =
            choice.kinds.empty() ||
            std::find(choice.kinds.begin(), choice.kinds.end(), kind) != choice.kinds.end();
        if (is_kind && (choice.steps.empty() || holds(choice.steps, program.step[i])))
            numbers[i] = next++;
    }
    return numbers;
}

template <typename T>
void keep(std::vector<T>& values, const std::vector<std::int32_t>& numbers) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        if (numbers[i] != kGone) values[to++] = values[i];
    values.resize(to);
}

void keep_events(Track& track, const std::vector<std::int32_t>& numbers) {
    std::vector<Event> events = track.events.unpacked();
    for (Event& event : events)
        if (event.blocker >= 0) {
            const std::int32_t number = numbers[static_cast<std::size_t>(event.blocker)];
            event.blocker = number == kGone ? kNothing : number;
        }
    keep(events, numbers);
    track.events = events;
}

// `at`: by track of the whole its number among these.
void renumber_late(std::vector<Track>& tracks, const std::map<std::int32_t, std::int32_t>& at) {
    for (Track& track : tracks)
        track.events.change([&](Event& event, std::size_t) {
            const auto found = at.find(event.late_track);
            event.late_track = found == at.end() ? -1 : found->second;
        });
}

std::int64_t counted_ranks(const Trace& trace) {
    std::int64_t ranks = 0;
    for (const Track& track : trace.tracks)
        ranks += track.represents();
    return ranks;
}

std::int64_t counted_events(const Trace& trace) {
    std::int64_t events = 0;
    for (const Track& track : trace.tracks)
        events += track.represents() * static_cast<std::int64_t>(track.events.size());
    return events;
}

}  // namespace

LeftOut left_out(const Trace& whole, const Trace& part) {
    return {counted_ranks(whole) - counted_ranks(part), counted_ranks(whole),
            counted_events(whole) - counted_events(part), counted_events(whole)};
}

Trace excerpt(const Trace& trace, const ExcerptChoice& choice) {
    Trace out = trace;
    out.tracks.clear();
    std::vector<std::vector<std::int32_t>> numbers;
    for (std::size_t p = 0; p < trace.programs.size(); ++p) {
        numbers.push_back(number_ops(trace, trace.programs[p], choice));
        keep(out.programs[p].op, numbers.back());
        keep(out.programs[p].step, numbers.back());
        keep(out.programs[p].layer, numbers.back());
    }
    std::map<std::int32_t, std::int32_t> at;
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        std::optional<Track> kept = chosen_ranks(trace.tracks[t], choice.ranks);
        if (!kept) continue;
        keep_events(*kept, numbers[static_cast<std::size_t>(kept->program)]);
        at[static_cast<std::int32_t>(t)] = static_cast<std::int32_t>(out.tracks.size());
        out.tracks.push_back(std::move(*kept));
    }
    renumber_late(out.tracks, at);
    return out;
}

Trace first_tracks(const Trace& trace, std::size_t count) {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // turn of its program, track
    std::map<std::int32_t, std::size_t> turns;
    for (std::size_t t = 0; t < trace.tracks.size(); ++t)
        order.emplace_back(turns[trace.tracks[t].program]++, t);
    std::sort(order.begin(), order.end());
    order.resize(std::min(count, order.size()));
    std::sort(order.begin(), order.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    Trace out = trace;
    out.tracks.clear();
    std::map<std::int32_t, std::int32_t> at;
    for (const auto& [turn, t] : order) {
        at[static_cast<std::int32_t>(t)] = static_cast<std::int32_t>(out.tracks.size());
        out.tracks.push_back(trace.tracks[t]);
    }
    renumber_late(out.tracks, at);
    return out;
}

}  // namespace orrery::trace
