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

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
