// The .idx beside the .bin of Megatron-LM's token files (megatron/core/datasets/indexed_dataset.py,
// _IndexReader): "MMIDIDX\0\0", version 1 (64 bits), the tokens' type (a byte), the numbers of
// sequences and of documents (64 bits each); the length of each sequence (32 bits), the byte at
// which it begins (64 bits), the first sequence of each document and an end (64 bits).
//
// What is trained on are windows over all tokens as they follow one another in the .bin, documents
// after documents, each with the end-of-document token that it was written with: what Megatron-LM's
// GPTDataset makes of one file, but for the order in which documents and windows are shuffled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace orrery::runtime {

struct MegatronIndex {
    std::int64_t bytes_per_token = 2;
    bool is_signed = false;
    std::int64_t sequences = 0;
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
};

bool is_megatron_index(std::span<const std::byte> bytes);

// "DATA.idx" of "DATA.bin", and the other way round.
std::string megatron_index_path(const std::string& bin_path);
std::string megatron_bin_path(const std::string& path);

// `path` is the index's own, for messages. Throws DataError where it is none, its numbers
// contradict one another or the .bin's size, or its tokens are no whole numbers.
MegatronIndex read_megatron_index(const std::string& path, std::span<const std::byte> bytes,
                                  std::int64_t bin_bytes);

}  // namespace orrery::runtime
