// Runs of alike things, which a text prints once: "×4 layer 0..3". Internal to plan/text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery::plan {

// A field over a run: it steps by the same amount from each to the next.
struct Progression {
    std::int64_t first = 0;
    std::int64_t step = 0;

    std::int64_t at(std::size_t n) const { return first + step * static_cast<std::int64_t>(n); }
    std::string text(std::size_t count) const {
        std::string out = std::to_string(first);
        if (step != 0) out += ".." + std::to_string(at(count - 1));
        return out;
    }
};

// What tells the things of a run apart: fields in progressions, and fields that have one value in
// the first, third, … of them and one in the others.
struct RunFields {
    std::vector<std::int64_t> stepping;
    std::vector<std::int64_t> alternating;
};

// Whether the n-th of a run goes on as its first and second begin.
inline bool goes_on(const RunFields& first, const RunFields& second, const RunFields& now,
                    std::size_t n) {
    for (std::size_t f = 0; f < first.stepping.size(); ++f)
        if (now.stepping[f] !=
            Progression{first.stepping[f], second.stepping[f] - first.stepping[f]}.at(n))
            return false;
    return now.alternating == (n % 2 == 0 ? first : second).alternating;
}

// How many things from `begin` on are one run: equal in `same`, their fields as above.
template <typename Thing, typename Same, typename Fields>
std::size_t run_length(const std::vector<Thing>& things, std::size_t begin, Same same,
                       Fields fields) {
    std::size_t end = begin + 1;
    if (end == things.size() || !same(things[begin], things[end])) return 1;
    const RunFields first = fields(things[begin]);
    const RunFields second = fields(things[end]);
    while (end < things.size() && same(things[begin], things[end]) &&
           goes_on(first, second, fields(things[end]), end - begin))
        ++end;
    return end - begin;
}

// The run to print: within one bucket, but across buckets where three or more step evenly.
template <typename Thing, typename Same, typename Fields>
std::size_t printed_run(const std::vector<Thing>& things, std::size_t begin, Same same,
                        Fields fields) {
    const std::size_t within = run_length(
        things, begin,
        [&](const Thing& a, const Thing& b) { return same(a, b) && a.bucket == b.bucket; }, fields);
    const std::size_t across = run_length(things, begin, same, fields);
    return across >= 3 ? std::max(within, across) : within;
}

}  // namespace orrery::plan
