#include "calib/preflight/preflight_plan.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "plan/check.hpp"
#include "plan/ir/link.hpp"
#include "plan/memory/arena.hpp"
#include "plan/ops/communication.hpp"
#include "plan/ops/copies.hpp"
#include "plan/ops/rows.hpp"

namespace orrery::preflight {
namespace {

using plan::Block;
using plan::BlockUse;
using plan::Op;
using plan::Program;
using plan::Role;
using plan::Tensor;

constexpr std::int64_t kMiB = 1 << 20;
// Of a product: some ten milliseconds of a core, a few of a GPU.
constexpr double kLeastFlops = 5e8, kLeastFlopsOfDevice = 1e12;

Op compute_op(plan::OpSpec spec, plan::DType dtype, std::vector<plan::TensorId> reads,
              std::vector<plan::TensorId> writes, const char* label) {
    Op op;
    op.spec = std::move(spec);
    op.dtype = dtype;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.label = label;
    return op;
}

Block block_of(const char* name, std::vector<Tensor> tensors, const Op& op, int repeats) {
    Block block;
    block.name = name;
    block.tensors = std::move(tensors);
    block.ops.assign(static_cast<std::size_t>(repeats), op);
    plan::plan_scratch(block);
    return block;
}

Block product_block(const Sizes& sizes) {
    const plan::Gemm& of = sizes.product;
    return block_of("product",
                    {{"input", Role::source, sizes.dtype, {of.m, of.k}},
                     {"weight", Role::source, sizes.dtype, {of.n, of.k}},
                     {"result", Role::target, sizes.dtype, {of.m, of.n}}},
                    compute_op(of, sizes.dtype, {0, 1}, {2}, "product"), sizes.repeats);
}

template <typename Copy>
Block copy_block(const char* name, plan::Stream stream, const Sizes& sizes) {
    const auto type = plan::DType::fp32;
    const std::int64_t elements = sizes.copy_bytes / plan::size_bytes(type);
    Op op = compute_op(Copy{elements}, type, {0}, {1}, name);
    op.stream = stream;
    return block_of(
        name, {{"from", Role::source, type, {elements}}, {"to", Role::target, type, {elements}}},
        op, sizes.repeats);
}

Block exchange_block(const Sizes& sizes) {
    Op op;
    op.spec = plan::Exchange{sizes.message_bytes};
    op.group = plan::GroupKind::pipeline;
    op.stream = plan::Stream::pipeline_comm;
    op.dtype = plan::DType::u8;
    op.label = "pair";
    return block_of("pair", {}, op, 1);
}

Block sum_block(const Sizes& sizes) {
    const auto type = plan::DType::fp32;
    const std::int64_t elements = sizes.sum_bytes / plan::size_bytes(type);
    Op op = compute_op(plan::AllReduce{elements}, type, {0}, {0}, "sum");
    op.group = plan::GroupKind::world;
    op.stream = plan::Stream::data_comm;
    return block_of("sum", {{"addend", Role::source, type, {elements}}}, op, 1);
}

// The program of one rank, step by step.
class Writer {
  public:
    Writer(PreflightPlan& out, plan::Rank rank) : out_(out) {
        program_.pipeline_rank = static_cast<std::int32_t>(rank);
        program_.stages.push_back({program_.pipeline_rank, {}});
        program_.scratch = resident("scratch", 0);
        program_.workspace = resident("workspace", out.sizes.workspace_bytes);
        program_.scalars = resident("scalars", 0);
    }

    std::int32_t resident(const char* name, std::int64_t bytes,
                          plan::Tier tier = plan::Tier::device) {
        plan::Resident made;
        made.name = name;
        made.category = plan::MemoryCategory::workspace;
        made.bytes = std::max(plan::kAlignment, plan::aligned(bytes));
        made.tier = tier;
        program_.residents.push_back(made);
        return static_cast<std::int32_t>(program_.residents.size()) - 1;
    }

