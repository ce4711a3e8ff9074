// Token files of Megatron-LM, written by what megatron/core/datasets/indexed_dataset.py says.
#pragma once

#include <string>
#include <vector>

#include "tests/trace/native_container.hpp"

namespace orrery::runtime {

// Bytes of a token by Megatron-LM's code of its type.
inline int megatron_width(int code) {
    constexpr int kWidths[] = {0, 1, 1, 2, 4, 8, 8, 4, 2};
    return kWidths[code];
}

// A sequence for each document.
inline std::string megatron_index(const std::vector<std::vector<std::uint64_t>>& documents,
                                  int code) {
    std::string lengths, begins, bounds = trace::little_endian(0, 8);
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < documents.size(); ++i) {
        lengths += trace::little_endian(documents[i].size(), 4);
        begins += trace::little_endian(at, 8);
        bounds += trace::little_endian(i + 1, 8);
        at += documents[i].size() * static_cast<std::uint64_t>(megatron_width(code));
    }
    return std::string("MMIDIDX\0\0", 9) + trace::little_endian(1, 8) + static_cast<char>(code) +
           trace::little_endian(documents.size(), 8) +
           trace::little_endian(documents.size() + 1, 8) + lengths + begins + bounds;
}

inline std::string megatron_tokens(const std::vector<std::vector<std::uint64_t>>& documents,
                                   int code) {
    std::string bytes;
    for (const auto& document : documents)
        for (const std::uint64_t token : document)
            bytes += trace::little_endian(token, megatron_width(code));
    return bytes;
}

}  // namespace orrery::runtime
