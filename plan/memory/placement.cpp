#include "plan/memory/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery::plan {
namespace {

using Order = std::vector<std::size_t>;

// Those that are placed already, to be asked which of them live at some time within another's life:
// a tree over all in order of birth, whose nodes hold the last end of those placed below.
class Placed {
  public:
    explicit Placed(const std::vector<Lifetime>& lifetimes) : lifetimes_(lifetimes) {
        while (leaves_ < lifetimes.size())
            leaves_ *= 2;
        last_.assign(2 * leaves_, -1);
    }

    void add(std::size_t index) {
        for (std::size_t node = leaves_ + index; node > 0; node /= 2)
            last_[node] = std::max(last_[node], lifetimes_[index].last);
    }

    // Appends those that live at some time within `life`.
    void find(const Lifetime& life, Order& found) const { find(1, 0, leaves_, life, found); }

  private:
    void find(std::size_t node, std::size_t begin, std::size_t size, const Lifetime& life,
              Order& found) const {
        if (begin >= lifetimes_.size() || last_[node] < life.first ||
            lifetimes_[begin].first > life.last)
            return;
        if (size == 1) {
            found.push_back(begin);
            return;
        }
        find(2 * node, begin, size / 2, life, found);
        find(2 * node + 1, begin + size / 2, size / 2, life, found);
    }

    const std::vector<Lifetime>& lifetimes_;
    std::size_t leaves_ = 1;
    std::vector<std::int32_t> last_;
};

// Each at the lowest place that is free for all its life.
Placement first_fit(const std::vector<Lifetime>& lifetimes, const Order& order) {
    Placement placement{std::vector<std::int64_t>(lifetimes.size()), 0};
    Placed placed(lifetimes);
    Order beside;
    for (const std::size_t index : order) {
        beside.clear();
        placed.find(lifetimes[index], beside);
        std::sort(beside.begin(), beside.end(), [&](std::size_t a, std::size_t b) {
            return placement.offsets[a] < placement.offsets[b];
        });
        std::int64_t offset = 0;
        for (const std::size_t other : beside) {
            if (placement.offsets[other] >= offset + lifetimes[index].bytes) break;
            offset = std::max(offset, placement.offsets[other] + lifetimes[other].bytes);
        }
        placement.offsets[index] = offset;
        placement.bytes = std::max(placement.bytes, offset + lifetimes[index].bytes);
        placed.add(index);
    }
    return placement;
}

// One above the other, in order of birth.
Placement stack(const std::vector<Lifetime>& lifetimes) {
    Placement placement;
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
    Placement below = first_fit(lifetimes, lower);
    const Placement above = first_fit(lifetimes, upper);
    for (const std::size_t index : upper)
        below.offsets[index] = below.bytes + above.offsets[index];
    below.bytes += above.bytes;
    return below;
}

template <typename Before>
Placement in_order(const std::vector<Lifetime>& lifetimes, Before before) {
    Order order(lifetimes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return before(lifetimes[a], lifetimes[b]);
    });
    return first_fit(lifetimes, order);
}

}  // namespace

std::int64_t most_alive(const std::vector<Lifetime>& lifetimes) {
    std::map<std::int32_t, std::int64_t> change;  // by step
    for (const Lifetime& life : lifetimes) {
        change[life.first] += life.bytes;
        change[life.last + 1] -= life.bytes;
    }
    std::int64_t alive = 0;
    std::int64_t most = 0;
    for (const auto& [step, bytes] : change) {
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
        Placement other = in_order(lifetimes, before);
        if (other.bytes < best.bytes) best = std::move(other);
    };
    try_other([](const Lifetime&, const Lifetime&) { return false; });  // birth, none apart
    try_other([](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
    // Backwards in time among those of a size: of zero-bubble schedules by far the best.
    try_other([](const Lifetime& a, const Lifetime& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.last > b.last;
    });
    return best;
}

}  // namespace orrery::plan
