// Building forward blocks: a thin writer over Block, and the tensor-parallel linears that emit
// their own collectives, as Megatron-LM's do (Shoeybi 2019; Korthikanti 2022 for the sequence-
// parallel form). What backward needs to know beyond the ops is kept beside them as notes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/blocks/dims.hpp"
#include "plan/blocks/eight_bit.hpp"
#include "plan/ir/block.hpp"

namespace orrery::plan {

// Of a layer, what recomputation may choose by itself.
enum class LayerModule : std::uint8_t {
    none,
    attention_core,
    norm,
    latent_up,
    mlp,
    mlp_activation
};

// The activation is part of the MLP.
inline bool same_module(LayerModule one, LayerModule other) {
    const auto whole = [](LayerModule module) {
        return module == LayerModule::mlp_activation ? LayerModule::mlp : module;
    };
    return whole(one) == whole(other);
}

// Where the pipeline ranks share out the vocabulary: the member of the pipeline group that hands on
// what the embedding's pieces make together, or is handed what the head's begin with; and whether
// the block is its own. Elsewhere nothing is told by it.
struct PipelineRoot {
    std::int64_t rank = 0;
    bool is_self = true;
};

// A forward block on its way to becoming a plan's pair of blocks.
struct ForwardBlock {
    Block block;
    // Per op: an input (of a gemm the first, of latent heads the last) is replicated over the
    // tensor group and what it meets is not, so the input's gradient is a partial sum that must be
    // all-reduced. Of several such readers of one input, the
    // first: backward comes to it last, with the sum of them all.
    std::vector<bool> partial_input_gradient;
    // Per tensor: backward makes it again from what is kept instead of keeping it (a re-gathered
    // sequence-parallel input; what selective recomputation drops).
    std::vector<bool> rematerialise;
    // Per op: gathers what every rank of the group computes with alike, so that the gradient is cut
    // and not summed.
    std::vector<bool> cut_gradient;
    // Per op: the module that it belongs to.
    std::vector<LayerModule> module;
    // Per op: whether backward, where it makes a result of the op again, runs all of the op's
    // module again, as a checkpointed module does.
    std::vector<bool> runs_whole;
    // By op: products of eight bits; and how they are made.
    std::map<std::size_t, EightBitProduct> eight_bit;
    Fp8 fp8;
    std::int64_t tensor = 1;      // ranks that gather a sequence-parallel input
    bool keeps_gathered = false;  // which, once gathered, stays until its backward
    bool any_order = false;       // backward may sum in any order, where that is faster
    // What backward gathers for products of eight bits others read, too, in 16.
    bool wide_gradients = false;
    // Of a layer of experts: the choices that its router is balanced by, −1: it is not.
    struct Balance {
        TensorId choices = -1;
        double coefficient = 0;
        std::int64_t unit = 0;  // its tokens, over all ranks
    };
    Balance balance;
    double router_z = 0;                // what the router's z-loss counts for
    std::int64_t gradient_sources = 1;  // ranks whose rows' shares of experts' gradients are apart
    // Backward starts from the loss times a device scalar (fp16).
    bool scaled_loss = false;
    // The gradient of what the loss reads has a place of its own.
    bool separate_loss_gradient = false;
    // By op, a sum of cross entropy: what a row of it counts for, where that is not 1.
    std::map<std::size_t, double> loss_weight;
    PipelineRoot root;
    // Backward begins with the loss: it joins what each part of the vocabulary has of a row, which
    // forward gathers.
    struct LossInBackward {
        TensorId sums = -1, largest = -1;  // of all parts
        CrossEntropyJoin join;
        CrossEntropy loss;
        // Algorithm 2: forward goes on to the gradient with the sums of its own part, by ops of the
        // backward phase, and backward corrects what came of them.
        struct Begun {
            std::size_t product = 0;           // the op that makes logits
            TensorId sums = -1, largest = -1;  // of its own part
            TensorId input_gradient = -1, target_words = -1;
        };
        std::optional<Begun> begun;
    };
    std::optional<LossInBackward> loss_in_backward;
};

class ForwardWriter : public BlockWriter {
  public:
    ForwardWriter(std::string name, const Dims& dims);

