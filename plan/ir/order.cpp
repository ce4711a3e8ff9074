#include "plan/ir/order.hpp"

#include <algorithm>

namespace orrery::plan {
namespace {

bool contains(const std::vector<TensorId>& ids, TensorId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

BlockOrder order_of(const Block& block) {
    BlockOrder order;
    std::vector<Accesses> accesses(block.tensors.size());
    std::vector<std::uint32_t> count_of(block.ops.size());  // position of an op within its stream
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        StreamCounts waits{};
        auto wait_for_op = [&](std::int32_t earlier) {
            const auto e = static_cast<std::size_t>(earlier);
            auto& count = waits[index_of(block.ops[e].stream)];
            count = std::max(count, count_of[e]);
        };
        for (TensorId id : op.reads)
            join(waits, accesses[static_cast<std::size_t>(id)].writes);
        for (TensorId id : op.writes) {
            join(waits, accesses[static_cast<std::size_t>(id)].writes);
            join(waits, accesses[static_cast<std::size_t>(id)].reads);
        }
        for (std::int32_t earlier : op.after)
            wait_for_op(earlier);
        for (const ReuseEdge& edge : block.reuse)
            if (edge.later == static_cast<std::int32_t>(i)) wait_for_op(edge.earlier);
        waits[index_of(op.stream)] = 0;  // in order anyway
        order.waits.push_back(waits);

        count_of[i] = ++order.ops_per_stream[index_of(op.stream)];
        bool scratch = false;
        auto touch = [&](TensorId id, bool writes) {
            auto& access = accesses[static_cast<std::size_t>(id)];
            (writes ? access.writes : access.reads)[index_of(op.stream)] = count_of[i];
            if (block.tensors[static_cast<std::size_t>(id)].role == Role::scratch)
                scratch = true;
            else if (writes || !contains(op.writes, id))
                order.outside.push_back({static_cast<std::int32_t>(i), id, writes});
        };
        for (TensorId id : op.reads)
            touch(id, false);
        for (TensorId id : op.writes)
            touch(id, true);
        order.touches_scratch.push_back(scratch);
    }
    return order;
}

}  // namespace orrery::plan
