#include <algorithm>

#include "plan/check.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::plan {
namespace {

// Where the scratch of a block is fullest.
struct ScratchPeak {
    std::int64_t bytes = 0;  // planned extent: what the block needs of the arena
    std::int32_t use = -1;   // index within the procedure
};

ScratchPeak scratch_peak(const Plan& plan, const Procedure& procedure) {
    ScratchPeak peak;
    for (std::size_t u = 0; u < procedure.uses.size(); ++u) {
        const auto block = static_cast<std::size_t>(procedure.uses[u].block);
        if (plan.blocks[block].scratch_bytes > peak.bytes || peak.use < 0)
            peak = {plan.blocks[block].scratch_bytes, static_cast<std::int32_t>(u)};
    }
    return peak;
}

// The op during which most scratch bytes are alive.
const Op* fullest_op(const Block& block) {
    std::vector<std::int64_t> change(block.ops.size() + 1, 0);
    for (std::size_t t = 0; t < block.tensors.size(); ++t) {
        if (block.tensors[t].role != Role::scratch) continue;
        std::ptrdiff_t first = -1;
        std::ptrdiff_t last = -1;
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const Op& op = block.ops[i];
            const auto id = static_cast<TensorId>(t);
            const bool touched = std::count(op.reads.begin(), op.reads.end(), id) > 0 ||
                                 std::count(op.writes.begin(), op.writes.end(), id) > 0;
            if (!touched) continue;
            if (first < 0) first = static_cast<std::ptrdiff_t>(i);
            last = static_cast<std::ptrdiff_t>(i);
        }
        if (first < 0) continue;
        change[static_cast<std::size_t>(first)] += block.tensors[t].bytes();
        change[static_cast<std::size_t>(last) + 1] -= block.tensors[t].bytes();
    }
    const Op* fullest = block.ops.empty() ? nullptr : &block.ops.front();
    std::int64_t live = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        live += change[i];
        if (live > most) {
            most = live;
            fullest = &block.ops[i];
        }
    }
    return fullest;
}

// Calls visit(step, bytes by category) for each step, scratch of the step's blocks included.
template <typename Visit>
void for_each_step(const Plan& plan, const Program& program, Visit visit) {
    using Bytes = std::array<std::int64_t, kMemoryCategories>;
    std::vector<Bytes> change(program.steps.size() + 1, Bytes{});
    for (std::size_t i = 0; i < program.residents.size(); ++i) {
        const auto id = static_cast<std::int32_t>(i);
        if (id == program.scratch || id == program.beside_scratch || id == program.recomputed)
            continue;
        const Resident& resident = program.residents[i];
        if (resident.tier != Tier::device || resident.within >= 0) continue;
        const auto category = static_cast<std::size_t>(resident.category);
        change[static_cast<std::size_t>(resident.first_step)][category] += resident.bytes;
        change[static_cast<std::size_t>(resident.last_step) + 1][category] -= resident.bytes;
    }
    std::vector<std::int64_t> scratch;
    scratch.reserve(program.procedures.size());
    for (const Procedure& procedure : program.procedures)
        scratch.push_back(scratch_peak(plan, procedure).bytes);
    Bytes live{};
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
        for (std::size_t c = 0; c < kMemoryCategories; ++c)
            live[c] += change[s][c];
        Bytes now = live;
        // With those of a step that it is issued in turns with.
        const bool with_next = s + 1 < program.steps.size() && program.steps[s + 1].beside_last;
        const std::size_t first = program.steps[s].beside_last ? s - 1 : s;
        for (std::size_t of = first; of <= (with_next ? s + 1 : s); ++of) {
            const std::int32_t procedure = program.steps[of].procedure;
            if (procedure >= 0)
                now[static_cast<std::size_t>(MemoryCategory::activations)] +=
                    scratch[static_cast<std::size_t>(procedure)];
            if (program.recomputed >= 0 && makes_input_gradient(program.steps[of].action.kind))
                now[static_cast<std::size_t>(MemoryCategory::activations)] +=
                    program.residents[static_cast<std::size_t>(program.recomputed)].bytes;
        }
        visit(s, now);
    }
}

std::string describe(const Plan& plan, const Program& program, std::size_t step) {
    std::string text = to_text(program.steps[step].action);
    const std::int32_t id = program.steps[step].procedure;
    if (id < 0) return text;
    const Procedure& procedure = program.procedures[static_cast<std::size_t>(id)];
    const ScratchPeak peak = scratch_peak(plan, procedure);
    if (peak.use < 0) return text;
    const BlockUse& use = procedure.uses[static_cast<std::size_t>(peak.use)];
    const Op* op = fullest_op(plan.blocks[static_cast<std::size_t>(use.block)]);
    return op == nullptr ? text : text + " " + op->label;
}

}  // namespace

MemoryPeak memory_peak(const Plan& plan, const Program& program) {
    MemoryPeak peak;
    for_each_step(plan, program, [&](std::size_t step, const auto& bytes) {
        std::int64_t live = 0;
        for (std::int64_t b : bytes)
            live += b;
        if (live <= peak.live) return;
        peak.live = live;
        peak.bytes = bytes;
        peak.step = static_cast<std::int32_t>(step);
    });
    peak.at = describe(plan, program, static_cast<std::size_t>(peak.step));
    return peak;
}

std::vector<std::int64_t> live_bytes_by_step(const Plan& plan, const Program& program) {
    std::vector<std::int64_t> live;
    live.reserve(program.steps.size());
    for_each_step(plan, program, [&](std::size_t, const auto& bytes) {
        std::int64_t sum = 0;
        for (std::int64_t b : bytes)
            sum += b;
        live.push_back(sum);
    });
    return live;
}

}  // namespace orrery::plan
