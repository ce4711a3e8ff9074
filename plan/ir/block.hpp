// Blocks, the kernel level of a plan: a block is the op list of one layer's forward, of its
// backward, of a bucket's reduction, … for one rank. Layers that are alike share a block; it is
// built, priced and memory-planned once, however often it is instanced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "plan/ir/parameter.hpp"
#include "plan/ops/spec.hpp"

namespace orrery::plan {

// Where a tensor of a block lives, and therefore for how long.
enum class Role : std::uint8_t {
    parameter,        // persistent; bound by (layer, name)
    gradient,         // persistent accumulator of the parameter of the same name
    source_gradient,  // … and those of what each rank's rows add to it, one after another
    optimizer,        // persistent: master weights and moments
    parameter_shard,  // this rank's ZeRO shard of a bucket's parameters …
    gradient_shard,   // … and of its gradients; the whole where there is no sharding
    input,            // handed over by the block before in the same action (or received)
    output,           // handed to the block after in the same action (or sent)
    stash,       // written by the forward block, read by the backward block of the same layer and
                 // micro-batch
    recomputed,  // as stash, but made again within the backward action that reads it
    kept,        // as stash, but what backward for the weights reads: it lives until then
    deferred,    // written by backward for the input, read by backward for the weights
    scratch,     // dies within the block
    scalar,      // device scalars of the step: gradient norm, loss
    quantized,   // persistent: eight-bit copies of the part's weights, histories of its scales
    source,      // what a copy between tiers of memory reads …
    target       // … and writes: whole residents, or the stash area of a part
};
inline constexpr std::size_t kRoles = 17;

// Whether it lies among the gradients of a bucket, by its parameter's name.
inline bool is_accumulator(Role role) {
    return role == Role::gradient || role == Role::source_gradient;
}

struct Tensor {
    std::string name;
    Role role = Role::scratch;
    DType dtype = DType::bf16;
    std::vector<std::int64_t> dims;  // local to this rank

    std::int64_t elements() const;
    std::int64_t bytes() const;
    bool operator==(const Tensor&) const = default;
};

using TensorId = std::int32_t;

struct Op {
    OpSpec spec;  // what it computes, whole
    Phase phase = Phase::forward;
    Stream stream = Stream::compute;
    GroupKind group = GroupKind::none;  // communication only
    DType dtype = DType::bf16;          // of the arithmetic or of the elements on the wire
    std::vector<TensorId> reads;
    std::vector<TensorId> writes;     // a tensor in both is updated in place
    std::vector<std::int32_t> after;  // ops of this block that must end first though no tensor
                                      // says so (a stack that does not overlap)
    std::string label;                // for people: "qkv", "fc1 dgrad", …; nothing compares it
    // Of an op that is done in parts, so that a product runs beside the communication of another
    // part: this is part `part` of `parts`. Of tokens that all ranks of the tensor group hold
    // together, part k is the k-th of each rank's share, one after another; sizes are of the part.
    std::int32_t part = 0;
    std::int32_t parts = 1;

    OpKind kind() const { return kind_of(spec); }
    template <typename Spec>
    bool is() const {
        return std::holds_alternative<Spec>(spec);
    }
    template <typename Spec>
    const Spec& as() const {
        return std::get<Spec>(spec);
    }
    template <typename Spec>
    Spec& as() {
        return std::get<Spec>(spec);
    }
    // The i-th size or extent, whatever the kind.
    std::int64_t size(std::size_t i) const { return size_of(spec, i); }

    bool operator==(const Op&) const = default;
};

// An op may not touch memory that another op, on another stream, still reads: `later` waits for
// `earlier` (indices into Block::ops).
struct ReuseEdge {
    std::int32_t earlier = 0;
    std::int32_t later = 0;
    bool operator==(const ReuseEdge&) const = default;
};

// A parameter that a forward block makes its share of.
struct DeclaredParameter {
    TensorId tensor = -1;
    ParameterSpec spec;
    bool operator==(const DeclaredParameter&) const = default;
};

struct Block {
    std::string name;  // "layer.forward", "layer.backward", "head.forward", …
    std::vector<Tensor> tensors;
    std::vector<Op> ops;   // in issue order
    TensorId input = -1;   // tensor that the chain hands in, or −1
    TensorId output = -1;  // tensor that the chain hands on, or −1
    // Level one of the memory plan (plan/memory): relative offsets of scratch tensors (−1 for the
    // others), the bytes they span, and the edges that reuse needs.
    std::vector<std::int64_t> scratch_offsets;
    std::int64_t scratch_bytes = 0;
    std::vector<ReuseEdge> reuse;
    // Of a forward block all its parameters, in the order of its tensors; of others none.
    std::vector<DeclaredParameter> parameters;

    bool operator==(const Block&) const = default;
};

std::string_view name(Role role);
std::optional<Role> role_from_name(std::string_view text);

// Floating-point operations that the op executes; 0 of what is bound by memory or communicates.
double flops(const Op& op);

// Whether the op touches its part of the tensor's rows alone; else it takes the tensor whole.
bool touches_part(const Block& block, const Op& op, TensorId tensor);

// Bytes that the op moves to and from memory when every operand travels once; of rows for experts
// those that come when all are chosen alike often.
double bytes_moved(const Block& block, const Op& op);

// Bytes S of a communication op in the convention of nccl-tests: the buffer for all_reduce, the
// whole gathered buffer for all_gather and reduce_scatter, all that a rank has for the members of
// its group (itself included) for all_to_all, one message for exchange, what a rank sends for
// shift.
std::int64_t message_bytes(const Op& op);

// Bytes that each rank sends for a message of S bytes over N ranks, on a ring: all_reduce
// 2(N−1)/N·S, all_gather, reduce_scatter, broadcast (in the mean) and all_to_all (N−1)/N·S
// (nccl-tests, doc/PERFORMANCE.md);
// exchange and shift S. 0 where N is 1. Aborts for other kinds.
double bytes_sent_per_rank(OpKind kind, double bytes, int ranks);

}  // namespace orrery::plan
