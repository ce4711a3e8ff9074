// Products by cuBLASLt. What was chosen for a shape is kept: the search costs more than many
// products. Without a file of choices it is what cuBLASLt's heuristics put first, with one the
// algorithm that was fastest when it was timed (product_choices.hpp); but where only a step knows
// how many rows there are, it is always the heuristics'. Sums are in fp32 (fp32 operands without
// TF32). cuBLASLt's own choice is whether a product is rounded to a 16-bit result's type before a
// bias, or what was there, is added (seen with 13.1 on an H100). One thread at a time.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/lt_scales.hpp"
#include "runtime/cuda/product_choices.hpp"
#include "runtime/cuda/scratch_memory.hpp"

namespace orrery::runtime::cuda {

// Memory of the device that products on one stream may use.
struct Workspace {
    void* memory = nullptr;
    std::int64_t bytes = 0;
};

class LtGemm {
  public:
    // `file`: null: there is none; else it must outlive the object.
    LtGemm(Workspace workspace, ProductChoices* file);
    ~LtGemm();
    LtGemm(const LtGemm&) = delete;
    LtGemm& operator=(const LtGemm&) = delete;

    // Kernels::prepare: takes the product's algorithm from the file, or times some where the file
    // has none for it. What the operands hold is put back.
    void prepare(const Gemm& op, ScratchMemory& scratch, cudaStream_t stream);
    void prepare(const ActivatedGemm& op, cudaStream_t stream);
    void prepare(const BiasGradientGemm& op, ScratchMemory& scratch, cudaStream_t stream);

    void perform(const Gemm& op, ScratchMemory& scratch, cudaStream_t stream);
    // In the product's epilogue. Sums are not rounded before the function is taken of them.
    void perform(const ActivatedGemm& op, cudaStream_t stream);
    // The bias's gradient in the epilogue, of the rows as the product reads them; where it is added
    // to what is there, its sum is rounded to its type before.
    void perform(const BiasGradientGemm& op, ScratchMemory& scratch, cudaStream_t stream);
    // Of rows whose number is another each time: m, or k of a weight gradient. The algorithm is
    // that for the next multiple of 128, so that few are searched for.
    void perform_rows(const Gemm& op, ScratchMemory& scratch, cudaStream_t stream);

  private:
    struct Choice;
    struct Asked;

    Product product_of(const Asked& asked) const;
    // What cuBLASLt is asked for; null: it does not multiply this.
    std::optional<Scaling> scaling_of(const Gemm& op) const;
    // Null: there is no algorithm, for numbers of eight bits.
    Choice* choice_for(const Asked& asked);
    Choice* keep(const Product& product, std::unique_ptr<Choice> made,
                 const std::optional<cublasLtMatmulAlgo_t>& algorithm);
    void prepare(const Asked& asked, cudaStream_t stream);
    std::vector<cublasLtMatmulAlgo_t> search(const Asked& asked, const Product& product,
                                             const Choice& choice, int most) const;
    std::optional<cublasLtMatmulAlgo_t> find_or_time(const Asked& asked, const Product& product,
                                                     const Choice& choice, cudaStream_t stream);
    std::optional<ProductChoice> time(const Asked& asked, const Product& product,
                                      const Choice& choice, cudaStream_t stream) const;
    void require_sound(const Asked& asked, const Choice& choice,
                       const cublasLtMatmulAlgo_t& algorithm) const;
    [[noreturn]] void throw_without(const Asked& asked) const;  // an algorithm
    cublasStatus_t launch(const Gemm& op, const Choice& choice,
                          const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const;

    Workspace workspace_;
    ProductChoices* file_;
    cublasLtHandle_t handle_ = nullptr;
    LtVersion version_;
    std::map<Product, std::unique_ptr<Choice>> choices_;
};

}  // namespace orrery::runtime::cuda
