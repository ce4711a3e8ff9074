// The kernels of one instruction set, as their table names them.
#pragma once

#include "runtime/cpu/kernels.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

extern const KernelTable table;

#define ORRERY_KERNEL_FUNCTION(name, Request) void name(const Request&, Team& team);
ORRERY_KERNELS(ORRERY_KERNEL_FUNCTION)
#undef ORRERY_KERNEL_FUNCTION

void pack(const Cast&, Team& team);    // into blocks with scales
void unpack(const Cast&, Team& team);  // … and out of them

// Of a row of a matrix whose rows are `stride` wide.
struct MatrixPart {
    std::int64_t stride, row, column, columns;
};

// Numbers of eight bits times their scales. Defined for float and double (eight_bit.cpp).
template <typename W>
void expand(const Buffer& from, const Scales& scales, const MatrixPart& part, W* to);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
