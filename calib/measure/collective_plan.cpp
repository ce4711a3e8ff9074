#include "calib/measure/collective_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "plan/check.hpp"
#include "plan/ir/link.hpp"
#include "plan/memory/arena.hpp"
#include "plan/ops/communication.hpp"

namespace orrery::measure {
namespace {

using plan::Block;
using plan::DType;
using plan::Op;
using plan::OpKind;
using plan::Role;
using plan::Tensor;

constexpr DType kType = DType::fp32;
const std::int64_t kTypeBytes = plan::size_bytes(kType);

plan::OpSpec spec_of(OpKind kind, std::int64_t elements) {
    switch (kind) {
        case OpKind::all_reduce:
            return plan::AllReduce{elements};
        case OpKind::all_gather:
            return plan::AllGather{elements};
        case OpKind::reduce_scatter:
            return plan::ReduceScatter{elements};
        case OpKind::all_to_all:
            return plan::AllToAll{elements};
        case OpKind::shift:
            return plan::Shift{elements};
        default:
            ORRERY_CHECK(false, "no collective that is timed: " + std::string(plan::name(kind)));
    }
    return {};
}

Op communication(const CollectiveCall& call, std::vector<plan::TensorId> reads,
                 std::vector<plan::TensorId> writes) {
    Op op;
    op.spec = spec_of(call.kind, call.bytes / kTypeBytes);
    op.group = plan::GroupKind::data;
    op.stream = plan::Stream::data_comm;
    op.dtype = kType;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.label = std::string(plan::name(call.kind));
    return op;
}

// What a call reads and writes, before other tensors of its block.
std::vector<Tensor> operands_of(const CollectiveCall& call, std::int64_t ranks) {
    const std::int64_t whole = call.bytes / kTypeBytes;
    const bool gathers = call.kind == OpKind::all_gather;
    const bool scatters = call.kind == OpKind::reduce_scatter;
    if (call.in_place) return {{"data", Role::source, kType, {whole}}};
    return {{"from", Role::source, kType, {gathers ? whole / ranks : whole}},
            {"to", Role::target, kType, {scatters ? whole / ranks : whole}}};
}

Op operation_of(const CollectiveCall& call) {
    return call.in_place ? communication(call, {0}, {0}) : communication(call, {0}, {1});
}

// The program that all ranks perform, step by step, each once what is before it has ended.
class Writer {
  public:
    Writer(std::int64_t ranks, std::int64_t workspace_bytes) {
        plan_.mesh.data = ranks;
        plan_.micro_batches = 1;
        plan_.schedule = "calibration";
        program_.stages.push_back({0, {}});
        program_.scratch = resident("scratch", 0);
        program_.workspace = resident("workspace", workspace_bytes);
        program_.scalars = resident("scalars", 0);
    }

    std::int32_t resident(const char* name, std::int64_t bytes) {
        plan::Resident made;
        made.name = name;
        made.category = plan::MemoryCategory::workspace;
        made.bytes = std::max(plan::kAlignment, plan::aligned(bytes));
        program_.residents.push_back(made);
        return static_cast<std::int32_t>(program_.residents.size()) - 1;
    }

    OpRange perform(const char* name, std::vector<Tensor> tensors, std::vector<Op> ops,
                    const std::vector<std::int32_t>& residents) {
        const OpRange range{ops_, ops.size()};
        ops_ += ops.size();
        Block block;
        block.name = name;
        block.tensors = std::move(tensors);
        block.ops = std::move(ops);
        plan::plan_scratch(block);
        plan::BlockUse use;
        use.block = static_cast<std::int32_t>(plan_.blocks.size());
        use.fence = true;
        for (const std::int32_t id : residents)
            use.slots.push_back({plan::Frame::resident, id, 0, 0});
        plan::Step step;
        step.action = {0, plan::ActionKind::forward, 0};
        step.procedure = static_cast<std::int32_t>(program_.procedures.size());
        program_.procedures.push_back({block.name, {use}});
        program_.steps.push_back(step);
        plan_.blocks.push_back(std::move(block));
        return range;
    }

