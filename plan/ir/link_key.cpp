#include "plan/ir/link_key.hpp"

namespace orrery::plan {
namespace {

// Two numbers in one.
std::uint64_t both(std::int64_t high, std::int64_t low) {
    return static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint32_t>(low);
}

void add_ids(const std::vector<std::int32_t>& ids, Digest& key) {
    key.add(ids.size());
    for (std::size_t i = 0; i + 1 < ids.size(); i += 2)
        key.add(both(ids[i], ids[i + 1]));
    if (ids.size() % 2 == 1) key.add(static_cast<std::uint64_t>(ids.back()));
}

// What orders its ops among themselves (order.hpp), and which of them are exchanges of rows.
void add_block(const Block& block, Digest& key) {
    key.add(both(std::ssize(block.ops), std::ssize(block.tensors)));
    for (const Op& op : block.ops) {
        key.add(both(static_cast<std::int64_t>(op.stream), op.is<AllToAllV>() ? 1 : 0));
        add_ids(op.reads, key);
        add_ids(op.writes, key);
        add_ids(op.after, key);
    }
    std::uint64_t scratch = 0;  // a bit for each tensor, 32 at a time
    for (std::size_t t = 0; t < block.tensors.size(); ++t) {
        scratch = scratch << 1 | (block.tensors[t].role == Role::scratch ? 1U : 0U);
        if (t % 32 == 31) key.add(scratch);
    }
    key.add(scratch);
    key.add(block.reuse.size());
    for (const ReuseEdge& edge : block.reuse)
        key.add(both(edge.earlier, edge.later));
}

void add_use(const BlockUse& use, Digest& key) {
    key.add(both(use.block, use.fence ? 1 : 0));
    key.add(use.slots.size());
    for (const Slot& slot : use.slots)
        key.add(both(slot.resident, slot.piece * static_cast<std::int64_t>(kFrames) +
                                        static_cast<std::int64_t>(slot.frame)));
}

void add_step(const Plan& plan, const Program& program, const Step& step, Digest& key) {
    key.add(both(step.procedure, (step.after_transfers ? 1 : 0) + (step.beside_last ? 2 : 0)));
    key.add(both(step.stash, step.kept));
    key.add(both(step.deferred, step.received));
    key.add(both(step.input, step.output));
    key.add(both(step.stored, std::ssize(step.transfers)));
    if (step.procedure < 0) key.add(static_cast<std::uint64_t>(plan.exchange_of(program, step)));
    for (const Transfer& transfer : step.transfers)
        key.add(both(transfer.resident, is_send(transfer.action.kind) ? 1 : 0));
}

void add_program(const Plan& plan, const Program& program, Digest& key) {
    key.add(both(program.scratch, program.beside_scratch));
    key.add(program.residents.size());
    for (const Resident& resident : program.residents) {
        key.add(both(resident.first_step, resident.last_step));
        key.add(both(resident.within, resident.turns));
        add_ids(resident.reuses, key);
    }
    key.add(program.procedures.size());
    for (const Procedure& procedure : program.procedures) {
        key.add(procedure.uses.size());
        for (const BlockUse& use : procedure.uses)
            add_use(use, key);
    }
    key.add(program.steps.size());
    for (const Step& step : program.steps)
        add_step(plan, program, step, key);
}

}  // namespace

Digest link_key(const Plan& plan) {
    Digest key;
    key.add(plan.blocks.size());
    for (const Block& block : plan.blocks)
        add_block(block, key);
    key.add(plan.programs.size());
    for (const Program& program : plan.programs)
        add_program(plan, program, key);
    return key;
}

}  // namespace orrery::plan