    TensorId tensor(std::string name, Role role, DType dtype, std::vector<std::int64_t> dims);
    TensorId activation(std::string name, std::int64_t rows, std::int64_t width);
    // Declares a parameter; the tensor is this rank's share of it.
    TensorId parameter(std::string name, ParameterSpec spec);
    // Of a linear's matrix, whose type may be of eight bits.
    TensorId matrix(const std::string& linear, ParameterSpec spec);
    // One that every tensor rank holds whole, of what is no matrix.
    TensorId vector(std::string name, std::int64_t width, Start start);
    // The step's key of counter-based random numbers: a device scalar.
    TensorId dropout_key();
    DType dtype(TensorId id) const {
        return out_.block.tensors[static_cast<std::size_t>(id)].dtype;
    }
    const std::string& name(TensorId id) const {
        return out_.block.tensors[static_cast<std::size_t>(id)].name;
    }
    std::int64_t width(TensorId id) const {
        return out_.block.tensors[static_cast<std::size_t>(id)].dims.back();
    }
    void input(TensorId id) { out_.block.input = id; }
    void output(TensorId id) { out_.block.output = id; }

    Op& op(OpSpec spec, std::string label, std::vector<TensorId> reads,
           std::vector<TensorId> writes);
    TensorId add(Tensor tensor) override;
    Op& emit(OpSpec spec, std::string label, std::vector<TensorId> reads,
             std::vector<TensorId> writes) override;
    // Number of the op written last.
    std::int32_t last_op() const { return static_cast<std::int32_t>(out_.block.ops.size()) - 1; }
    // Backward makes the tensor again instead of keeping it.
    void make_again(TensorId id) { out_.rematerialise[static_cast<std::size_t>(id)] = true; }
    void scale_loss() { out_.scaled_loss = true; }
    void balance_by(TensorId choices, double coefficient, std::int64_t unit) {
        out_.balance = {choices, coefficient, unit};
        out_.scaled_loss = dims_.scales_loss();
    }
    void router_z_loss(double coefficient) {
        out_.router_z = coefficient;
        out_.scaled_loss = dims_.scales_loss();
    }
    void separate_loss_gradient() { out_.separate_loss_gradient = true; }
    void root(const PipelineRoot& root) { out_.root = root; }
    void loss_in_backward(ForwardBlock::LossInBackward loss) { out_.loss_in_backward = loss; }
    // Of the loss whose sum was written last.
    void weigh_loss(double weight) {
        out_.loss_weight[static_cast<std::size_t>(last_op())] = weight;
    }
    // Of the op written last.
    void cut_gradient() { out_.cut_gradient.back() = true; }
    // What is written until the module ends belongs to it; returns the one around it.
    LayerModule begin_module(LayerModule module) { return std::exchange(module_, module); }
    void end_module(LayerModule around) { module_ = around; }

    // x·Wᵀ with W sharded by output columns: of each section, which is so many of all columns,
    // every tensor rank has its share. Gathers x, [tokens, input_width], first under sequence
    // parallelism, once for all that read it.
    // name: parameter prefix ("qkv"); returns the output [tokens, the rank's columns].
    TensorId column_parallel(const std::string& name, TensorId x, std::int64_t input_width,
                             const std::vector<std::int64_t>& sections, bool bias);
    // As column_parallel, with a weight that exists already (tied embeddings).
    TensorId column_parallel_with(const std::string& name, TensorId x, TensorId weight,
                                  TensorId bias);
    // x·Wᵀ, [sharded tokens, columns], with all of W on every tensor rank.
    TensorId whole_product(const std::string& name, TensorId x, std::int64_t columns);
    // x·Wᵀ for each expert, over the rows of x that came to it; W is that of all local experts, one
    // after another. Returns `result`, of as many rows as there is room for.
    TensorId grouped_product(const std::string& label, const std::string& result, TensorId x,
                             TensorId weight, const CountedRows& rows);
    // All rows of x, which under sequence parallelism every tensor rank has a share of.
    TensorId all_rows(const std::string& name, TensorId x) {
        return dims_.sequence_parallel ? gather(name, x) : x;
    }
    // Of the op written last: the gradient of its last input is a part of a sum over tensor ranks.
    void part_of_gradient() {
        out_.partial_input_gradient.back() = dims_.tensor > 1 && !dims_.sequence_parallel;
    }
    // x·Wᵀ with W sharded by input rows, `input_width` of them in all; the output is reduced over
    // the tensor group (all-reduce, or reduce-scatter under sequence parallelism). The bias is left
    // to who adds the residual.
    TensorId row_parallel(const std::string& name, TensorId x, std::int64_t input_width);
    // The same without its reduction: a partial sum.
    TensorId row_parallel_partial(const std::string& name, TensorId x, std::int64_t input_width);
    // The product written last has its columns in two matrices of equal width, under these names:
    // the one it had, and the one returned.
    TensorId halve_product(std::string first, std::string second);
    // Sums a partial [tokens, hidden] over the tensor group.
    TensorId reduce_over_tensor(const std::string& name, TensorId partial);