    // Once everything before it has ended.
    void perform(Check check, std::int32_t block, const std::vector<std::int32_t>& residents) {
        BlockUse use;
        use.block = block;
        use.fence = true;
        for (const std::int32_t id : residents)
            use.slots.push_back({plan::Frame::resident, id, 0, 0});
        plan::Step step;
        step.action = {program_.pipeline_rank, plan::ActionKind::forward, 0};
        step.procedure = static_cast<std::int32_t>(program_.procedures.size());
        program_.procedures.push_back(
            {out_.plan.blocks[static_cast<std::size_t>(block)].name, {use}});
        program_.steps.push_back(step);
        const auto ops = out_.plan.blocks[static_cast<std::size_t>(block)].ops.size();
        steps_.insert(steps_.end(), ops, {check, -1});
    }

    // Of the two the lower rank counts as the stage before. It sends what the copies before have
    // left, and so begins once they have ended.
    void exchange(Pair pair, std::int64_t round, std::int32_t sent, std::int32_t received) {
        const bool lower = program_.pipeline_rank == pair.first;
        const auto peer = static_cast<std::int32_t>(lower ? pair.second : pair.first);
        const auto number = static_cast<std::int32_t>(round);
        plan::Step step;
        const auto add = [&](plan::ActionKind kind, std::int32_t resident) {
            step.transfers.push_back({{lower ? 0 : 1, kind, number},
                                      peer,
                                      out_.sizes.message_bytes,
                                      resident,
                                      plan::GroupKind::none});
        };
        add(lower ? plan::ActionKind::send_f : plan::ActionKind::send_b, sent);
        add(lower ? plan::ActionKind::recv_b : plan::ActionKind::recv_f, received);
        step.action = step.transfers.front().action;
        program_.steps.push_back(std::move(step));
        steps_.push_back({Check::pair, round});
    }

    void finish() {
        const auto last = static_cast<std::int32_t>(program_.steps.size()) - 1;
        for (plan::Resident& resident : program_.residents)
            resident.last_step = last;
        plan::plan_arena(program_);
        out_.plan.programs.push_back(std::move(program_));
        out_.steps.push_back(std::move(steps_));
    }

