// What must have ended before an op of a block may start (order.hpp), as linking reads it: counts
// by number of the stream among those that a plan uses, several to an instruction. Internal to
// link.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "plan/ir/order.hpp"
#include "plan/ir/plan.hpp"

namespace orrery::plan {

// Several counts at once: one instruction in place of as many where a processor has it, with the
// same result. Signed, as x86-64 compares them.
template <typename Count>
using Vector __attribute__((vector_size(16))) = Count;
template <typename Count>
constexpr std::size_t kAtOnce = 16 / sizeof(Count);

template <typename Count>
Vector<Count> vector_at(const Count* counts) {
    Vector<Count> some;
    std::memcpy(&some, counts, sizeof some);
    return some;
}
template <typename Some, typename Count>
void put_vector(Some some, Count* counts) {
    std::memcpy(counts, &some, sizeof some);
}
template <typename Some>
Some larger(Some a, Some b) {
    return a > b ? a : b;
}
template <typename Some>
Some smaller(Some a, Some b) {
    return a < b ? a : b;
}

// The orders of a plan's blocks, by number of the stream among those in use; of each block once for
// all programs.
template <typename Count, std::size_t width>
class Orders {
  public:
    using Counts = std::array<Count, width>;

    struct Order {
        struct OfOp {
            Counts waits{};
            std::uint32_t stream = 0;
            std::uint32_t first_outside = 0, end_outside = 0;  // its accesses in `outside`
            bool touches_scratch = false;
        };
        std::vector<OfOp> ops;
        std::vector<OutsideAccess> outside;
    };

    Orders(const Plan& plan, const std::vector<Stream>& streams)
        : plan_(plan), streams_(streams), orders_(plan.blocks.size()) {
        for (std::size_t s = 0; s < streams.size(); ++s)
            number_of_[index_of(streams[s])] = s;
    }

    const std::vector<Stream>& streams() const { return streams_; }
    std::size_t number_of(Stream stream) const { return number_of_[index_of(stream)]; }

    const Order& of(std::size_t number) {
        std::optional<Order>& known = orders_[number];
        if (known) return *known;
        const Block& block = plan_.blocks[number];
        BlockOrder all = order_of(block);
        known.emplace();
        known->ops.resize(block.ops.size());
        std::size_t outside = 0;
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            auto& of = known->ops[i];
            for (std::size_t s = 0; s < streams_.size(); ++s)
                of.waits[s] = static_cast<Count>(all.waits[i][index_of(streams_[s])]);
            of.stream = static_cast<std::uint32_t>(number_of(block.ops[i].stream));
            of.first_outside = static_cast<std::uint32_t>(outside);
            while (outside < all.outside.size() &&
                   all.outside[outside].op == static_cast<std::int32_t>(i))
                ++outside;
            of.end_outside = static_cast<std::uint32_t>(outside);
            of.touches_scratch = all.touches_scratch[i];
        }
        known->outside = std::move(all.outside);
        return *known;
    }

  private:
    const Plan& plan_;
    const std::vector<Stream>& streams_;             // in use
    std::array<std::size_t, kStreams> number_of_{};  // among them
    std::vector<std::optional<Order>> orders_;       // by block, of those that were asked for
};

}  // namespace orrery::plan
