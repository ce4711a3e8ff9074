// The vocabulary of a plan: element types, streams, process groups, phases; kinds of ops are those
// of plan/ops. Each has one spelling, used in text, JSON and traces alike; a spelling on disk never
// changes its meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/ops/op_kind.hpp"

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
    vocabulary_comm,       // of what pipeline ranks compute together of the vocabulary
    copy,                  // host memory → device
    copy_out,              // device → host memory
    disk_read,             // disk → host memory
    disk_write,
    server  // steps parameters while the rank computes (layout.staleness)
};
inline constexpr std::size_t kStreams = 13;

// Which ranks a collective ties together (Mesh says who they are).
enum class GroupKind : std::uint8_t {
    none,
    tensor,
    context,
    expert,     // ranks among which a layer's experts are spread
    data,       // ranks that hold the same parameters: context × data
    pipeline,   // point to point between pipeline ranks
    embedding,  // first and last pipeline rank, which both hold tied embeddings
    model,      // tensor × pipeline: one full copy of the parameters
    world,      // every rank
    shard,      // of a data group, ranks in a row that share out states between them (hybrid ZeRO)
    replica,    // of a data group, ranks that hold the same shard
    expert_data,    // ranks of a stage that hold the same shares of experts
    expert_shard,   // of those, ranks in a row that share out states of experts between them
    expert_replica  // of those, ranks that hold the same shard
};
inline constexpr std::size_t kGroupKinds = 14;

// Those that share out memory: each member has a piece, by its number among them.
inline constexpr std::array kSharingGroups = {GroupKind::tensor, GroupKind::data, GroupKind::shard,
                                              GroupKind::expert_data, GroupKind::expert_shard};

// What the accounts call an op: recompute is forward work done again.
enum class Phase : std::uint8_t { forward, backward, recompute, optimizer };
inline constexpr std::size_t kPhases = 4;

std::int64_t size_bytes(DType dtype);
std::string_view name(DType dtype);
std::string_view name(Stream stream);
std::string_view name(GroupKind group);
std::string_view name(Phase phase);
std::string_view name(OpKind kind);
bool is_eight_bit(DType dtype);  // floating point
bool is_communication(OpKind kind);
bool is_copy(OpKind kind);  // between tiers of memory

template <typename Enum>
std::optional<Enum> from_name(std::string_view text);

}  // namespace orrery::plan
