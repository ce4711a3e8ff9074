// Algorithms that products were timed to be fastest with, in a file (docs/formats.md): another
// algorithm is another rounding, so that whoever is to have the same bits must have the same ones,
// the other ranks now, the same run tomorrow. So what stands in the file stays, and who comes first
// with a product has the say. Devices of other kinds and other versions of cuBLASLt have entries of
// their own in it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

// What a product's kernel does before it writes (plan/ops/epilogues.hpp), biases apart.
enum class Epilogue : std::uint8_t {
    none,
    gelu,          // of what is not kept
    gelu_kept,     // of what is written beside
    gelu_slope,    // of what is read
    bias_gradient  // sums of a's columns, written beside
};

// What of operands of eight bits shares a scale: all of it; a row; 128 numbers of a row; of b
// 128 × 128.
enum class Scaling : std::uint8_t { none, tensors, rows, runs, runs_and_squares };

// All that a choice of algorithm depends on. Alignments are of pointers, in bytes.
struct Product {
    GemmForm form;
    std::int64_t m, n, k;
    plan::DType a, b, c;
    Scaling scaling;
    bool with_bias, accumulate;
    std::int64_t alignment_a, alignment_b, alignment_c;
    std::int64_t workspace_bytes;
    Epilogue epilogue = Epilogue::none;
    std::int64_t alignment_beside = 0;  // of what an epilogue reads or writes beside c
    auto operator<=>(const Product&) const = default;
};

struct ProductChoice {
    std::array<std::byte, 64> algorithm{};  // opaque: a cublasLtMatmulAlgo_t
    double us = 0;                          // as it was timed
    double first_us = 0;                    // of the algorithm that cuBLASLt's heuristics put first
};

// What choices are for.
struct DeviceKind {
    std::string name;                // "NVIDIA H100 80GB HBM3"
    std::string compute_capability;  // "9.0"
    std::int64_t cublaslt = 0;       // version: 130100
    bool operator==(const DeviceKind&) const = default;
};

class ProductChoices {
  public:
    // The file is made where there is none. Throws DataError where it is not one of these, and
    // StorageError.
    ProductChoices(std::string path, DeviceKind kind);

    const std::string& path() const { return path_; }
    // 16 hexadecimal digits that no other file has, but for its copies.
    const std::string& id() const { return id_; }

    // Null: the file has none for the product on this kind of device.
    const ProductChoice* find(const Product& product) const;

    // Adds the choice, unless another rank has added one since; whichever stands there. Throws as
    // above.
    const ProductChoice& settle(const Product& product, const ProductChoice& timed);

  private:
    struct Content;

    Content read() const;
    void write(const Content& content) const;
    std::string lock() const { return path_ + ".lock"; }

    std::string path_;
    DeviceKind kind_;
    std::string id_;
    std::map<Product, ProductChoice> choices_;  // for this kind, when the file was last read
};

}  // namespace orrery::runtime::cuda