  private:
    PreflightPlan& out_;
    Program program_;
    std::vector<PreflightPlan::Step> steps_;
};

// Blocks by what they check; −1: none.
using BlockOf = std::array<std::int32_t, kChecks>;

BlockOf add_blocks(PreflightPlan& out, std::int64_t ranks) {
    BlockOf blocks;
    blocks.fill(-1);
    const auto add = [&](Check check, Block block) {
        blocks[static_cast<std::size_t>(check)] = static_cast<std::int32_t>(out.plan.blocks.size());
        out.plan.blocks.push_back(std::move(block));
    };
    add(Check::pair, exchange_block(out.sizes));
    add(Check::product, product_block(out.sizes));
    add(Check::memory, copy_block<plan::Cast>("memory", plan::Stream::compute, out.sizes));
    if (out.sizes.host_is_apart) {
        add(Check::to_host,
            copy_block<plan::CopyToHost>("to host", plan::Stream::copy_out, out.sizes));
        add(Check::from_host,
            copy_block<plan::CopyToDevice>("from host", plan::Stream::copy, out.sizes));
    }
    if (ranks > 1) add(Check::sum, sum_block(out.sizes));
    return blocks;
}

void write_program(PreflightPlan& out, plan::Rank rank, const BlockOf& blocks) {
    const auto block = [&](Check check) { return blocks[static_cast<std::size_t>(check)]; };
    const Sizes& sizes = out.sizes;
    const std::int64_t width = plan::size_bytes(sizes.dtype);
    Writer writer(out, rank);
    const std::int32_t input = writer.resident("input", sizes.product.m * sizes.product.k * width);
    const std::int32_t weight =
        writer.resident("weight", sizes.product.n * sizes.product.k * width);
    const std::int32_t result =
        writer.resident("result", sizes.product.m * sizes.product.n * width);
    const std::int32_t source = writer.resident("source", sizes.copy_bytes);
    const std::int32_t copied = writer.resident("copied", sizes.copy_bytes);
    out.factors = {input, weight, source};
    writer.perform(Check::product, block(Check::product), {input, weight, result});
    writer.perform(Check::memory, block(Check::memory), {source, copied});
    if (sizes.host_is_apart) {
        const std::int32_t host = writer.resident("host", sizes.copy_bytes, plan::Tier::host);
        writer.perform(Check::to_host, block(Check::to_host), {copied, host});
        writer.perform(Check::from_host, block(Check::from_host), {host, copied});
    }
    if (!out.rounds.empty()) {
        const std::int32_t received = writer.resident("received", sizes.message_bytes);
        for (std::size_t round = 0; round < out.rounds.size(); ++round)
            for (const Pair& pair : out.rounds[round])
                if (pair.first == rank || pair.second == rank)
                    writer.exchange(pair, static_cast<std::int64_t>(round), copied, received);
        writer.perform(Check::sum, block(Check::sum), {writer.resident("addend", sizes.sum_bytes)});
    }
    writer.finish();
}

}  // namespace

Sizes sizes_of(const plan::Plan& run, bool host_is_apart) {
    Sizes sizes;
    for (const Block& block : run.blocks)
        for (const Op& op : block.ops) {
            const auto* gemm = std::get_if<plan::Gemm>(&op.spec);
            if (gemm == nullptr || gemm->product != plan::GemmProduct::forward) continue;
            const Tensor& input = block.tensors[static_cast<std::size_t>(op.reads[0])];
            if (plan::is_eight_bit(input.dtype) || gemm->flops() <= sizes.product.flops()) continue;
            sizes.product = *gemm;
            sizes.product.factor = 1;
            sizes.dtype = input.dtype;
        }
    ORRERY_CHECK(sizes.product.m > 0, "every model ends with a product of 16 bits or more");
    const double least = host_is_apart ? kLeastFlopsOfDevice : kLeastFlops;
    while (sizes.product.flops() < least)
        sizes.product.m *= 2;
    for (const Program& program : run.programs)
        sizes.workspace_bytes =
            std::max(sizes.workspace_bytes,
                     program.residents[static_cast<std::size_t>(program.workspace)].bytes);
    sizes.host_is_apart = host_is_apart;
    sizes.copy_bytes = (host_is_apart ? 256 : 64) * kMiB;
    sizes.message_bytes = sizes.copy_bytes / 4;
    sizes.sum_bytes = sizes.copy_bytes / 2;
    sizes.repeats = 4;
    return sizes;
}

std::vector<std::vector<Pair>> rounds_of(std::int64_t ranks) {
    std::vector<std::vector<Pair>> rounds;
    if (ranks < 2) return rounds;
    // One sits still while the others go round the table; of an odd number it is nobody.
    const std::int64_t round_the_table = ranks % 2 == 0 ? ranks - 1 : ranks;
    const std::int64_t still = round_the_table;
    const std::int64_t taken = std::min(round_the_table, kMostRounds);
    for (std::int64_t i = 0; i < taken; ++i) {
        const std::int64_t turn = i * round_the_table / taken;
        std::vector<Pair>& pairs = rounds.emplace_back();
        if (still < ranks) pairs.emplace_back(turn, still);
        for (std::int64_t seat = 1; 2 * seat < round_the_table; ++seat) {
            const std::int64_t a = (turn + seat) % round_the_table;
            const std::int64_t b = (turn - seat + round_the_table) % round_the_table;
            pairs.emplace_back(std::min(a, b), std::max(a, b));
        }
        std::sort(pairs.begin(), pairs.end());
    }
    return rounds;
}

PreflightPlan preflight_plan(std::int64_t ranks, const Sizes& sizes) {
    PreflightPlan out;
    out.sizes = sizes;
    out.rounds = rounds_of(ranks);
    out.plan.mesh.pipeline = ranks;
    out.plan.micro_batches = 1;
    out.plan.schedule = "preflight";
    const BlockOf blocks = add_blocks(out, ranks);
    for (plan::Rank rank = 0; rank < ranks; ++rank)
        write_program(out, rank, blocks);
    return out;
}

std::int64_t size_of(Check check, const Sizes& sizes) {
    switch (check) {
        case Check::product:
            return 0;
        case Check::pair:
            return sizes.message_bytes;
        case Check::sum:
            return sizes.sum_bytes;
        case Check::memory:
        case Check::to_host:
        case Check::from_host:
            break;
    }
    return sizes.copy_bytes;
}

double bytes_of(Check check, const Sizes& sizes, std::int64_t ranks) {
    const auto bytes = static_cast<double>(size_of(check, sizes));
    const auto count = static_cast<double>(ranks);
    if (check == Check::memory) return 2 * bytes;
    return check == Check::sum ? 2 * (count - 1) / count * bytes : bytes;
}

}  // namespace orrery::preflight
