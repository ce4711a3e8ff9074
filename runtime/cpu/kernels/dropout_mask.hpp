// Which elements dropout keeps.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernels.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

// factor[i] = 1/(1 − p) where the element of global index first + i is kept, else 0.
template <typename W>
void keep_factors(const DropoutKey& key, std::uint64_t first, std::int64_t n, W* factor);

// The same of elements [begin, begin + n) of a tensor with these indices.
template <typename W>
void keep_factors(const DropoutKey& key, const ElementIndex& index, std::int64_t begin,
                  std::int64_t n, W* factor) {
    begin += static_cast<std::int64_t>(index.begin);
    const std::int64_t run = index.run == 0 ? begin + n : static_cast<std::int64_t>(index.run);
    const std::int64_t split = index.skip == 0 ? 0 : static_cast<std::int64_t>(index.split);
    while (n > 0) {
        const std::int64_t of_run = begin % run;
        const bool before = of_run < split;
        const std::int64_t left = (before ? split : run) - of_run;
        const std::int64_t length = n < left ? n : left;
        const std::uint64_t first = index.first +
                                    static_cast<std::uint64_t>(begin / run) * index.stride +
                                    static_cast<std::uint64_t>(of_run) + (before ? 0 : index.skip);
        keep_factors(key, first, length, factor);
        begin += length;
        n -= length;
        factor += length;
    }
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
