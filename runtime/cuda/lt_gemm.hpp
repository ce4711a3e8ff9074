// Products by cuBLASLt. What it chose for a shape is kept: the search costs more than many
// products. Sums are in fp32 (fp32 operands without TF32). cuBLASLt's own choice is whether a
// product is rounded to a 16-bit result's type before a bias, or what was there, is added (seen
// with 13.1 on an H100). One thread at a time.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

// Memory of the device that products on one stream may use.
struct Workspace {
    void* memory = nullptr;
    std::int64_t bytes = 0;
};

class LtGemm {
  public:
    explicit LtGemm(Workspace workspace);
    ~LtGemm();
    LtGemm(const LtGemm&) = delete;
    LtGemm& operator=(const LtGemm&) = delete;

    void perform(const Gemm& op, cudaStream_t stream);
    // Of rows whose number is another each time: m, or k of a weight gradient. The algorithm is
    // that for the next multiple of 128, so that few are searched for.
    void perform_rows(const Gemm& op, cudaStream_t stream);

  private:
    // All that a choice depends on. Alignments are of pointers, in bytes.
    struct Key {
        GemmForm form;
        std::int64_t m, n, k;
        plan::DType a, b, result;
        bool by_rows;  // scales of eight bits
        bool with_bias, accumulate;
        std::int64_t alignment_a, alignment_b, alignment_c;
        auto operator<=>(const Key&) const = default;
    };
    struct Choice;

    Choice& choice_for(const Gemm& op, bool with_bias);

    Workspace workspace_;
    cublasLtHandle_t handle_ = nullptr;
    std::map<Key, std::unique_ptr<Choice>> choices_;
};

}  // namespace orrery::runtime::cuda
