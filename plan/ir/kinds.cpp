#include "plan/ir/kinds.hpp"

namespace orrery::plan {
namespace {

constexpr std::array<std::string_view, kDTypes> kDTypeNames = {
    "u8", "i32", "bf16", "fp16", "fp32", "fp64", "fp8_e4m3", "fp8_e5m2"};
constexpr std::array<std::int64_t, kDTypes> kDTypeBytes = {1, 4, 2, 2, 4, 8, 1, 1};
constexpr std::array<std::string_view, kStreams> kStreamNames = {
    "compute",   "tensor_comm",   "context_comm",         "expert_comm",
    "data_comm", "pipeline_comm", "pipeline_before_comm", "copy",
    "copy_out",  "disk_read",     "disk_write",           "server"};
constexpr std::array<std::string_view, kGroupKinds> kGroupNames = {
    "none",      "tensor", "context", "expert", "data",   "pipeline",
    "embedding", "model",  "world",   "shard",  "replica"};
constexpr std::array<std::string_view, kPhases> kPhaseNames = {"forward", "backward", "recompute",
                                                               "optimizer"};

struct KindRow {
    std::string_view name;
    ShapeFields fields;
};

constexpr ShapeFields kRows = {"rows", "width"};
constexpr ShapeFields kScoreFields = {"batch", "queries", "keys"};
constexpr ShapeFields kElements = {"elements"};
constexpr ShapeFields kAttention = {"batch",    "queries",  "keys",  "heads",
                                    "kv_heads", "head_dim", "window"};
constexpr ShapeFields kAttentionBlock = {"batch",    "queries",  "keys", "heads",
                                         "kv_heads", "head_dim", "hop"};

constexpr std::array<KindRow, kOpKinds> kKinds = {{
    {"gemm", {"m", "n", "k"}},
    {"batched_gemm", {"m", "n", "k", "batch"}},
    {"attention", kAttention},
    {"attention_backward", kAttention},
    {"attention_block", kAttentionBlock},
    {"attention_block_backward", kAttentionBlock},
    {"softmax", kScoreFields},
    {"softmax_backward", kScoreFields},
    {"dropout", kElements},
    {"dropout_backward", kElements},
    {"norm", kRows},
    {"norm_backward", kRows},
    {"activation", kRows},
    {"activation_backward", kRows},
    {"rope", kRows},
    {"rope_backward", kRows},
    {"residual_add", kRows},
    {"add", kRows},
    {"bias_gradient", kRows},
    {"embedding", kRows},
    {"embedding_backward", kRows},
    {"cross_entropy_max", kRows},
    {"cross_entropy_sum", kRows},
    {"cross_entropy", kRows},
    {"cross_entropy_backward", kRows},
    {"gradient_norm", kElements},
    {"unscale", kElements},
    {"update_loss_scale", kElements},
    {"loss_share", kElements},
    {"judge_loss", kElements},
    {"adamw", kElements},
    {"cast", kElements},
    {"rearrange", {"rows", "width", "kv_width", "parts"}},
    {"amax", kElements},
    {"quantize", {"rows", "width", "copies"}},
    {"transpose", kRows},
    {"update_scales", kElements},
    {"all_reduce", kElements},
    {"all_gather", kElements},
    {"reduce_scatter", kElements},
    {"exchange", kElements},
    {"all_to_all", kElements},
    {"shift", kElements},
    {"copy_to_device", kElements},
    {"copy_to_host", kElements},
    {"read_disk", kElements},
    {"write_disk", kElements},
}};

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
    return kKinds[static_cast<std::size_t>(kind)].name;
}
const ShapeFields& shape_fields(OpKind kind) {
    return kKinds[static_cast<std::size_t>(kind)].fields;
}
bool is_eight_bit(DType dtype) {
    return dtype == DType::fp8_e4m3 || dtype == DType::fp8_e5m2;
}
bool is_communication(OpKind kind) {
    return kind >= OpKind::all_reduce && kind <= OpKind::shift;
}
bool is_copy(OpKind kind) {
    return kind >= OpKind::copy_to_device && kind <= OpKind::write_disk;
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
    for (std::size_t i = 0; i < kOpKinds; ++i)
        if (kKinds[i].name == text) return static_cast<OpKind>(i);
    return std::nullopt;
}

}  // namespace orrery::plan
