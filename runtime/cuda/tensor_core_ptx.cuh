// Instructions of tensor cores and of copies that go on by themselves (PTX ISA 8.5, sections 9.7.9
// and 9.7.14; compute capability 8.0 and up). A warp calls them together. What a lane holds of a
// matrix, with g = lane / 4 and t = lane % 4, two 16-bit elements in a register:
//   a of 16 x 16: rows g, g + 8, g, g + 8; columns 2t, 2t + 1, of the last two registers 8 further
//   b of 16 x 8:  rows 2t, 2t + 1, of the second register 8 further; column g
//   c of 16 x 8:  row g at columns 2t, 2t + 1, then row g + 8
// Of eight bits, four elements in a register:
//   a of 16 x 32: rows g, g + 8, g, g + 8; columns 4t … 4t + 3, of the last two registers 16
//   further b of 32 x 8:  rows 4t … 4t + 3, of the second register 16 further; column g
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "runtime/kernels/eight_bit.hpp"
#include "runtime/number.hpp"

namespace orrery::runtime::cuda {

// c += a · b. E: BFloat16 or Half.
template <typename E>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
    if constexpr (std::is_same_v<E, BFloat16>)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8 x 8 elements: lane l names row l % 8 of matrix l / 8, 16 bytes of shared
// memory, aligned. Of matrix i a lane gets row g, elements 2t and 2t + 1.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// As above; of matrix i a lane gets column g, elements 2t and 2t + 1.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// Both rounded to E, the first one in the lower half.
template <typename E>
__device__ inline std::uint32_t packed(float first, float second) {
    std::uint32_t both = 0;
    if constexpr (std::is_same_v<E, BFloat16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}

// Whether tensor cores multiply numbers of eight bits: from compute capability 8.9 on.
__device__ constexpr bool multiplies_eight_bits() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    return true;
#else
    return false;
#endif
}

// c += a · b of numbers of eight bits, those of a A (E4M3 or E5M2), of b E4M3; of those that do.
template <typename A>
__device__ inline void multiply_add_eight_bits([[maybe_unused]] float (&c)[4],
                                               [[maybe_unused]] const std::uint32_t (&a)[4],
                                               [[maybe_unused]] std::uint32_t b0,
                                               [[maybe_unused]] std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    if constexpr (std::is_same_v<A, E4M3>)
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// 16 bytes of device memory to shared memory, both aligned; zeros where there are none. They are
// there after wait_for_copies by the thread that asked.
__device__ inline void copy_16_bytes(void* to, const void* from, bool exist) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(from), "r"(exist ? 16 : 0)
                 : "memory");
}
__device__ inline void end_group_of_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// But for the last kGroups groups.
template <int kGroups>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace orrery::runtime::cuda
