#include "runtime/checkpoint/slice_cover.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

// Rows of the largest matrices, cut by columns for every rank of a large tensor group, are some
// 2^21.
constexpr std::int64_t kMostRuns = std::int64_t{1} << 24;

struct Run {
    std::int64_t first = 0, end = 0;
};

}  // namespace

std::string cover_fault(std::span<const Slice> slices) {
    std::int64_t count = 0;
    for (const Slice& slice : slices) {
        count += std::min(slice.count, kMostRuns);
        if (count > kMostRuns) return fmt::format("it is cut into more than {} runs", kMostRuns);
    }
    std::vector<Run> runs;
    runs.reserve(static_cast<std::size_t>(count));
    for (const Slice& slice : slices)
        for (std::int64_t i = 0; i < slice.count; ++i) {
            const std::int64_t first = slice.first + i * slice.stride;
            runs.push_back({first, first + slice.elements});
        }
    std::sort(runs.begin(), runs.end(),
              [](const Run& a, const Run& b) { return a.first < b.first; });
    for (std::size_t i = 1; i < runs.size(); ++i)
        if (runs[i].first < runs[i - 1].end)
            return fmt::format("element {} is there twice", runs[i].first);
    return "";
}

}  // namespace orrery::runtime
