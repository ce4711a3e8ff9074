// Token files in each format, written by what the formats say and not by the program.
#pragma once

#include <string>
#include <vector>

#include "tests/trace/native_container.hpp"

namespace orrery::runtime {

inline std::string nanogpt_bytes(const std::vector<std::uint64_t>& tokens, int width = 2) {
    std::string bytes;
    for (const std::uint64_t token : tokens)
        bytes += trace::little_endian(token, width);
    return bytes;
}

struct LlmcHeader {
    std::uint64_t magic = 20240520, version = 1, tokens = 0;
};

inline std::string llmc_bytes(const LlmcHeader& header, const std::vector<std::uint64_t>& tokens,
                              int width) {
    std::string bytes = trace::little_endian(header.magic, 4) +
                        trace::little_endian(header.version, 4) +
                        trace::little_endian(header.tokens, 4);
    bytes.resize(1024, '\0');
    return bytes + nanogpt_bytes(tokens, width);
}

inline std::string llmc_gpt2(const std::vector<std::uint64_t>& tokens) {
    return llmc_bytes({20240520, 1, tokens.size()}, tokens, 2);
}

inline std::string llmc_llama3(const std::vector<std::uint64_t>& tokens) {
    return llmc_bytes({20240801, 7, tokens.size()}, tokens, 4);
}

}  // namespace orrery::runtime
