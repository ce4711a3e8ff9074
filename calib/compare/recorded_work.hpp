// What a recorded trace of a training step did, as work of known kinds: by the names that libraries
// give their kernels and PyTorch its operators, and by what these say of shapes. It knows no plan;
// recorded_match.hpp holds it against one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "trace/recorded.hpp"

namespace orrery::compare {

enum class WorkKind : std::uint8_t {
    gemm,
    attention,
    attention_backward,
    norm,
    softmax,
    loss,
    embedding,
    activation,
    dropout,
    optimizer,
    elementwise,  // sums, casts, copies within a device, reductions
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    send_receive,
    broadcast,
    copy,   // between host and device
    other,  // no rule knows its name
};
inline constexpr std::size_t kWorkKinds = 19;
std::string_view name(WorkKind kind);
inline bool is_communication(WorkKind kind) {
    return kind >= WorkKind::all_reduce && kind <= WorkKind::broadcast;
}

// By the first rule whose text is in the name; `of_device`: a kernel's, else an operator's.
WorkKind kind_of_name(std::string_view name, bool of_device);

// Of an op of a plan.
WorkKind work_kind(plan::OpKind kind);

// m × n × k of a product, from the dimensions of the inputs of the operator of this name.
struct ProductShape {
    std::int64_t m = 0, n = 0, k = 0, batch = 1;
};
std::optional<ProductShape> product_shape(std::string_view op, std::string_view input_dims);

// What a collective or a transfer moved, as nccl-tests counts: the buffer that all members together
// hold.
struct MessageSize {
    double elements = -1;    // −1: not recorded
    std::int64_t group = 0;  // members; 0: not recorded
};
// By what its own record says, else by the dimensions of its operator's inputs.
MessageSize message_size(WorkKind kind, const trace::RecordedArguments& arguments);

enum class MessageWay : std::uint8_t { unknown, sent, received };  // of a transfer

// A kernel; or of a trace without a device an operator that calls no other, or a message of a
// process group.
struct WorkItem {
    WorkKind kind = WorkKind::other;
    plan::Phase phase = plan::Phase::forward;
    trace::Picoseconds start = 0, end = 0;
    std::uint32_t name = 0;  // into RecordedTrace::names
    std::optional<ProductShape> product;
    double message_bytes = 0;  // of a collective, as nccl-tests counts; 0: not known
    MessageWay way = MessageWay::unknown;
    std::int64_t group_size = 0;

    trace::Picoseconds duration() const { return end - start; }
};

struct RecordedWindow {
    trace::Picoseconds start = 0, end = 0;
    trace::Picoseconds duration() const { return end - start; }
};

// One file: what one rank did in its typical step.
struct RecordedRank {
    std::string file;
    std::int64_t rank = -1;
    std::int64_t world_size = 0;
    std::string device;  // empty: no device's work is in the trace
    std::vector<RecordedWindow> steps;
    bool steps_named = false;  // by profiler or program; else the whole trace is one step
    std::size_t typical =
        0;  // into steps: of median length, the first left out where there are more
    std::vector<WorkItem> work;               // of it, in order of time
    std::vector<std::string> names;           // of the trace
    std::array<double, kWorkKinds> busy_s{};  // by kind: sum over work
    double compute_s = 0;                     // in which some kernel that computes runs
    double exposed_s = 0;                     // … in which only communication does
    double idle_s = 0;                        // the rest of the step

    double step_s() const;
};

// Steps are the spans of the host whose names begin with `step_range`; empty: those that the
// profiler named (ProfilerStep#), else those that the program called a step or an iteration, else
// the whole trace is one.
RecordedRank recorded_rank(const trace::RecordedTrace& trace, const std::string& file,
                           const std::string& step_range = "");

}  // namespace orrery::compare
