// Field numbers of MLCommons Chakra's execution traces, and the attributes of nodes that are used.
// Source: schema/protobuf/et_def.proto of github.com/mlcommons/chakra; types of attributes as its
// feeder reads them (src/feeder/et_feeder_node.cpp). Internal to trace/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery::trace::chakra {

enum class Metadata : std::uint32_t { version = 1, attribute = 2 };

enum class NodeField : std::uint32_t {
    id = 1,
    name = 2,
    type = 3,
    ctrl_deps = 4,
    data_deps = 5,
    start_time_micros = 6,
    duration_micros = 7,
    inputs = 8,
    outputs = 9,
    attribute = 10
};

enum class Attribute : std::uint32_t {
    name = 1,
    double_value = 3,
    float_value = 5,
    int32_value = 7,
    int64_value = 9,
    uint32_value = 11,
    uint64_value = 13,
    sint32_value = 15,
    sint64_value = 17,
    bool_value = 27,
    string_value = 29
};

enum class InputOutput : std::uint32_t { values = 1, shapes = 2, types = 3 };

enum class NodeType : std::uint32_t {
    invalid = 0,
    metadata = 1,
    mem_load = 2,
    mem_store = 3,
    comp = 4,
    comm_send = 5,
    comm_recv = 6,
    comm_coll = 7
};

enum class CollectiveType : std::uint32_t {
    all_reduce = 0,
    reduce = 1,
    all_gather = 2,
    gather = 3,
    scatter = 4,
    broadcast = 5,
    all_to_all = 6,
    reduce_scatter = 7,
    reduce_scatter_block = 8,
    barrier = 9
};
// As PyTorch's process groups call them.
inline constexpr std::array<std::string_view, 10> kCollectiveNames = {
    "allreduce", "reduce",   "allgather",      "gather",         "scatter",
    "broadcast", "alltoall", "reduce_scatter", "reduce_scatter", "barrier"};

// Of Chakra and its users …
inline constexpr std::string_view kIsCpuOp = "is_cpu_op";       // bool
inline constexpr std::string_view kNumOps = "num_ops";          // int64
inline constexpr std::string_view kTensorSize = "tensor_size";  // uint64, bytes
inline constexpr std::string_view kCommType = "comm_type";      // int64
inline constexpr std::string_view kCommSize = "comm_size";      // int64, bytes of a rank's input
inline constexpr std::string_view kPgName = "pg_name";          // string
inline constexpr std::string_view kCommSrc = "comm_src";        // int32
inline constexpr std::string_view kCommDst = "comm_dst";
inline constexpr std::string_view kCommTag = "comm_tag";
inline constexpr std::string_view kStream = "stream";  // int64
inline constexpr std::string_view kTid = "tid";        // int64
// … and ours: what a node is in the plan.
inline constexpr std::string_view kOp = "op";                 // int64: id in the rank's program
inline constexpr std::string_view kOpKind = "op_kind";        // string, of plan/ops
inline constexpr std::string_view kPhase = "phase";           // string
inline constexpr std::string_view kAction = "action";         // string, "2F0"
inline constexpr std::string_view kLayer = "layer";           // int64
inline constexpr std::string_view kGroup = "group";           // string, "tensor"
inline constexpr std::string_view kGroupSize = "group_size";  // int64
inline constexpr std::string_view kStart = "start_picos";     // uint64: exact, where micros are not
inline constexpr std::string_view kDuration = "duration_picos";
// Of the file.
inline constexpr std::string_view kRank = "rank";             // int64
inline constexpr std::string_view kWorldSize = "world_size";  // int64
inline constexpr std::string_view kSource = "source";         // string

template <typename Field>
constexpr std::uint32_t number(Field field) {
    return static_cast<std::uint32_t>(field);
}

// Of start_time_micros and duration_micros.
inline constexpr std::int64_t kPsPerMicro = 1'000'000;

}  // namespace orrery::trace::chakra
