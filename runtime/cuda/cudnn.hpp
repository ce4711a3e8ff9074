// The functions of cuDNN's backend interface that are called; see late_functions.hpp.
#pragma once

#include <cudnn.h>

namespace orrery::runtime::cuda {

// Less the "cudnn" that all their names begin with.
#define ORRERY_CUDNN_FUNCTIONS(EACH) \
    EACH(Create)                     \
    EACH(Destroy)                    \
    EACH(SetStream)                  \
    EACH(GetErrorString)             \
    EACH(BackendCreateDescriptor)    \
    EACH(BackendDestroyDescriptor)   \
    EACH(BackendSetAttribute)        \
    EACH(BackendGetAttribute)        \
    EACH(BackendFinalize)            \
    EACH(BackendExecute)

struct Cudnn {
#define ORRERY_MEMBER(name) decltype(&cudnn##name) name = nullptr;
    ORRERY_CUDNN_FUNCTIONS(ORRERY_MEMBER)
#undef ORRERY_MEMBER
};

// Null where cuDNN is not there or does not do: nothing needs it.
const Cudnn* cudnn();

}  // namespace orrery::runtime::cuda
