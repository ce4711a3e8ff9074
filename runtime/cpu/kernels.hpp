// The CPU's kernels: one function per request, in a table per instruction set. They are the fast
// path of the embedded runtime and the oracle of every other backend.
//
// A result never depends on the number of threads. An element type that a kernel does not support
// stops the program (ORRERY_CHECK).
#pragma once

#include "runtime/cpu/team.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

struct KernelTable {
    const char* instruction_set;
#define ORRERY_KERNEL_POINTER(name, Request) void (*name)(const Request&, Team&);
    ORRERY_KERNELS(ORRERY_KERNEL_POINTER)
#undef ORRERY_KERNEL_POINTER
};

// The fastest that this processor can run: v3 where it has AVX2, FMA, F16C and BMI2.
const KernelTable& kernels();

// Any x86-64's; and x86-64-v3's, or null where this processor lacks it.
const KernelTable& baseline_kernels();
const KernelTable* v3_kernels();

}  // namespace orrery::runtime
