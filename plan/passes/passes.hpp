// Passes: what changes order and lifetime of a program, one file each. When each of them runs is in
// plan/passes/pass_table.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/blocks/backward.hpp"
#include "plan/blocks/forward_block.hpp"
#include "plan/passes/program_builder.hpp"

namespace orrery::plan {

struct LoweredStep;  // plan/schedule/schedule.hpp
struct ActionUses;   // plan/passes/pass_table.hpp

// Where a part stands in its stage, as far as passes tell parts apart.
enum class PartPlace : std::uint8_t {
    end,          // embedding, positions, norms
    head,         // with the loss
    layer,        // alone in its group
    chosen,       // one of those that are made again whole, beside others that are not
    group_first,  // of several that are made again together
    group_middle,
    group_last
};
bool is_layer(PartPlace place);
bool is_grouped(PartPlace place);  // with others

// A collective of a pass: `elements` as in message_bytes, in the element type of what it reads.
Op collective_op(const Block& block, OpKind kind, Phase phase, Stream stream, GroupKind group,
                 std::int64_t elements, const char* label, TensorId reads, TensorId writes);

// recompute.cpp — selective: backward makes what chosen modules make again instead of keeping it.
// Of the core of attention that is scores, probabilities and masks (Korthikanti 2022 §5): nothing
// where one kernel does it all. Of the MLP it is all but its input. Norms and the activation run
// again one by one, where their results are first asked for (Megatron-LM's output-discarding
// checkpoint, megatron/core/tensor_parallel/random.py, CheckpointWithoutOutput).
void recompute_modules(ForwardBlock& block, const RecomputedModules& modules);

// selective_op: as torchtitan's selective activation checkpointing by operation. Of a layer's
// products every second result is kept, in the order qkv, projection, gate, up, fc2 (those of
// queries, keys and values are one here), and what attention and reduce-scatters give; backward
// makes all else again from these and the layer's input, where it first asks for it.
void recompute_operations(ForwardBlock& block);

// loss_chunks.cpp — the head where the loss goes over the tokens in so many chunks: each chunk's
// logits, loss, their gradient and what the products make of it come one after another, all in the
// backward action, whose forward half therefore does nothing but receive the head's input. The
// gradients are those of the whole; no product is made twice.
BlockPair head_in_chunks(ForwardBlock head, DType gradient_dtype, std::int64_t chunks);

// Of every k layers only the first one's input is kept (Chen 2016; Megatron-LM's --recompute-method
// uniform). Backward runs the forward pass of the group again, keeping what backward blocks read
// until they have read it. The last layer's runs within its backward block, as under `full`: what
// it makes is needed at once. Parts stay single layers, so that buckets and ZeRO's gathers do too.
struct GroupPart {
    BlockPair pair;
    std::optional<Block> recompute;  // run again before the backward blocks of the group
};
GroupPart group_part(const ForwardBlock& layer, DType gradient_dtype, PartPlace place);

// backward_halves.cpp — zero-bubble schedules run backward in two (Qi 2024 §2): what the stage
// before waits for, and what can wait itself: products that make weights' gradients, with the
// gathering again of their sequence-parallel inputs. Norms' and biases' gradients are made on the
// way. What the second part reads outlives the first one: of the forward pass it is `kept` (the
// rest of the stash dies with the first part), of the first part and of what that makes again
// `deferred`.
struct BackwardHalves {
    Block input;
    std::optional<Block> weight;  // none: nothing can wait
};
// Changes roles in the pair, and in the block that backward runs first (null: none), which a whole
// backward pass of the same layer shares. hands_on: gradients of the first part that the second
// puts with its own, so that a bucket of which each micro-batch is reduced is reduced once.
// `received`: a stage may receive what the part reads, which it then has for the first half alone:
// products that read it do not wait.
struct HandsOn {
    bool experts = false;  // those of experts
    bool others = false;
    bool operator==(const HandsOn&) const = default;
};
BackwardHalves halve_backward(BlockPair& pair, Block* recompute, HandsOn hands_on, bool received);

// tensor_overlap.cpp — for stacks that do not overlap: each tensor-parallel collective of a
// backward block starts after the compute op issued before it.
void serialise_tensor_communication(Block& block);
// And for those that overlap within a layer, too (Megatron-LM's --tp-comm-overlap, PyTorch's async
// tensor parallelism): under sequence parallelism, what is gathered for products alone and what is
// summed of one product goes in `parts` parts, so that all but the first or last part's
// communication runs beside products. What backward gathers for weight gradients alone stays whole
// and runs beside the data gradient. Before `after` edges and scratch are settled.
void split_tensor_communication(Block& block, std::int64_t parts);

// residual_products.cpp — a product and the residual addition that alone reads its result become
// one op (residual_gemm): the result is neither written nor read again. So it is where nothing
// stands between them, no sum over tensor-parallel ranks and no dropout. Before norms are fused:
// what is left of additions is theirs.
void fuse_residuals(Block& block);

// fused_norms.cpp — a residual addition and the norm that reads its sum next become one op
// (residual_norm), which reads the sum no more: of 3 + 2 passes over a layer's rows 4 are left. It
// is so within a layer, where the second branch begins; the sum that a layer ends with is handed
// on, and the next one's norm is another block's. Backward is derived before from the two, and its
// norm adds the residual's gradient already.
void fuse_norms(Block& block);

// epilogues.cpp — a product and the function that is taken of it become one op (activated_gemm),
// and so do the gradient of a product's input and the slope that it is multiplied with: what was
// written to be read by the next kernel alone is no more. Only functions that products take along
// (plan/ops/epilogues.hpp), in 16 or 32 bits.
void fuse_epilogues(Block& block);

// bias_gradients.cpp — the product that makes a weight's gradient sums the columns of what it
// reads, too: the bias's gradient is made with the weight's (bias_gradient_gemm), and the kernel
// that read the same rows for it is no more. Whole products in 16 or 32 bits whose factor is 1.
void fuse_bias_gradients(Block& block);

// merged_ops.cpp — leaves out the op at `gone`, which the one at `kept` does as well: what waits
// for the one waits for the other. Indices behind `gone` fall by one.
void merge_ops(Block& block, std::size_t kept, std::size_t gone);

// kept_tensors.cpp — leaves out tensors, of which no op speaks: `kept` is by tensor.
void keep_tensors(Block& block, const std::vector<bool>& kept);

// gradient_buckets.cpp — groups the parts of each stage, from the last, into buckets of about
// framework.gradient_bucket_mb of gradients (one part per bucket from ZeRO-2 on). A tied embedding
// has a bucket of its own on either end, so that shards of both copies hold the same elements.
// Frozen parameters are grouped likewise, by their own bytes, apart from the others (one part per
// bucket where ZeRO-3 gathers them).
void form_buckets(ProgramBuilder& builder);

// One use for each bucket with parameters of its own that are trained, of the block that `block_of`
// makes for it.
std::vector<BlockUse> uses_by_bucket(ProgramBuilder& builder,
                                     Block (*block_of)(const ProgramBuilder&, const Bucket&));

// The uses that reduce a bucket's gradients: over the tensor group what sequence parallelism left
// partial, the parameters that lie first in a bucket (plan/ir/parameters.hpp); then over the
// ranks that share states out (all-reduce; reduce-scatter from ZeRO-1 on; from ZeRO-2 on into the
// shard, which accumulates over micro-batches). Empty where no group has two ranks.
std::vector<BlockUse> reduce_uses(ProgramBuilder& builder, std::int32_t bucket);

// Hybrid ZeRO: the use that sums a complete shard of gradients over its replicas, once per step.
std::vector<BlockUse> replica_uses(ProgramBuilder& builder, std::int32_t bucket);

// Both of them in a step of their own behind the last backward pass, where the stack does not
// overlap.
void add_late_reduction(ProgramBuilder& builder);

// scatter_gather.cpp — where every tensor rank holds the same boundary activation, each sends one
// share and the receivers gather (Narayanan 2021 §4.1): whether a plan does so, and the uses that
// gather what a stage has received.
bool scatters_transfers(const Scenario& scenario, const Dims& dims);
void insert_gather_received(ProgramBuilder& builder, ActionUses& action);

// fixed_residents.cpp — the workspace, scalars, frames, scratch: memory that every program has.
std::int64_t boundary_bytes(const Dims& dims);  // of a whole boundary activation
void add_fixed_residents(ProgramBuilder& builder);

// sharding.cpp — what of a bucket's states each rank has: Bucket::shares and states.
void share_out(ProgramBuilder& builder, Bucket& bucket);

// zero.cpp — ZeRO-3: gathers each part's parameters framework.zero_prefetch parts ahead of its use,
// into a ring of that many slots and one (no more than a stage has parts), or into memory of its
// own where the layout keeps them until backward; ZeRO-2 and 3: gradients pass through a ring of
// two slots on their way to the shards.
void add_rings(ProgramBuilder& builder);
enum class Gathering : std::uint8_t {
    now,
    before,  // an earlier action has gathered what this one uses
    never    // it uses no parameters
};
void insert_rings(ProgramBuilder& builder, ActionUses& action);

// tied_embedding.cpp — the two gradients of a tied embedding become one: added where one rank holds
// both, all-reduced over the embedding group where first and last pipeline rank hold one each.
std::vector<BlockUse> tied_add_uses(ProgramBuilder& builder);
void add_tied_reduction(ProgramBuilder& builder);

// loss_scale.cpp — fp16: takes the loss scale off the gradients, looks for overflow on all ranks,
// and settles the next step's scale. Overflow and scale are device scalars; adamw reads the former
// and then changes nothing.
void add_unscaling(ProgramBuilder& builder);
Tensor overflow_scalar();
// The uses that settle a dynamic scale once it is known whether anything overflowed, for who does
// that later; none where the scale is fixed.
std::vector<BlockUse> loss_scale_update_uses(ProgramBuilder& builder);
// Over which statistics of gradients are summed, one after another: together the ranks that hold
// other parameters or other shards.
std::vector<GroupKind> statistics_groups(const ProgramBuilder& builder);
// Where they are summed: what a group's members send each other is of one stream, so that they
// agree on its order while another step's passes are under way.
Stream statistics_stream(GroupKind group);

// deferred_head.cpp — the gradient of the head's weight waits until the last stage has done all its
// other backward work, when the rest of the pipeline still drains (Megatron-LM's
// --defer-embedding-wgrad-compute): of the last stage's backward actions the head's half for the
// weights comes last, by micro-batch; its input and the gradient of the logits are kept till then.
// Schedules that split backward passes place that half themselves, and a frozen weight has none.
bool defers_head_weights(const Scenario& scenario, const PartForms& forms);
void defer_head_weights(std::vector<LoweredStep>& row, std::int32_t head_stage);

// clipping.cpp — the global gradient norm, each rank's part and the sum over ranks. The sum of
// squares is kept exactly, as doubles that each count in units of their own, so that it does not
// depend on the order of its terms, nor on who holds them.
inline constexpr std::int64_t kNormBins = 5;
Tensor norm_scalar();
void add_clipping(ProgramBuilder& builder);

// loss_spike.cpp — the batch's loss on every rank, and whether it has spiked: a device scalar,
// which adamw reads and then changes nothing.
void add_loss_spike(ProgramBuilder& builder, std::vector<BlockUse>& optimizer);
Tensor loss_spike_scalar();

// parameter_gather.cpp — ZeRO-1 and 2 hold parameters whole and step a share of them: whether the
// others' shares are gathered, by which use, and whether not until the next step's first forward
// pass, where each bucket's gather precedes its first part and runs beside those before it
// (Megatron-LM's --overlap-param-gather). Between steps a rank then holds its own share alone.
bool gathers_whole(const ProgramBuilder& builder, const Bucket& bucket);
BlockUse gather_use(ProgramBuilder& builder, std::int32_t bucket);
void insert_first_gathers(ProgramBuilder& builder, ActionUses& action);

// quantize.cpp — of the layers' eight-bit products: the block that begins a layer's step with the
// scales that the steps before have led to and, where they are made once per step, the copies of
// its weights; none where nothing is to be done. It comes before the layer's first forward pass.
// And the uses that a step ends with: under delayed scaling, the largest magnitudes are agreed on
// by the ranks that share tensors, tensor and data (Megatron-LM's amax reduction group).
std::optional<Block> quantize_block(const ForwardBlock& layer);
void insert_quantizing(ProgramBuilder& builder, ActionUses& action);
void add_amaxes(ProgramBuilder& builder, std::vector<BlockUse>& optimizer);

// post_validation.cpp — steps that end before the statistics of gradients of all stages are known,
// and are validated in the next one's warm-up.
std::vector<Tensor> statistics_of(const Scenario& scenario);  // that are handed on; mostly none
Block statistic_exchange(const Tensor& statistic,
                         Stream stream);                      // with the one op of its transfers
inline constexpr char kSumOverStages[] = "sum over stages ";  // + number: the resident that has it
void add_statistics(ProgramBuilder& builder);  // memory for them, before all that asks for them
void add_validation(
    ProgramBuilder& builder);            // steps that validate, in place of the row's VALIDATE
void add_sums(ProgramBuilder& builder);  // steps that hand on sums, at the end
// Memory for a copy of what AdamW changes of a bucket, and the uses that copy there and back.
class KeptCopies {
  public:
    KeptCopies(ProgramBuilder& builder, std::int32_t bucket, const Tensor& states,
               const Tensor& parameters);
    void keep(std::vector<BlockUse>& uses) const;
    void put_back(std::vector<BlockUse>& uses) const;

  private:
    ProgramBuilder& builder_;
    std::int32_t bucket_;
    Tensor states_, parameters_;
    std::int32_t kept_states_ = -1, kept_parameters_ = -1;
};

// optimizer.cpp — AdamW on this rank's share of each bucket, and the gathers of what it changed.
void add_optimizer(ProgramBuilder& builder);

}  // namespace orrery::plan
