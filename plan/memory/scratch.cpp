#include <algorithm>
#include <utility>
#include <vector>

#include "plan/ir/order.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::plan {
namespace {

struct Interval {
    TensorId tensor = 0;
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::vector<std::int32_t> ops;  // that touch the tensor, in issue order
    bool shares_memory(const Interval& other) const {
        return offset < other.offset + other.bytes && other.offset < offset + bytes;
    }
};

// In the order in which they begin; of those that begin together the first tensor first.
std::vector<Interval> scratch_intervals(const Block& block) {
    // As in most blocks of a collective or of the optimizer.
    if (std::none_of(block.tensors.begin(), block.tensors.end(),
                     [](const Tensor& tensor) { return tensor.role == Role::scratch; }))
        return {};
    std::vector<std::int32_t> place(block.tensors.size(), -1);  // among the intervals
    std::vector<Interval> intervals;
    const auto touch = [&](TensorId id, std::size_t op) {
        const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        if (tensor.role != Role::scratch) return;
        const auto i = static_cast<std::int32_t>(op);
        std::int32_t& at = place[static_cast<std::size_t>(id)];
        if (at < 0) {
            at = static_cast<std::int32_t>(intervals.size());
            intervals.push_back({id, i, i, 0, aligned(tensor.bytes()), {}});
        }
        Interval& interval = intervals[static_cast<std::size_t>(at)];
        interval.last = i;
        if (interval.ops.empty() || interval.ops.back() != i) interval.ops.push_back(i);
    };
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        for (TensorId id : block.ops[i].reads)
            touch(id, i);
        for (TensorId id : block.ops[i].writes)
            touch(id, i);
    }
    std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
        return a.first < b.first || (a.first == b.first && a.tensor < b.tensor);
    });
    return intervals;
}

// Vector clocks over a block: which ops are known to have ended when another starts.
class Clocks {
  public:
    explicit Clocks(const Block& block) : block_(block), known_(block.ops.size()) {
        const BlockOrder order = order_of(block);
        std::array<std::vector<std::size_t>, kStreams> on_stream;
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const std::size_t own = index_of(block.ops[i].stream);
            if (!on_stream[own].empty()) known_[i] = known_[on_stream[own].back()];
            known_[i][own] = static_cast<std::uint32_t>(on_stream[own].size());
            for (std::size_t s = 0; s < kStreams; ++s) {
                const std::uint32_t count = order.waits[i][s];
                if (count == 0) continue;
                const StreamCounts& there = known_[on_stream[s][count - 1]];
                for (std::size_t k = 0; k < kStreams; ++k)
                    known_[i][k] = std::max(known_[i][k], there[k]);
                known_[i][s] = std::max(known_[i][s], count);
            }
            place_.push_back(static_cast<std::uint32_t>(on_stream[own].size()));
            on_stream[own].push_back(i);
        }
    }

    bool follows(std::int32_t later, std::int32_t earlier) const {
        const auto e = static_cast<std::size_t>(earlier);
        return known_[static_cast<std::size_t>(later)][index_of(block_.ops[e].stream)] > place_[e];
    }

  private:
    const Block& block_;
    std::vector<StreamCounts> known_;   // by op: ended before it starts, by stream
    std::vector<std::uint32_t> place_;  // by op: within its stream
};

// Whether `after` takes over memory of `before` only with an edge.
bool needs_edge(const Clocks& clocks, const Interval& before, const Interval& after) {
    return !std::all_of(before.ops.begin(), before.ops.end(),
                        [&](std::int32_t earlier) { return clocks.follows(after.first, earlier); });
}

// Lowest offset that is free of everything placed and alive when `interval` is born. For a tensor
// that a collective writes, dead ones that compute may still be reading count as alive: saving
// their memory would undo the overlap of the two.
std::int64_t first_fit(const Block& block, const Clocks& clocks,
                       const std::vector<Interval>& placed, const Interval& interval) {
    const bool collective =
        is_communication(block.ops[static_cast<std::size_t>(interval.first)].kind());
    std::vector<const Interval*> alive;
    for (const Interval& other : placed)
        if (other.last >= interval.first || (collective && needs_edge(clocks, other, interval)))
            alive.push_back(&other);
    std::sort(alive.begin(), alive.end(), [](const Interval* a, const Interval* b) {
        return a->offset < b->offset || (a->offset == b->offset && a->tensor < b->tensor);
    });
    std::int64_t offset = 0;
    for (const Interval* other : alive) {
        if (offset + interval.bytes <= other->offset) break;
        offset = std::max(offset, other->offset + other->bytes);
    }
    return offset;
}

}  // namespace

void plan_scratch(Block& block) {
    block.scratch_offsets.assign(block.tensors.size(), -1);
    block.scratch_bytes = 0;
    block.reuse.clear();
    std::vector<Interval> intervals = scratch_intervals(block);
    if (intervals.size() < 2) {  // nobody to share memory with
        if (intervals.empty()) return;
        block.scratch_offsets[static_cast<std::size_t>(intervals[0].tensor)] = 0;
        block.scratch_bytes = intervals[0].bytes;
        return;
    }
    const Clocks clocks(block);
    std::vector<Interval> placed;
    for (Interval& interval : intervals) {
        interval.offset = first_fit(block, clocks, placed, interval);
        block.scratch_offsets[static_cast<std::size_t>(interval.tensor)] = interval.offset;
        block.scratch_bytes = std::max(block.scratch_bytes, interval.offset + interval.bytes);
        for (const Interval& other : placed) {
            if (other.last >= interval.first || !other.shares_memory(interval)) continue;
            for (const std::int32_t earlier : other.ops) {
                const ReuseEdge edge{earlier, interval.first};
                if (!clocks.follows(interval.first, earlier) &&
                    std::find(block.reuse.begin(), block.reuse.end(), edge) == block.reuse.end())
                    block.reuse.push_back(edge);
            }
        }
        placed.push_back(std::move(interval));
    }
    std::sort(block.reuse.begin(), block.reuse.end(), [](const ReuseEdge& a, const ReuseEdge& b) {
        return a.later < b.later || (a.later == b.later && a.earlier < b.earlier);
    });
}

StashArea stash_area(const Block& forward, Role role) {
    StashArea area;
    for (const Tensor& tensor : forward.tensors) {
        if (tensor.role != role) {
            area.offsets.push_back(-1);
            continue;
        }
        area.offsets.push_back(area.bytes);
        area.bytes += aligned(tensor.bytes());
    }
    return area;
}

}  // namespace orrery::plan
