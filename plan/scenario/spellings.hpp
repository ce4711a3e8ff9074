// How the words of a scenario are spelled, in the order of their values: readers, writers, profiles
// and the schema take them from here.
#pragma once

#include <array>
#include <string_view>

#include "plan/ops/fields.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

template <>
struct Spelling<Precision> {
    static constexpr std::array<std::string_view, 5> names = {"fp32", "bf16", "fp16", "fp64",
                                                              "fp8"};
};
template <>
struct Spelling<Recompute> {
    static constexpr std::array<std::string_view, 6> names = {
        "none", "selective", "selective_op", "selective_layer", "full", "every_k"};
};
template <>
struct Spelling<VocabularyParallel> {
    static constexpr std::array<std::string_view, 4> names = {"none", "interlaced", "vocab-1",
                                                              "vocab-2"};
};
template <>
struct Spelling<DataParallelMode> {
    static constexpr std::array<std::string_view, 2> names = {"synchronous", "parameter_server"};
};
template <>
struct Spelling<ContextAlgorithm> {
    static constexpr std::array<std::string_view, 3> names = {"ring", "all_gather", "all_to_all"};
};
template <>
struct Spelling<AttentionKernel> {
    static constexpr std::array<std::string_view, 2> names = {"flash", "unfused"};
};
template <>
struct Spelling<GradientType> {
    static constexpr std::array<std::string_view, 5> names = {"same", "bf16", "fp16", "fp32",
                                                              "fp64"};
};
template <>
struct Spelling<StackGeneration> {
    static constexpr std::array<std::string_view, 4> names = {"other", "eager", "fused",
                                                              "compiled"};
};
template <>
struct Spelling<DropoutMasks> {
    static constexpr std::array<std::string_view, 2> names = {"stored", "recomputed"};
};
template <>
struct Spelling<TransferOverlap> {
    static constexpr std::array<std::string_view, 3> names = {"always", "interleaved", "never"};
};
template <>
struct Spelling<TransferStreams> {
    static constexpr std::array<std::string_view, 2> names = {"one", "per_peer"};
};
template <>
struct Spelling<LogitsType> {
    static constexpr std::array<std::string_view, 2> names = {"same", "fp32"};
};
template <>
struct Spelling<LossLogits> {
    static constexpr std::array<std::string_view, 4> names = {"in_place", "copied", "gathered",
                                                              "fused"};
};
template <>
struct Spelling<LossKernel> {
    static constexpr std::array<std::string_view, 2> names = {"fused", "composed"};
};
template <>
struct Spelling<NormKernel> {
    static constexpr std::array<std::string_view, 3> names = {"fused", "composed", "fused_add"};
};
template <>
struct Spelling<ActivationKernel> {
    static constexpr std::array<std::string_view, 2> names = {"own", "epilogue"};
};
template <>
struct Spelling<ResidualKernel> {
    static constexpr std::array<std::string_view, 2> names = {"own", "epilogue"};
};
template <>
struct Spelling<BiasGradientKernel> {
    static constexpr std::array<std::string_view, 2> names = {"own", "epilogue"};
};
template <>
struct Spelling<GatheredInputs> {
    static constexpr std::array<std::string_view, 2> names = {"again", "kept"};
};
template <>
struct Spelling<ExpertProducts> {
    static constexpr std::array<std::string_view, 2> names = {"grouped", "one_by_one"};
};
template <>
struct Spelling<ExpertBiases> {
    static constexpr std::array<std::string_view, 2> names = {"kernels", "split"};
};
template <>
struct Spelling<PermuteKernel> {
    static constexpr std::array<std::string_view, 3> names = {"fused", "indexed", "masked"};
};
template <>
struct Spelling<ShardedBuffers> {
    static constexpr std::array<std::string_view, 4> names = {"in_place", "flat", "copied",
                                                              "bucketed"};
};
template <>
struct Spelling<CountReadings> {
    static constexpr std::array<std::string_view, 4> names = {"none", "each_pass", "each_product",
                                                              "each_mask"};
};
template <>
struct Spelling<ExpertDispatcher> {
    static constexpr std::array<std::string_view, 3> names = {"alltoall", "deduplicated",
                                                              "allgather"};
};
template <>
struct Spelling<IntraNodeKind> {
    static constexpr std::array<std::string_view, 6> names = {
        "nvswitch", "xgmi", "pcie", "host", "hybrid_cube_mesh", "torus"};
};
template <>
struct Spelling<InterNodeKind> {
    static constexpr std::array<std::string_view, 7> names = {
        "none", "infiniband", "ethernet", "roce", "efa", "slingshot", "omni_path"};
};
template <>
struct Spelling<FabricKind> {
    static constexpr std::array<std::string_view, 3> names = {"uniform", "fat_tree", "rail"};
};
template <>
struct Spelling<CrossRail> {
    static constexpr std::array<std::string_view, 2> names = {"nvlink", "spine"};
};
template <>
struct Spelling<KeptOn> {
    static constexpr std::array<std::string_view, 3> names = {"none", "host", "disk"};
};
template <>
struct Spelling<ActivationStash> {
    static constexpr std::array<std::string_view, 3> names = {"same", "bf16", "fp8"};
};
template <>
struct Spelling<CudaGraphs> {
    static constexpr std::array<std::string_view, 3> names = {"none", "per_layer",
                                                              "full_iteration"};
};
// What a state is kept in: "same" is as the optimizer computes.
template <>
struct Spelling<StateType> {
    static constexpr std::array<std::string_view, 5> names = {"fp32", "bf16", "fp16", "fp8",
                                                              "none"};
};
template <>
struct Spelling<JitterDistribution> {
    static constexpr std::array<std::string_view, 3> names = {"none", "normal", "lognormal"};
};
template <>
struct Spelling<JitterPer> {
    static constexpr std::array<std::string_view, 2> names = {"kernel", "device"};
};
template <>
struct Spelling<LinkOf> {
    static constexpr std::array<std::string_view, 2> names = {"intra_node", "inter_node"};
};
template <>
struct Spelling<StragglerOf> {
    static constexpr std::array<std::string_view, 4> names = {"device", "node", "intra_node",
                                                              "inter_node"};
};
template <>
struct Spelling<FailureOf> {
    static constexpr std::array<std::string_view, 3> names = {"device", "node", "run"};
};
template <>
struct Spelling<Saving> {
    static constexpr std::array<std::string_view, 2> names = {"blocking", "asynchronous"};
};
template <>
struct Spelling<DataCache> {
    static constexpr std::array<std::string_view, 3> names = {"none", "local", "neighbours"};
};
template <>
struct Spelling<CacheEviction> {
    static constexpr std::array<std::string_view, 2> names = {"lru", "none"};
};
template <>
struct Spelling<Warming> {
    static constexpr std::array<std::string_view, 3> names = {"as_read", "from_store", "chain"};
};
template <>
struct Spelling<Fp8Recipe> {
    static constexpr std::array<std::string_view, 6> names = {"none",    "delayed",   "tensorwise",
                                                              "rowwise", "blockwise", "mxfp8"};
};
template <>
struct Spelling<ExpertLoad> {
    static constexpr std::array<std::string_view, 5> names = {"uniform", "random", "dirichlet",
                                                              "zipf", "counts"};
};
template <>
struct Spelling<BalanceUnit> {
    static constexpr std::array<std::string_view, 2> names = {"sequence", "micro_batch"};
};
template <>
struct Spelling<CapacityUnit> {
    static constexpr std::array<std::string_view, 2> names = {"sequence", "rank"};
};
template <>
struct Spelling<Decay> {
    static constexpr std::array<std::string_view, 2> names = {"constant", "cosine"};
};
template <>
struct Spelling<DataFormat> {
    static constexpr std::array<std::string_view, 5> names = {"auto", "text", "nanogpt", "llmc",
                                                              "megatron"};
};
template <>
struct Spelling<BindTo> {
    static constexpr std::array<std::string_view, 3> names = {"auto", "numa", "none"};
};

}  // namespace orrery::plan