    const Dims& dims() const { return dims_; }
    ForwardBlock finish() { return std::move(out_); }

  private:
    // Declares a parameter beside the model's own, which are frozen then.
    TensorId adapter(const std::string& linear, const char* matrix, ParameterSpec spec);
    // The linear's result y, with what its adapters make of its input: y + factor·(x·Aᵀ)·Bᵀ. One of
    // the two is whole on every tensor rank, so that the sums over ranks that the linear needs
    // anyway, of its input's gradient or of its result, are all that its adapters need: what comes
    // before them is a part of a sum, and so is the gradient of the whole one.
    TensorId adapted(const std::string& name, TensorId x, TensorId y, std::int64_t input_width,
                     const std::vector<std::int64_t>& sections);
    TensorId declare(std::string name, ParameterSpec spec);

    // An input of eight-bit products, which forward reads by rows.
    struct EightBitInput {
        TensorId source = -1;
        bool gathered = false;
        EightBit rows;
        EightBitProduct product;
    };

    TensorId gather(const std::string& name, TensorId x);
    EightBitInput eight_bit_input(const std::string& name, TensorId x, bool gathered,
                                  const CountedRows& counted = {});
    EightBitInput gathered_copies(const std::string& name, TensorId x);
    TensorId eight_bit_product(const std::string& name, const EightBitInput& input, TensorId weight,
                               TensorId bias, bool column);
    EightBit eight_bit_weight(const std::string& name, TensorId weight, std::int64_t matrices);
    void note_eight_bits(const EightBitInput& input, TensorId weight);
    // Whether a product with a share of a weight reads it already.
    bool makes_part_of_gradient(TensorId input) const;

    Dims dims_;
    ForwardBlock out_;
    std::vector<std::pair<TensorId, TensorId>> gathered_;  // a sequence shard and the whole of it
    std::vector<EightBitInput> eight_bit_inputs_;
    TensorId dropout_key_ = -1;
    LayerModule module_ = LayerModule::none;
};

// The kinds of forward block. The embedding table and the head's weight stand in blocks of their
// own, so that tied ones fill a gradient bucket each, alike on both ends of a pipeline.
ForwardBlock embedding_forward(const Scenario& scenario, const Dims& dims,
                               const PipelineRoot& root);
ForwardBlock embedding_norm_forward(const Scenario& scenario, const Dims& dims);
ForwardBlock positions_forward(const Scenario& scenario, const Dims& dims);  // learned positions
ForwardBlock layer_forward(const Scenario& scenario, const Dims& dims, const LayerSpec& layer);
ForwardBlock final_norm_forward(const Scenario& scenario, const Dims& dims);
ForwardBlock head_forward(const Scenario& scenario, const Dims& dims, const PipelineRoot& root);
// Multi-token prediction, between the last norm and the head: what it embeds, beside what comes
// from the layers; then its own layer. Both hand on rows of twice the width: the model's own hidden
// state, and the other.
ForwardBlock mtp_embedding_forward(const Scenario& scenario, const Dims& dims);
ForwardBlock mtp_layer_forward(const Scenario& scenario, const Dims& dims, const LayerSpec& layer);

}  // namespace orrery::plan
