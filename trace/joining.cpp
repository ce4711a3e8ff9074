#include "trace/joining.hpp"

#include <algorithm>

namespace orrery::trace {

std::size_t first_of_last_step(const ProgramOps& program) {
    std::size_t first = program.step.size();
    while (first > 1 && program.step[first - 2] <= program.step[first - 1])
        --first;
    return first > 0 ? first - 1 : 0;
}

bool same_op(const OpName& a, const OpName& b) {
    return a.block == b.block && a.kind == b.kind && a.phase == b.phase && a.stream == b.stream &&
           a.group == b.group && a.flops == b.flops && a.bytes == b.bytes;
}

bool same_step(const Trace& a, const ProgramOps& of_a, const Trace& b, const ProgramOps& of_b) {
    const auto first_a = static_cast<std::ptrdiff_t>(first_of_last_step(of_a));
    const auto first_b = static_cast<std::ptrdiff_t>(first_of_last_step(of_b));
    return of_a.actions == of_b.actions &&
           std::equal(of_a.op.begin() + first_a, of_a.op.end(), of_b.op.begin() + first_b,
                      of_b.op.end(), [&](std::uint32_t op_a, std::uint32_t op_b) {
                          return same_op(a.ops[op_a], b.ops[op_b]);
                      });
}

}  // namespace orrery::trace
