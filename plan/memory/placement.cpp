#include "plan/memory/placement.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace orrery::plan {
namespace {

using Order = std::vector<std::size_t>;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Those that are placed already, on shelves: all that begin at one offset, which never live at
// once, by birth. There are as many shelves as places in use, however many take turns there.
class Shelves {
  public:
    // The lowest offset that is free for all of a life.
    std::int64_t lowest_free(const Lifetime& life) const {
        std::int64_t offset = 0;
        for (const Shelf& shelf : shelves_) {
            if (shelf.offset >= offset + life.bytes) break;
            // Placed in order of birth, none but a shelf's newest can live within `life`.
            if (shelf.newest.first > life.first)
                offset = std::max(offset, end_beside(shelf, life));
            else if (shelf.newest.last >= life.first)
                offset = std::max(offset, shelf.offset + shelf.newest.bytes);
        }
        return offset;
    }

    void add(const Lifetime& life, std::int64_t offset) {
        if (life.bytes == 0) return;  // is in nobody's way
        auto shelf =
            std::lower_bound(shelves_.begin(), shelves_.end(), offset,
                             [](const Shelf& other, std::int64_t at) { return other.offset < at; });
        if (shelf == shelves_.end() || shelf->offset != offset)
            shelf = shelves_.insert(shelf, {offset, {}, {}});
        shelf->lives.insert(first_after(*shelf, life), life);
        shelf->newest = shelf->lives.back();
    }

  private:
    struct Shelf {
        std::int64_t offset = 0;
        Lifetime newest;  // of `lives`
        std::vector<Lifetime> lives;
    };

    // The first that is born after `life` has ended.
    static std::vector<Lifetime>::const_iterator first_after(const Shelf& shelf,
                                                             const Lifetime& life) {
        return std::upper_bound(
            shelf.lives.begin(), shelf.lives.end(), life.last,
            [](std::int32_t last, const Lifetime& other) { return last < other.first; });
    }

    // Where the largest of those that live at some time within `life` ends; 0: none does.
    static std::int64_t end_beside(const Shelf& shelf, const Lifetime& life) {
        std::int64_t end = 0;
        for (auto other = first_after(shelf, life);
             other != shelf.lives.begin() && (--other)->last >= life.first;)
            end = std::max(end, shelf.offset + other->bytes);
        return end;
    }

    std::vector<Shelf> shelves_;  // by offset
};

// Each at the lowest place that is free for all its life; nothing where that takes as much room as
// `limit`, or more.
std::optional<Placement> first_fit(const std::vector<Lifetime>& lifetimes, const Order& order,
                                   std::int64_t limit) {
    Placement placement{std::vector<std::int64_t>(lifetimes.size()), 0};
    Shelves shelves;
    for (const std::size_t index : order) {
        const Lifetime& life = lifetimes[index];
        const std::int64_t offset = shelves.lowest_free(life);
        placement.offsets[index] = offset;
        placement.bytes = std::max(placement.bytes, offset + life.bytes);
        if (placement.bytes >= limit) return std::nullopt;
        shelves.add(life, offset);
    }
    return placement;
}

// One above the other, in order of birth.
Placement stack(const std::vector<Lifetime>& lifetimes) {
    Placement placement;
    placement.offsets.reserve(lifetimes.size());
    for (const Lifetime& life : lifetimes) {
        placement.offsets.push_back(placement.bytes);
        placement.bytes += life.bytes;
    }
    return placement;
}

// In order of birth; those apart above all others.
Placement by_birth(const std::vector<Lifetime>& lifetimes) {
    Order lower;
    Order upper;
    for (std::size_t i = 0; i < lifetimes.size(); ++i)
        (lifetimes[i].apart ? upper : lower).push_back(i);
    Placement below = *first_fit(lifetimes, lower, kNoLimit);
    const Placement above = *first_fit(lifetimes, upper, kNoLimit);
    for (const std::size_t index : upper)
        below.offsets[index] = below.bytes + above.offsets[index];
    below.bytes += above.bytes;
    return below;
}

template <typename Before>
std::optional<Placement> in_order(const std::vector<Lifetime>& lifetimes, Before before,
                                  std::int64_t limit) {
    Order order(lifetimes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return before(lifetimes[a], lifetimes[b]);
    });
    return first_fit(lifetimes, order, limit);
}

}  // namespace

std::int64_t most_alive(const std::vector<Lifetime>& lifetimes) {
    std::size_t steps = 0;
    for (const Lifetime& life : lifetimes)
        steps = std::max(steps, static_cast<std::size_t>(life.last) + 1);
    std::vector<std::int64_t> change(steps + 1);
    for (const Lifetime& life : lifetimes) {
        change[static_cast<std::size_t>(life.first)] += life.bytes;
        change[static_cast<std::size_t>(life.last) + 1] -= life.bytes;
    }
    std::int64_t alive = 0;
    std::int64_t most = 0;
    for (const std::int64_t bytes : change) {
        alive += bytes;
        most = std::max(most, alive);
    }
    return most;
}

Placement place(const std::vector<Lifetime>& lifetimes) {
    const std::int64_t least = most_alive(lifetimes);
    if (Placement all = stack(lifetimes); all.bytes == least) return all;
    Placement best = by_birth(lifetimes);
    const auto try_other = [&](auto before) {
        if (best.bytes == least) return;
        if (auto other = in_order(lifetimes, before, best.bytes)) best = std::move(*other);
    };
    // Birth, none apart: `best` already where none is.
    if (std::any_of(lifetimes.begin(), lifetimes.end(), [](const Lifetime& l) { return l.apart; }))
        try_other([](const Lifetime&, const Lifetime&) { return false; });
    try_other([](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
    // Backwards in time among those of a size: of zero-bubble schedules by far the best.
    try_other([](const Lifetime& a, const Lifetime& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.last > b.last;
    });
    return best;
}

}  // namespace orrery::plan
