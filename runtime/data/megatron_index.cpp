#include "runtime/data/megatron_index.hpp"

#include <bit>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
constexpr std::int64_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26,
                       kIndexHeaderBytes = 34;

template <class Number>
Number index_number(std::span<const std::byte> bytes, std::int64_t offset) {
    Number value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

struct TokenType {
    const char* name;
    std::int64_t bytes;
    bool is_signed;
};

// numpy's types by Megatron-LM's DType codes, from 1; 0 bytes: no whole numbers.
constexpr TokenType kTokenTypes[] = {
    {"uint8", 1, false}, {"int8", 1, true},    {"int16", 2, true},   {"int32", 4, true},
    {"int64", 8, true},  {"float64", 0, true}, {"float32", 0, true}, {"uint16", 2, false}};

TokenType token_type(const std::string& path, std::span<const std::byte> bytes) {
    const auto code = index_number<std::uint8_t>(bytes, kTypeAt);
    if (code < 1 || code > std::size(kTokenTypes))
        throw DataError(path, fmt::format("byte {}: unknown type of tokens {}; 1 to {} are known",
                                          kTypeAt, code, std::size(kTokenTypes)));
    const TokenType type = kTokenTypes[code - 1];
    if (type.bytes == 0)
        throw DataError(path,
                        fmt::format("byte {}: {} {} are no tokens", kTypeAt, type.name, code));
    return type;
}

// Where sequences and documents of the index stand.
struct Tables {
    std::int64_t lengths = 0, begins = 0, documents = 0;
};

Tables tables_of(const std::string& path, std::span<const std::byte> bytes,
                 const MegatronIndex& index) {
    const std::int64_t size = std::ssize(bytes);
    // Of each sequence 4 + 8 bytes, of each document 8; more than the file has is more than 64 bits
    // can hold, too.
    if (index.sequences < 0 || index.documents < 0 || index.sequences > size ||
        index.documents > size ||
        kIndexHeaderBytes + 12 * index.sequences + 8 * index.documents != size)
        throw DataError(
            path, fmt::format("bytes {} and {}: {} sequences and {} document bounds; {} + 12 × {} "
                              "+ 8 × {} bytes are not the {} that the file has",
                              kSequencesAt, kDocumentsAt, index.sequences, index.documents,
                              kIndexHeaderBytes, index.sequences, index.documents, size));
    Tables tables;
    tables.lengths = kIndexHeaderBytes;
    tables.begins = tables.lengths + 4 * index.sequences;
    tables.documents = tables.begins + 8 * index.sequences;
    return tables;
}

// They follow one another from the first byte of the .bin to its last.
std::int64_t tokens_of(const std::string& path, std::span<const std::byte> bytes,
                       const MegatronIndex& index, const Tables& tables, std::int64_t bin_bytes) {
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < index.sequences; ++i) {
        const std::int64_t here = tables.begins + 8 * i;
        const auto length = index_number<std::int32_t>(bytes, tables.lengths + 4 * i);
        const auto begin = index_number<std::int64_t>(bytes, here);
        if (begin != at)
            throw DataError(path, fmt::format("byte {}: sequence {} begins at byte {} of the .bin, "
                                              "the one before it ends at {}",
                                              here, i, begin, at));
        if (length < 0 || length * index.bytes_per_token > bin_bytes - at)
            throw DataError(path, fmt::format("byte {}: sequence {} of {} tokens of {} bytes ends "
                                              "beyond the .bin, which has {} bytes",
                                              tables.lengths + 4 * i, i, length,
                                              index.bytes_per_token, bin_bytes));
        at += length * index.bytes_per_token;
    }
    if (at != bin_bytes)
        throw DataError(path, fmt::format("its sequences end at byte {} of the .bin, which has {}",
                                          at, bin_bytes));
    return at / index.bytes_per_token;
}

void check_documents(const std::string& path, std::span<const std::byte> bytes,
                     const MegatronIndex& index, const Tables& tables) {
    std::int64_t before = 0;
    for (std::int64_t i = 0; i <= index.documents; ++i) {
        const std::int64_t here = tables.documents + 8 * i;
        const auto bound = index_number<std::int64_t>(bytes, here);
        const bool last = i == index.documents;
        if (bound < before || (i == 0 && bound != 0) || bound > index.sequences ||
            (last && bound != index.sequences))
            throw DataError(path, fmt::format("byte {}: document bound {} is sequence {}; they go "
                                              "from 0 to {}, each no less than the one before",
                                              here, i, bound, index.sequences));
        before = bound;
    }
}

std::string with_ending(const std::string& path, const char* from, const char* to) {
    const std::string_view ending = from;
    if (!path.ends_with(ending)) return path + to;
    return path.substr(0, path.size() - ending.size()) + to;
}

}  // namespace

bool is_megatron_index(std::span<const std::byte> bytes) {
    return std::ssize(bytes) >= std::ssize(kIndexMagic) &&
           std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) == 0;
}

std::string megatron_index_path(const std::string& bin_path) {
    return with_ending(bin_path, ".bin", ".idx");
}

std::string megatron_bin_path(const std::string& path) {
    return path.ends_with(".bin") ? path : with_ending(path, ".idx", ".bin");
}

MegatronIndex read_megatron_index(const std::string& path, std::span<const std::byte> bytes,
                                  std::int64_t bin_bytes) {
    if (!is_megatron_index(bytes))
        throw DataError(path, "byte 0: an index of Megatron-LM begins with MMIDIDX and two zeros");
    if (std::ssize(bytes) < kIndexHeaderBytes)
        throw DataError(path, fmt::format("ends at byte {}, within the header of {} bytes",
                                          bytes.size(), kIndexHeaderBytes));
    if (const auto version = index_number<std::uint64_t>(bytes, kVersionAt); version != 1)
        throw DataError(path,
                        fmt::format("byte {}: version {}; version 1 is read", kVersionAt, version));
    const TokenType type = token_type(path, bytes);
    MegatronIndex index;
    index.bytes_per_token = type.bytes;
    index.is_signed = type.is_signed;
    index.sequences = index_number<std::int64_t>(bytes, kSequencesAt);
    const auto bounds = index_number<std::int64_t>(bytes, kDocumentsAt);
    index.documents = bounds;
    const Tables tables = tables_of(path, bytes, index);
    if (bounds < 1) throw DataError(path, fmt::format("byte {}: no document bounds", kDocumentsAt));
    index.documents = bounds - 1;
    index.tokens = tokens_of(path, bytes, index, tables, bin_bytes);
    check_documents(path, bytes, index, tables);
    return index;
}

}  // namespace orrery::runtime