    plan::Plan finish() {
        for (plan::Resident& resident : program_.residents)
            resident.last_step = static_cast<std::int32_t>(program_.steps.size()) - 1;
        plan::plan_arena(program_);
        plan_.programs.push_back(std::move(program_));
        return std::move(plan_);
    }

  private:
    plan::Plan plan_;
    plan::Program program_;
    std::size_t ops_ = 0;
};

Op product_op(const OverlapCalls& calls, plan::TensorId first) {
    plan::Gemm gemm;
    gemm.m = gemm.n = gemm.k = calls.size;
    Op op;
    op.spec = gemm;
    op.dtype = calls.dtype;
    op.reads = {first, first + 1};
    op.writes = {first + 2};
    op.label = "product";
    return op;
}

void add_product_operands(const OverlapCalls& calls, std::vector<Tensor>& tensors) {
    tensors.push_back({"input", Role::source, calls.dtype, {calls.size, calls.size}});
    tensors.push_back({"weight", Role::source, calls.dtype, {calls.size, calls.size}});
    tensors.push_back({"result", Role::target, calls.dtype, {calls.size, calls.size}});
}

}  // namespace

std::int64_t shared_out(OpKind kind, std::int64_t bytes, std::int64_t ranks) {
    const bool divides = kind != OpKind::all_reduce && kind != OpKind::shift;
    const std::int64_t unit = kTypeBytes * (divides ? ranks : 1);
    return bytes / unit * unit;
}

bool has_way(OpKind kind, bool in_place) {
    if (kind == OpKind::all_reduce) return in_place;
    return !in_place || kind == OpKind::all_gather || kind == OpKind::reduce_scatter;
}

CollectivePlan collective_plan(std::int64_t ranks, const std::vector<CollectiveCall>& calls) {
    std::int64_t most = 0;
    for (const CollectiveCall& call : calls)
        most = std::max(most, call.bytes);
    Writer writer(ranks, 0);
    const std::int32_t from = writer.resident("from", most), to = writer.resident("to", most);
    CollectivePlan out;
    for (const CollectiveCall& call : calls) {
        const std::vector<Op> ops(static_cast<std::size_t>(call.calls), operation_of(call));
        std::vector<std::int32_t> residents{from};
        if (!call.in_place) residents.push_back(to);
        out.of.push_back(writer.perform("calls", operands_of(call, ranks), ops, residents));
    }
    out.plan = writer.finish();
    return out;
}

OverlapPlan overlap_plan(std::int64_t ranks, const OverlapCalls& calls) {
    const std::int64_t matrix = calls.size * calls.size * plan::size_bytes(calls.dtype);
    Writer writer(ranks, calls.workspace_bytes);
    std::vector<std::int32_t> of_call{writer.resident("from", calls.call.bytes)};
    if (!calls.call.in_place) of_call.push_back(writer.resident("to", calls.call.bytes));
    const std::vector<std::int32_t> of_product{writer.resident("input", matrix),
                                               writer.resident("weight", matrix),
                                               writer.resident("result", matrix)};
    std::vector<Tensor> product_tensors, both_tensors = operands_of(calls.call, ranks);
    add_product_operands(calls, product_tensors);
    const auto first = static_cast<plan::TensorId>(both_tensors.size());
    add_product_operands(calls, both_tensors);
    const Op call = operation_of(calls.call), product = product_op(calls, first);
    const auto times = static_cast<std::size_t>(calls.call.calls);
    const auto products = static_cast<std::size_t>(calls.products);
    OverlapPlan out;
    out.products = writer.perform("products", product_tensors,
                                  std::vector<Op>(products, product_op(calls, 0)), of_product);
    out.calls = writer.perform("calls", operands_of(calls.call, ranks),
                               std::vector<Op>(times, call), of_call);
    std::vector<Op> turns;
    for (std::size_t c = 0, p = 0; c + p < times + products;) {
        const bool computes = c == times || (p < products && p * times < c * products);
        turns.push_back(computes ? product : call);
        out.computes.push_back(computes);
        (computes ? p : c) += 1;
    }
    std::vector<std::int32_t> residents = of_call;
    residents.insert(residents.end(), of_product.begin(), of_product.end());
    out.both = writer.perform("both", both_tensors, turns, residents);
    out.plan = writer.finish();
    return out;
}

}  // namespace orrery::measure
