// Arithmetic that every backend shares is written once and marked with this: to nvcc a function of
// host and device, to other compilers an ordinary one.
#pragma once

#ifdef __CUDACC__
#define ORRERY_HOST_DEVICE __host__ __device__
#else
#define ORRERY_HOST_DEVICE
#endif

// Before a loop over an array that has to stay in registers.
#ifdef __CUDACC__
#define ORRERY_UNROLLED _Pragma("unroll")
#else
#define ORRERY_UNROLLED
#endif
