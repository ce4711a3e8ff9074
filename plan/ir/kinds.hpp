// The vocabulary of a plan: element types, streams, process groups, kinds of ops. Each has one
// spelling, used in text, JSON and traces alike; a spelling on disk never changes its meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery::plan {

enum class DType : std::uint8_t { u8, i32, bf16, fp16, fp32, fp64, fp8_e4m3, fp8_e5m2 };
inline constexpr std::size_t kDTypes = 8;

// In-order queues of one rank. Ops of different streams may overlap; edges between streams follow
// from tensors.
enum class Stream : std::uint8_t {
    compute,
    tensor_comm,
    context_comm,
    expert_comm,
    data_comm,
    pipeline_comm,         // transfers; with per-peer streams, those with the rank after
    pipeline_before_comm,  // those with the rank before, where they have a stream of their own
    copy,                  // host memory → device
    copy_out,              // device → host memory
    disk_read,             // disk → host memory
    disk_write,
    server  // steps parameters while the rank computes (layout.staleness)
};
inline constexpr std::size_t kStreams = 12;

// Which ranks a collective ties together (Mesh says who they are).
enum class GroupKind : std::uint8_t {
    none,
    tensor,
    context,
    expert,
    data,       // ranks that hold the same parameters: context × data
    pipeline,   // point to point between pipeline ranks
    embedding,  // first and last pipeline rank, which both hold tied embeddings
    model,      // tensor × pipeline: one full copy of the parameters
    world,      // every rank
    shard,      // of a data group, ranks in a row that share out states between them (hybrid ZeRO)
    replica     // of a data group, ranks that hold the same shard
};
inline constexpr std::size_t kGroupKinds = 11;

// What the accounts call an op: recompute is forward work done again.
enum class Phase : std::uint8_t { forward, backward, recompute, optimizer };
inline constexpr std::size_t kPhases = 4;

enum class OpKind : std::uint8_t {
    // matrix products
    gemm,
    batched_gemm,
    // attention without materialised scores
    attention,
    attention_backward,
    // the same of a rank's share of the queries on keys of one rank (`hop` places before it in the
    // context group) or of all: shares are such that causal work is the same on every rank
    attention_block,
    attention_block_backward,
    // memory-bound kernels: their bytes are those of the tensors they read and write
    softmax,
    softmax_backward,
    dropout,
    dropout_backward,
    norm,
    norm_backward,
    activation,
    activation_backward,
    rope,
    rope_backward,
    residual_add,
    add,
    bias_gradient,
    embedding,
    embedding_backward,
    cross_entropy_max,
    cross_entropy_sum,
    cross_entropy,
    cross_entropy_backward,
    gradient_norm,
    unscale,            // takes the loss scale off gradients and looks for infinities
    update_loss_scale,  // the next step's, by whether this one overflowed
    loss_share,         // what this rank adds to the batch's loss: nothing where another has it
    judge_loss,         // whether it has spiked; one that has not counts from then on
    adamw,
    cast,
    rearrange,  // copies parts of rows to where a collective or a kernel wants them
    // eight-bit products (plan/build/eight_bit.hpp)
    amax,           // the largest magnitude of a tensor, from which its scale follows
    quantize,       // eight-bit copies with their scales; `copies`: 1 by rows, 2 by columns, 4 by
                    // columns and transposed, or the sum of what is made at once
    transpose,      // of an eight-bit copy and its scales
    update_scales,  // from the largest magnitudes of the steps before
    // communication
    all_reduce,
    all_gather,
    reduce_scatter,
    exchange,
    all_to_all,
    shift,  // round a ring: every member sends to the next, and receives from the one before
    // between tiers of memory
    copy_to_device,
    copy_to_host,
    read_disk,
    write_disk
};
inline constexpr std::size_t kOpKinds = 47;

// Sizes of an op, and the names of those that a kind uses, in order; empty names end the list.
inline constexpr std::size_t kShapeFields = 7;
using Shape = std::array<std::int64_t, kShapeFields>;
using ShapeFields = std::array<std::string_view, kShapeFields>;

std::int64_t size_bytes(DType dtype);
std::string_view name(DType dtype);
std::string_view name(Stream stream);
std::string_view name(GroupKind group);
std::string_view name(Phase phase);
std::string_view name(OpKind kind);
const ShapeFields& shape_fields(OpKind kind);
bool is_eight_bit(DType dtype);  // floating point
bool is_communication(OpKind kind);
bool is_copy(OpKind kind);  // between tiers of memory

template <typename Enum>
std::optional<Enum> from_name(std::string_view text);

}  // namespace orrery::plan
