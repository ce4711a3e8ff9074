#include <cstdint>

#include "runtime/cpu/kernels/dropout_mask.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void dropout_as(const Dropout& op, Team& team) {
    for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
        Space<W> space, factor, dropped;
        keep_factors(op.key, op.index, begin, n, factor.at);
        if (op.mask)
            for (std::int64_t i = 0; i < n; ++i)
                data<std::uint8_t>(op.mask, begin)[i] = factor.at[i] != 0;
        W* const y = target(op.y, begin, dropped.at);
        Array<W>(y, n) =
            ConstArray<W>(read(op.x, begin, n, space.at), n) * ConstArray<W>(factor.at, n);
        store(y, op.y, begin, n);
    });
}

template <typename W>
void dropout_backward_as(const DropoutBackward& op, Team& team) {
    const auto kept = static_cast<W>(1 / (1 - op.key.p));
    for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
        Space<W> space, factor, dropped;
        if (op.mask)
            for (std::int64_t i = 0; i < n; ++i)
                factor.at[i] = data<std::uint8_t>(op.mask, begin)[i] != 0 ? kept : W{0};
        else
            keep_factors(op.key, op.index, begin, n, factor.at);
        W* const dx = target(op.dx, begin, dropped.at);
        Array<W>(dx, n) =
            ConstArray<W>(read(op.dy, begin, n, space.at), n) * ConstArray<W>(factor.at, n);
        store(dx, op.dx, begin, n);
    });
}

}  // namespace

void dropout(const Dropout& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { dropout_as<decltype(w)>(op, team); });
}

void dropout_backward(const DropoutBackward& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) { dropout_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
