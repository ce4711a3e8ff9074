#include "gui/timeline/lane.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::gui {
namespace {

Picoseconds& sum_of(KindSums& sums, const Span& span) {
    return sums[static_cast<std::size_t>(span.kind)];
}

}  // namespace

std::vector<Span> one_after_another(std::vector<Span> spans) {
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& a, const Span& b) { return a.from < b.from; });
    std::size_t kept = 0;
    for (Span span : spans) {
        if (kept > 0) {
            Span& last = spans[kept - 1];
            span.from = std::max(span.from, last.to);
            span.to = std::max(span.to, span.from);
            if (last.to == span.from && last.index == span.index && last.kind == span.kind) {
                last.to = span.to;
                continue;
            }
        }
        spans[kept++] = span;
    }
    spans.resize(kept);
    return spans;
}

Lane::Lane(std::string name, std::vector<Span> spans)
    : name_(std::move(name)), spans_(std::move(spans)) {
    std::array<bool, kKinds> has{};
    for (const Span& span : spans_)
        has[static_cast<std::size_t>(span.kind)] = true;
    for (std::size_t kind = 0; kind < kKinds; ++kind)
        if (has[kind]) {
            place_[kind] = static_cast<std::uint8_t>(kinds_.size());
            kinds_.push_back(static_cast<Kind>(kind));
        }
    KindSums sums{};
    begins_.reserve(spans_.size() / kBlock + 1);
    before_.reserve((spans_.size() / kBlock + 2) * kinds_.size());
    const auto keep = [&] {
        for (const Kind kind : kinds_)
            before_.push_back(sums[static_cast<std::size_t>(kind)]);
    };
    for (std::size_t i = 0; i < spans_.size(); ++i) {
        ORRERY_CHECK(
            spans_[i].from <= spans_[i].to && (i == 0 || spans_[i - 1].to <= spans_[i].from),
            "spans of a lane overlap");
        if (i % kBlock == 0) {
            begins_.push_back(spans_[i].from);
            keep();
        }
        sum_of(sums, spans_[i]) += spans_[i].to - spans_[i].from;
    }
    keep();
}

std::size_t Lane::first_ending_after(Picoseconds time) const {
    const auto found = std::partition_point(spans_.begin(), spans_.end(),
                                            [&](const Span& span) { return span.to <= time; });
    return static_cast<std::size_t>(found - spans_.begin());
}

// Strides that double: what is looked for is mostly near.
std::size_t Lane::first_starting_at(Picoseconds time, std::size_t hint) const {
    std::size_t low = hint;
    std::size_t stride = 1;
    while (low + stride < spans_.size() && spans_[low + stride].from < time) {
        low += stride;
        stride *= 2;
    }
    const auto first = spans_.begin() + static_cast<std::ptrdiff_t>(std::min(low, spans_.size()));
    const auto last =
        spans_.begin() + static_cast<std::ptrdiff_t>(std::min(low + stride, spans_.size()));
    const auto found =
        std::partition_point(first, last, [&](const Span& span) { return span.from < time; });
    return static_cast<std::size_t>(found - spans_.begin());
}

KindSums Lane::sums(std::size_t begin, std::size_t end) const {
    KindSums sums{};
    const std::size_t first = (begin + kBlock - 1) / kBlock;
    const std::size_t last = end / kBlock;
    const auto add = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i)
            sum_of(sums, spans_[i]) += spans_[i].to - spans_[i].from;
    };
    if (first >= last) {
        add(begin, end);
        return sums;
    }
    add(begin, first * kBlock);
    add(last * kBlock, end);
    const std::size_t n = kinds_.size();
    for (std::size_t k = 0; k < n; ++k)
        sums[static_cast<std::size_t>(kinds_[k])] += before_[last * n + k] - before_[first * n + k];
    return sums;
}

std::size_t Lane::block_of(Picoseconds time, std::size_t near) const {
    auto low = begins_.begin();
    auto high = low + static_cast<std::ptrdiff_t>(near);
    if (near < begins_.size() && begins_[near] < time) {
        std::size_t stride = 1;  // doubles: what is looked for is mostly near
        for (; near + stride < begins_.size() && begins_[near + stride] < time; stride *= 2)
            near += stride;
        low = begins_.begin() + static_cast<std::ptrdiff_t>(near);
        high =
            begins_.begin() + static_cast<std::ptrdiff_t>(std::min(near + stride, begins_.size()));
    }
    const auto behind =
        std::partition_point(low, high, [&](Picoseconds begin) { return begin < time; });
    return static_cast<std::size_t>(std::max(behind - begins_.begin(), std::ptrdiff_t{1})) - 1;
}

void Lane::fetch(std::size_t block) const {
    constexpr std::size_t kLine = 64;  // bytes
    __builtin_prefetch(before_.data() + block * kinds_.size());
    const std::size_t end = std::min((block + 1) * kBlock, spans_.size());
    for (std::size_t i = block * kBlock; i < end; i += kLine / sizeof(Span))
        __builtin_prefetch(spans_.data() + i);
}

void Lane::put_before(Picoseconds time, std::size_t block, Picoseconds* sums) const {
    const std::size_t n = kinds_.size();
    std::copy_n(before_.data() + block * n, n, sums);
    const std::size_t end = std::min((block + 1) * kBlock, spans_.size());
    for (std::size_t i = block * kBlock; i < end && spans_[i].from < time; ++i)
        sums[place_[static_cast<std::size_t>(spans_[i].kind)]] +=
            std::min(spans_[i].to, time) - spans_[i].from;
}

std::vector<Picoseconds> Lane::within(const std::vector<Stretch>& stretches) const {
    struct Moment {
        Picoseconds time;
        std::size_t block;
    };
    const std::size_t n = kinds_.size();
    if (n == 0) return {};
    std::vector<Moment> moments;
    moments.reserve(2 * stretches.size());
    std::size_t block = 0;
    for (const Stretch& stretch : stretches)
        for (const Picoseconds time : {stretch.from, std::max(stretch.from, stretch.to)}) {
            if (moments.empty() || moments.back().time != time) {
                block = block_of(time, block);
                fetch(block);
            }
            moments.push_back({time, block});
        }
    std::vector<Picoseconds> sums(stretches.size() * n);
    std::vector<Picoseconds> from(n), to(n);
    for (std::size_t i = 0; i < stretches.size(); ++i) {
        const Moment& begin = moments[2 * i];
        const Moment& end = moments[2 * i + 1];
        if (i > 0 && moments[2 * i - 1].time == begin.time)
            std::swap(from, to);
        else
            put_before(begin.time, begin.block, from.data());
        put_before(end.time, end.block, to.data());
        for (std::size_t k = 0; k < n; ++k)
            sums[i * n + k] = to[k] - from[k];
    }
    return sums;
}

KindSums Lane::within(Picoseconds from, Picoseconds to) const {
    if (to <= from) return {};
    const std::size_t begin = first_ending_after(from);
    const std::size_t end = first_starting_at(to, begin);
    if (begin >= end) return {};
    KindSums sums = this->sums(begin, end);
    const Span& first = spans_[begin];
    const Span& last = spans_[end - 1];
    sum_of(sums, first) -= std::max<Picoseconds>(0, from - first.from);
    sum_of(sums, last) -= std::max<Picoseconds>(0, last.to - to);
    return sums;
}

}  // namespace orrery::gui
