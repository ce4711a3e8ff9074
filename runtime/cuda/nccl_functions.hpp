// The functions of NCCL that are called; see late_functions.hpp.
#pragma once

#include <nccl.h>

namespace orrery::runtime::cuda {

// Less the "nccl" that all their names begin with.
#define ORRERY_NCCL_FUNCTIONS(EACH) \
    EACH(AllGather)                 \
    EACH(AllReduce)                 \
    EACH(Broadcast)                 \
    EACH(CommAbort)                 \
    EACH(CommDeregister)            \
    EACH(CommDestroy)               \
    EACH(CommFinalize)              \
    EACH(CommGetAsyncError)         \
    EACH(CommInitRankConfig)        \
    EACH(CommRegister)              \
    EACH(CommSplit)                 \
    EACH(GetErrorString)            \
    EACH(GetLastError)              \
    EACH(GetUniqueId)               \
    EACH(GroupEnd)                  \
    EACH(GroupStart)                \
    EACH(MemAlloc)                  \
    EACH(MemFree)                   \
    EACH(Recv)                      \
    EACH(ReduceScatter)             \
    EACH(Send)

// Of later versions than the oldest that does: null where the library does not have one.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#define ORRERY_LATER_NCCL_FUNCTIONS(EACH) \
    EACH(CommInitRankScalable)            \
    EACH(CommWindowDeregister)            \
    EACH(CommWindowRegister)
#elif NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
#define ORRERY_LATER_NCCL_FUNCTIONS(EACH) EACH(CommInitRankScalable)
#else
#define ORRERY_LATER_NCCL_FUNCTIONS(EACH)
#endif

struct Nccl {
#define ORRERY_MEMBER(name) decltype(&nccl##name) name = nullptr;
    ORRERY_NCCL_FUNCTIONS(ORRERY_MEMBER)
    ORRERY_LATER_NCCL_FUNCTIONS(ORRERY_MEMBER)
#undef ORRERY_MEMBER
};

// Throws DeviceError where NCCL is not there or does not do.
const Nccl& nccl();

}  // namespace orrery::runtime::cuda
