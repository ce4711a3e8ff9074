// Files of tensors as Hugging Face has them (github.com/huggingface/safetensors, "Format"): the
// size of the header in 8 bytes, little-endian; the header, a JSON object from names to dtype,
// shape and data_offsets, which may have a "__metadata__" of strings and be padded with spaces;
// then the data, without a gap. Names keep their order in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace orrery::runtime {

struct StoredTensor {
    std::string name;
    std::string dtype;  // "F32"
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  // of the file; when writing, of the data

    std::int64_t bytes() const { return end - begin; }
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Bytes of an element; 0: no such type.
std::int64_t bytes_of_stored(const std::string& dtype);

// Product of the shape; −1: more than 2^53, or a negative number in it.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);

// What stands before the data; 8 divides its size. Tensors follow one another.
std::string safetensors_head(std::span<const StoredTensor> tensors, const Metadata& metadata);

struct SafetensorsFile {
    std::vector<StoredTensor> tensors;  // by where they begin
    std::int64_t data_begin = 0;

    const StoredTensor* find(const std::string& name) const;
};

// `path` is for messages. Throws DataError where it is no such file: also where a byte belongs to
// no tensor, or to two.
SafetensorsFile read_safetensors(const std::string& path, std::span<const std::byte> bytes);

}  // namespace orrery::runtime
