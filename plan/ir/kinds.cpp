#include "plan/ir/kinds.hpp"

#include "plan/ops/spec.hpp"

namespace orrery::plan {
namespace {

constexpr std::array<std::string_view, kDTypes> kDTypeNames = {
    "u8", "i32", "bf16", "fp16", "fp32", "fp64", "fp8_e4m3", "fp8_e5m2"};
constexpr std::array<std::int64_t, kDTypes> kDTypeBytes = {1, 4, 2, 2, 4, 8, 1, 1};
constexpr std::array<std::string_view, kStreams> kStreamNames = {
    "compute",       "tensor_comm",          "context_comm",    "expert_comm", "data_comm",
    "pipeline_comm", "pipeline_before_comm", "vocabulary_comm", "copy",        "copy_out",
    "disk_read",     "disk_write",           "server"};
constexpr std::array<std::string_view, kGroupKinds> kGroupNames = {
    "none",  "tensor", "context", "expert",  "data",        "pipeline",     "embedding",
    "model", "world",  "shard",   "replica", "expert_data", "expert_shard", "expert_replica"};
constexpr std::array<std::string_view, kPhases> kPhaseNames = {"forward", "backward", "recompute",
                                                               "optimizer"};

#define ORRERY_OP_SPELLING(name, type) #name,
constexpr std::array<std::string_view, kOpKinds> kOpNames = {ORRERY_OPS(ORRERY_OP_SPELLING)};
#undef ORRERY_OP_SPELLING

template <typename Enum, std::size_t n>
std::optional<Enum> find_name(const std::array<std::string_view, n>& names, std::string_view text) {
    for (std::size_t i = 0; i < n; ++i)
        if (names[i] == text) return static_cast<Enum>(i);
    return std::nullopt;
}

}  // namespace

std::int64_t size_bytes(DType dtype) {
    return kDTypeBytes[static_cast<std::size_t>(dtype)];
}
std::string_view name(DType dtype) {
    return kDTypeNames[static_cast<std::size_t>(dtype)];
}
std::string_view name(Stream stream) {
    return kStreamNames[static_cast<std::size_t>(stream)];
}
std::string_view name(GroupKind group) {
    return kGroupNames[static_cast<std::size_t>(group)];
}
std::string_view name(Phase phase) {
    return kPhaseNames[static_cast<std::size_t>(phase)];
}
std::string_view name(OpKind kind) {
    return kOpNames[static_cast<std::size_t>(kind)];
}
bool is_eight_bit(DType dtype) {
    return dtype == DType::fp8_e4m3 || dtype == DType::fp8_e5m2;
}
bool is_communication(OpKind kind) {
    return family(kind) == OpFamily::communication;
}
bool is_copy(OpKind kind) {
    return family(kind) == OpFamily::copy;
}

template <>
std::optional<DType> from_name<DType>(std::string_view text) {
    return find_name<DType>(kDTypeNames, text);
}
template <>
std::optional<Stream> from_name<Stream>(std::string_view text) {
    return find_name<Stream>(kStreamNames, text);
}
template <>
std::optional<GroupKind> from_name<GroupKind>(std::string_view text) {
    return find_name<GroupKind>(kGroupNames, text);
}
template <>
std::optional<Phase> from_name<Phase>(std::string_view text) {
    return find_name<Phase>(kPhaseNames, text);
}
template <>
std::optional<OpKind> from_name<OpKind>(std::string_view text) {
    return find_name<OpKind>(kOpNames, text);
}

}  // namespace orrery::plan
