#include "runtime/cpu/kernels/functions.hpp"

#define ORRERY_TEXT_OF(token) #token
#define ORRERY_TEXT(macro) ORRERY_TEXT_OF(macro)

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

const KernelTable table = {.instruction_set = ORRERY_TEXT(ORRERY_INSTRUCTION_SET),
#define ORRERY_KERNEL_ENTRY(name, Request) .name = name,
                           ORRERY_KERNELS(ORRERY_KERNEL_ENTRY)
#undef ORRERY_KERNEL_ENTRY
};

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
