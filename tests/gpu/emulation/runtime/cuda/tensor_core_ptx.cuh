// In place of runtime/cuda/tensor_core_ptx.cuh on the emulated device: the same instructions, by
// their definitions. Copies are made when they are waited for, at the latest moment a device may.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/kernels/eight_bit.hpp"
#include "runtime/number.hpp"
#include "tests/gpu/emulation/cuda_runtime.h"

namespace orrery::runtime::cuda {

template <typename E>
float element_of(std::uint32_t both, unsigned index) {
    return to_float(E{static_cast<std::uint16_t>(index == 0 ? both : both >> 16U)});
}

template <typename E>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    struct Held {
        std::uint32_t a[4], b[2];
    };
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    ++emulation::tensor_core_products;
    emulation::exchange(Held{{a[0], a[1], a[2], a[3]}, {b0, b1}}, [&](auto of_lane) {
        std::array<Held, 4> row;  // lanes that hold rows g and g + 8 of a
        for (unsigned k = 0; k < 4; ++k)
            row[k] = of_lane(4 * g + k);
        for (unsigned j = 0; j < 2; ++j)
            for (unsigned k = 0; k < 16; ++k) {
                const Held column = of_lane(4 * (2 * t + j) + k % 8 / 2);
                const float b = element_of<E>(column.b[k / 8], k % 2);
                for (unsigned i = 0; i < 2; ++i) {
                    const std::uint32_t both = row[k % 8 / 2].a[2 * (k / 8) + i];
                    c[2 * i + j] = std::fma(element_of<E>(both, k % 2), b, c[2 * i + j]);
                }
            }
        return 0;
    });
}

inline std::uint32_t joined(std::uint16_t first, std::uint16_t second) {
    return first | (std::uint32_t{second} << 16U);
}

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    emulation::exchange(static_cast<const std::uint16_t*>(row), [&](auto of_lane) {
        for (unsigned i = 0; i < 4; ++i) {
            const std::uint16_t* const from = of_lane(8 * i + g);
            to[i] = joined(from[2 * t], from[2 * t + 1]);
        }
        return 0;
    });
}

inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    emulation::exchange(static_cast<const std::uint16_t*>(row), [&](auto of_lane) {
        for (unsigned i = 0; i < 4; ++i)
            to[i] = joined(of_lane(8 * i + 2 * t)[g], of_lane(8 * i + 2 * t + 1)[g]);
        return 0;
    });
}

template <typename E>
std::uint32_t packed(float first, float second) {
    if constexpr (std::is_same_v<E, BFloat16>)
        return joined(to_bfloat16(first).bits, to_bfloat16(second).bits);
    else
        return joined(to_half(first).bits, to_half(second).bits);
}

inline bool multiplies_eight_bits() {
    return emulation::compute_capability >= 89;
}

template <typename A>
void multiply_add_eight_bits(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
    struct Held {
        std::uint32_t a[4], b[2];
    };
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    ++emulation::tensor_core_products;
    emulation::exchange(Held{{a[0], a[1], a[2], a[3]}, {b0, b1}}, [&](auto of_lane) {
        const auto byte = [](std::uint32_t numbers, unsigned k) {
            return static_cast<std::uint8_t>(numbers >> (8 * (k % 4)));
        };
        std::array<Held, 4> row, column;  // lanes that hold rows g and g + 8 of a; a column of b
        for (unsigned i = 0; i < 4; ++i)
            row[i] = of_lane(4 * g + i);
        for (unsigned j = 0; j < 2; ++j) {
            for (unsigned i = 0; i < 4; ++i)
                column[i] = of_lane(4 * (2 * t + j) + i);
            for (unsigned k = 0; k < 32; ++k) {
                const float of_b = E4M3::value(byte(column[k % 16 / 4].b[k / 16], k));
                for (unsigned i = 0; i < 2; ++i)
                    c[2 * i + j] = std::fma(A::value(byte(row[k % 16 / 4].a[2 * (k / 16) + i], k)),
                                            of_b, c[2 * i + j]);
            }
        }
        return 0;
    });
}

inline void copy_16_bytes(void* to, const void* from, bool exist) {
    emulation::copy_later(to, exist ? from : nullptr);
}
inline void end_group_of_copies() {
    emulation::end_group_of_copies();
}
template <int kGroups>
void wait_for_copies() {
    emulation::make_copies(kGroups);
}

}  // namespace orrery::runtime::cuda
