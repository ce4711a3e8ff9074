// Eight-bit copies of a matrix with their scales, and the products of them: what a recipe
// (plan/scenario/scenario.hpp) makes of a linear's three products. Forward reads input and weight
// by rows; the input's gradient reads the gradient by rows and the weight by columns, the weight's
// gradient both gradient and input by columns. Where a device multiplies rows by rows alone
// (Hopper, Ada), what is read by columns is transposed. Input and weight are E4M3, the gradient
// E5M2 where a tensor has one scale, else E4M3. (NVIDIA, Transformer Engine's documentation,
// features/ low_precision_training; torchao/float8/float8_linear.py.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/block.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// A block that grows.
class BlockWriter {
  public:
    virtual ~BlockWriter() = default;

    virtual TensorId add(Tensor tensor) = 0;
    // Appends an op; communication over the tensor group, until the caller says otherwise.
    virtual Op& emit(OpSpec spec, std::string label, std::vector<TensorId> reads,
                     std::vector<TensorId> writes) = 0;
};

struct EightBit {
    TensorId data = -1;
    TensorId scales = -1;

    bool exists() const { return data >= 0; }
};

// `columns` may be the transpose, or the same tensor as `rows`.
struct Copies {
    EightBit rows;
    EightBit columns;
};

// Largest magnitudes of a step each, on which delayed scaling looks back, behind the largest of
// them: amax_history_len of Transformer Engine's DelayedScaling, less one.
inline constexpr std::int64_t kAmaxHistory = 1024;

// What the scale of a tensor follows from, and what its largest magnitude in this step is noted in.
struct DelayedScale {
    Tensor history, amax;
};
DelayedScale delayed_scale(const std::string& of, std::int64_t matrices);

// Rows of a rank's experts, of which each expert's are a matrix.
struct CountedRows {
    ExpertRows of;
    TensorId counts = -1;  // −1: there are no experts

    bool on() const { return counts >= 0; }
    // Matrices of these, or of their weights, which lie one after another.
    std::int64_t matrices() const { return on() ? of.local() : 1; }
};

struct Casting {
    std::string name;     // of the matrix: its copies are name.q, name.qc, name.qt
    std::string history;  // what its scale's is of, where that is delayed: "qkv.x"
    std::int64_t rows = 0;
    std::int64_t width = 0;
    DType dtype = DType::fp8_e4m3;
    bool weight = false;  // blocks of 128 × 128 in place of 1 × 128
    std::int64_t copies = 0;
    Role role = Role::scratch;  // of the copies
    bool shared = false;        // a share of a matrix of the tensor group, which has one scale
    TensorId held = -1;         // of what is held in eight bits: it is its own copy by rows
    std::int64_t weights = 1;   // matrices one after another, each with scales of its own
    CountedRows counted{};

    std::int64_t matrices() const { return counted.on() ? counted.matrices() : weights; }
};

DType gradient_type(const Fp8& fp8);

// Which copies of a whole matrix serve both ways of reading it; of one whose copies are gathered,
// those of each share.
std::int64_t both_ways(const Fp8& fp8);
std::int64_t both_ways_of_shares(const Fp8& fp8);
std::int64_t columns_alone(const Fp8& fp8);

// Whether the op makes eight-bit copies, or serves that alone.
bool casts_to_eight_bits(const Op& op);

// The tensors of the copies, without the op that makes them.
Copies declare_copies(BlockWriter& w, const Fp8& fp8, const Casting& casting);

// The ops that make them of `source`.
Copies quantize(BlockWriter& w, const Fp8& fp8, const Casting& casting, TensorId source);

// Gathers a copy of shares of `ranks` tensor ranks into one of the whole, its scales with it.
// What describes a tensor comes by value: a block's tensors move when one is added.
EightBit gather_copy(BlockWriter& w, const Fp8& fp8, const std::string& label,
                     const std::string& name, Tensor data, Tensor scales, EightBit share,
                     std::int64_t ranks);

EightBit transpose_copy(BlockWriter& w, const Fp8& fp8, const std::string& name, Tensor data,
                        Tensor scales, EightBit copy);

// What backward must know of an eight-bit product of the forward pass, by tensors of that.
struct EightBitProduct {
    TensorId input = -1;      // whole, in 16 bits; −1 where only copies are gathered
    EightBit columns;         // what is read by columns is made of this; else of the input
    bool gathers = false;     // … once it is gathered …
    bool transposes = false;  // … and transposed
    TensorId weight = -1;
    CountedRows counted;
};

}  // namespace orrery::plan
