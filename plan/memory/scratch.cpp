#include <algorithm>
#include <limits>

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
    bool shares_memory(const Interval& other) const {
        return offset < other.offset + other.bytes && other.offset < offset + bytes;
    }
};

std::vector<Interval> scratch_intervals(const Block& block) {
    std::vector<Interval> intervals(block.tensors.size());
    for (std::size_t t = 0; t < intervals.size(); ++t) {
        intervals[t] = {static_cast<TensorId>(t), std::numeric_limits<std::int32_t>::max(), -1, 0,
                        aligned(block.tensors[t].bytes())};
    }
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        auto touch = [&](TensorId id) {
            Interval& interval = intervals[static_cast<std::size_t>(id)];
            interval.first = std::min(interval.first, static_cast<std::int32_t>(i));
            interval.last = static_cast<std::int32_t>(i);
        };
        for (TensorId id : block.ops[i].reads)
            touch(id);
        for (TensorId id : block.ops[i].writes)
            touch(id);
    }
    std::erase_if(intervals, [&](const Interval& interval) {
        return block.tensors[static_cast<std::size_t>(interval.tensor)].role != Role::scratch ||
               interval.last < 0;
    });
    std::stable_sort(intervals.begin(), intervals.end(),
                     [](const Interval& a, const Interval& b) { return a.first < b.first; });
    return intervals;
}

// Lowest offset that is free of everything placed and alive when `interval` is born.
std::int64_t first_fit(const std::vector<Interval>& placed, const Interval& interval) {
    std::vector<const Interval*> alive;
    for (const Interval& other : placed)
        if (other.last >= interval.first) alive.push_back(&other);
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

// Ops in issue order that touch a tensor.
std::vector<std::int32_t> ops_touching(const Block& block, TensorId id) {
    std::vector<std::int32_t> ops;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (std::count(op.reads.begin(), op.reads.end(), id) +
                std::count(op.writes.begin(), op.writes.end(), id) >
            0)
            ops.push_back(static_cast<std::int32_t>(i));
    }
    return ops;
}

void add_edges(Block& block, const Interval& before, const Interval& after) {
    for (std::int32_t earlier : ops_touching(block, before.tensor)) {
        const Stream stream = block.ops[static_cast<std::size_t>(earlier)].stream;
        if (stream == block.ops[static_cast<std::size_t>(after.first)].stream) continue;
        const ReuseEdge edge{earlier, after.first};
        if (std::find(block.reuse.begin(), block.reuse.end(), edge) == block.reuse.end())
            block.reuse.push_back(edge);
    }
}

// Vector clocks over the block: what each op is known to follow.
bool ordered_without(const Block& block, std::size_t skipped) {
    Block trial = block;
    const ReuseEdge edge = trial.reuse[skipped];
    trial.reuse.erase(trial.reuse.begin() + static_cast<std::ptrdiff_t>(skipped));
    const BlockOrder order = order_of(trial);
    std::vector<StreamCounts> known(trial.ops.size());
    StreamCounts issued{};
    std::array<std::int32_t, kStreams> last_on{};
    last_on.fill(-1);
    std::vector<std::vector<std::int32_t>> on_stream(kStreams);
    for (std::size_t i = 0; i < trial.ops.size(); ++i) {
        const std::size_t s = index_of(trial.ops[i].stream);
        if (last_on[s] >= 0) known[i] = known[static_cast<std::size_t>(last_on[s])];
        for (std::size_t other = 0; other < kStreams; ++other) {
            const std::uint32_t count = order.waits[i][other];
            if (count == 0) continue;
            const auto& there = known[static_cast<std::size_t>(on_stream[other][count - 1])];
            for (std::size_t k = 0; k < kStreams; ++k)
                known[i][k] = std::max(known[i][k], there[k]);
            known[i][other] = std::max(known[i][other], count);
        }
        if (static_cast<std::int32_t>(i) == edge.later) {
            const Stream stream = trial.ops[static_cast<std::size_t>(edge.earlier)].stream;
            const auto& list = on_stream[index_of(stream)];
            const auto position = std::find(list.begin(), list.end(), edge.earlier) - list.begin();
            return known[i][index_of(stream)] > static_cast<std::uint32_t>(position);
        }
        known[i][s] = ++issued[s];
        last_on[s] = static_cast<std::int32_t>(i);
        on_stream[s].push_back(static_cast<std::int32_t>(i));
    }
    return false;
}

}  // namespace

void plan_scratch(Block& block) {
    block.scratch_offsets.assign(block.tensors.size(), -1);
    block.scratch_bytes = 0;
    block.reuse.clear();
    std::vector<Interval> placed;
    for (Interval interval : scratch_intervals(block)) {
        interval.offset = first_fit(placed, interval);
        block.scratch_offsets[static_cast<std::size_t>(interval.tensor)] = interval.offset;
        block.scratch_bytes = std::max(block.scratch_bytes, interval.offset + interval.bytes);
        for (const Interval& other : placed)
            if (other.last < interval.first && other.shares_memory(interval))
                add_edges(block, other, interval);
        placed.push_back(interval);
    }
    std::sort(block.reuse.begin(), block.reuse.end(), [](const ReuseEdge& a, const ReuseEdge& b) {
        return a.later < b.later || (a.later == b.later && a.earlier < b.earlier);
    });
    for (std::size_t i = block.reuse.size(); i-- > 0;)
        if (ordered_without(block, i))
            block.reuse.erase(block.reuse.begin() + static_cast<std::ptrdiff_t>(i));
}

StashArea stash_area(const Block& forward) {
    StashArea area;
    for (const Tensor& tensor : forward.tensors) {
        if (tensor.role != Role::stash) {
            area.offsets.push_back(-1);
            continue;
        }
        area.offsets.push_back(area.bytes);
        area.bytes += aligned(tensor.bytes());
    }
    return area;
}

}  // namespace orrery::plan
