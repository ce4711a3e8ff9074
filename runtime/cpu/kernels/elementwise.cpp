// add, cast, fill.
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

plan::DType wider(plan::DType a, plan::DType b) {
    return a == plan::DType::fp64 ? a : b;
}

template <typename W>
void add_as(const Add& op, Team& team) {
    for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
        Space<W> a, b, y;
        W* const sum = target(op.y, begin, y.at);
        Array<W>(sum, n) = ConstArray<W>(read(op.a, begin, n, a.at), n) +
                           ConstArray<W>(read(op.b, begin, n, b.at), n);
        store(sum, op.y, begin, n);
    });
}

template <typename W>
void cast_as(const Cast& op, Team& team) {
    for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
        Space<W> space;
        convert_to(op.y, begin, n, read(op.x, begin, n, space.at));
    });
}

template <typename W>
void fill_as(const Fill& op, Team& team) {
    for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
        Space<W> space;
        W* const x = target(op.x, begin, space.at);
        Array<W>(x, n).setConstant(static_cast<W>(op.value));
        store(x, op.x, begin, n);
    });
}

}  // namespace

void add(const Add& op, Team& team) {
    with_work_type(wider(op.a.dtype, wider(op.b.dtype, op.y.dtype)),
                   [&](auto w) { add_as<decltype(w)>(op, team); });
}

void cast(const Cast& op, Team& team) {
    if (op.y.dtype == plan::DType::fp8_e4m3) return pack(op, team);
    if (op.x.dtype == plan::DType::fp8_e4m3) return unpack(op, team);
    with_work_type(wider(op.x.dtype, op.y.dtype), [&](auto w) { cast_as<decltype(w)>(op, team); });
}

void fill(const Fill& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { fill_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
