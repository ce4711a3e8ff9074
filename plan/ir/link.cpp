#include "plan/ir/link.hpp"

#include <algorithm>
#include <utility>

namespace orrery::plan {
namespace {

// Pieces of memory whose accesses are ordered: those that the slots tell apart in each resident; of
// what takes turns each copy.
class Linker {
  public:
    Linker(const Plan& plan, const Program& program)
        : plan_(plan), program_(program), first_op_(plan.first_ops()) {
        orders_.reserve(plan.blocks.size());
        for (const Block& block : plan.blocks)
            orders_.push_back(order_of(block));
        number_pieces();
    }

    LinkedProgram run(int repetitions) {
        for (repetition_ = 0; repetition_ < repetitions; ++repetition_) {
            if (repetition_ > 0) begin_again();
            link_steps();
        }
        out_.first_wait.push_back(static_cast<std::uint32_t>(out_.waits.size()));
        out_.ops_per_stream = issued_;
        return std::move(out_);
    }

  private:
    const Resident& resident(std::int32_t id) const {
        return program_.residents[static_cast<std::size_t>(id)];
    }

    void link_steps() {
        std::size_t next_birth = 0;
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            while (next_birth < births_.size() &&
                   resident(births_[next_birth]).first_step <= static_cast<std::int32_t>(s))
                take_over(births_[next_birth++]);
            const Step& step = program_.steps[s];
            step_ = static_cast<std::uint32_t>(s);
            if (step.procedure < 0) {
                link_transfers(step);
                continue;
            }
            if (s + 1 < program_.steps.size() && program_.steps[s + 1].beside_last) {
                link_pair(s++);
                continue;
            }
            const Procedure& procedure =
                program_.procedures[static_cast<std::size_t>(step.procedure)];
            const StreamCounts before = transfers_before(step);
            for (std::size_t u = 0; u < procedure.uses.size(); ++u)
                link_use(step, procedure.uses[u], before, static_cast<std::uint16_t>(u));
        }
    }

    StreamCounts transfers_before(const Step& step) const {
        StreamCounts before{};
        if (step.after_transfers)
            for (const Stream stream : {Stream::pipeline_comm, Stream::pipeline_before_comm})
                before[index_of(stream)] = issued_[index_of(stream)];
        return before;
    }

    // Whatever dies within a step may lie where anything of the step before did.
    void begin_again() {
        const auto last = static_cast<std::int32_t>(program_.steps.size()) - 1;
        auto passing = [&](std::size_t id) {
            const Resident& r = program_.residents[id];
            return r.first_step > 0 || r.last_step < last;
        };
        Accesses before;
        for (std::size_t id = 0; id < program_.residents.size(); ++id)
            for (std::int32_t p = first_piece_[id]; passing(id) && p < first_piece_[id + 1]; ++p) {
                join(before.writes, piece(p).reads);
                join(before.writes, piece(p).writes);
            }
        for (std::size_t id = 0; id < program_.residents.size(); ++id)
            for (std::int32_t p = first_piece_[id]; passing(id) && p < first_piece_[id + 1]; ++p)
                piece(p) = before;
    }

    void number_pieces() {
        std::vector<std::int32_t> parts = pieces_of_residents();
        for (std::size_t i = 0; i < parts.size(); ++i)
            parts[i] *= program_.residents[i].turns;
        std::int32_t next = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            first_piece_.push_back(next);
            next += parts[i];
            if (resident(static_cast<std::int32_t>(i)).reuses.empty()) continue;
            births_.push_back(static_cast<std::int32_t>(i));
        }
        first_piece_.push_back(next);
        pieces_.resize(static_cast<std::size_t>(next));
        std::stable_sort(births_.begin(), births_.end(), [&](std::int32_t a, std::int32_t b) {
            return resident(a).first_step < resident(b).first_step;
        });
    }

    // How many pieces the slots tell apart.
    std::vector<std::int32_t> pieces_of_residents() const {
        std::vector<std::int32_t> parts(program_.residents.size(), 1);
        const auto note = [&](std::int32_t id, std::int32_t count) {
            if (id < 0) return;
            auto& of = parts[static_cast<std::size_t>(id)];
            of = std::max(of, count);
        };
        std::vector<std::array<std::int32_t, kFrames>> most;  // by procedure, of frames of steps
        for (const Procedure& procedure : program_.procedures) {
            auto& of = most.emplace_back();
            for (const BlockUse& use : procedure.uses)
                for (const Slot& slot : use.slots) {
                    if (slot.frame == Frame::resident) note(slot.resident, slot.piece + 1);
                    auto& count = of[static_cast<std::size_t>(slot.frame)];
                    count = std::max(count, slot.piece + 1);
                }
        }
        for (const Step& step : program_.steps)
            for (std::size_t f = 0; step.procedure >= 0 && f < kFrames; ++f)
                note(step.resident(static_cast<Frame>(f)),
                     most[static_cast<std::size_t>(step.procedure)][f]);
        return parts;
    }

    // Memory that changes hands: the new owner's first access follows all accesses of the old. They
    // count as writes, so that a first access that only reads (tokens, which the host put there)
    // follows them too.
    void take_over(std::int32_t id) {
        Accesses before;
        for (std::int32_t old : resident(id).reuses)
            for (std::int32_t p = first_piece(old); p < first_piece(old + 1); ++p) {
                join(before.writes, piece(p).reads);
                join(before.writes, piece(p).writes);
            }
        for (std::int32_t p = first_piece(id); p < first_piece(id + 1); ++p)
            piece(p) = before;
    }

    std::int32_t first_piece(std::int32_t id) const {
        return first_piece_[static_cast<std::size_t>(id)];
    }
    Accesses& piece(std::int32_t index) { return pieces_[static_cast<std::size_t>(index)]; }

    // The piece of memory behind a tensor that outlives its block.
    std::int32_t piece_of(const Step& step, const BlockUse& use, TensorId id) const {
        const Slot& slot = use.slots[static_cast<std::size_t>(id)];
        const std::int32_t home = step.resident(slot);
        const Resident& resident = this->resident(home);
        return first_piece(resident.within >= 0 ? resident.within : home) +  // whoever has its turn
               slot.piece + repetition_ % resident.turns;
    }

    void read(std::int32_t index, StreamCounts& waits) { join(waits, piece(index).writes); }
    void write(std::int32_t index, StreamCounts& waits) {
        join(waits, piece(index).writes);
        join(waits, piece(index).reads);
    }

    void push(std::uint32_t op, Stream stream, StreamCounts waits, std::uint16_t use) {
        const std::size_t own = index_of(stream);
        out_.op.push_back(op);
        out_.step.push_back(step_);
        out_.use.push_back(use);
        out_.first_wait.push_back(static_cast<std::uint32_t>(out_.waits.size()));
        for (std::size_t s = 0; s < kStreams; ++s) {
            if (s == own || waits[s] <= waited_[own][s]) continue;
            waited_[own][s] = waits[s];
            out_.waits.push_back({waits[s], static_cast<Stream>(s)});
        }
        ++issued_[own];
    }

    void link_transfers(const Step& step) {
        StreamCounts waits{};
        const auto block = static_cast<std::size_t>(plan_.exchange_of(program_, step));
        const Stream stream = plan_.blocks[block].ops.front().stream;
        const std::size_t own = index_of(stream);
        for (const Transfer& transfer : step.transfers) {
            const std::int32_t index = first_piece(transfer.resident);
            is_send(transfer.action.kind) ? read(index, waits) : write(index, waits);
        }
        push(first_op_[block], stream, waits, 0);
        for (const Transfer& transfer : step.transfers) {
            Accesses& access = piece(first_piece(transfer.resident));
            (is_send(transfer.action.kind) ? access.reads : access.writes)[own] = issued_[own];
        }
    }

    // A use of a block, some of whose ops may be written out.
    struct Begun {
        std::size_t block = 0;
        StreamCounts base{};  // issued before it
        Accesses scratch_before;
        std::array<bool, kStreams> scratch_ordered{};
        std::size_t next_outside = 0;
        std::int32_t scratch = -1;
        // Of a use whose ops take turns with others': by stream, what was issued with each of its
        // own.
        bool in_turns = false;
        std::array<std::vector<std::uint32_t>, kStreams> issued;
    };

    Begun begin_use(const Step& step, const BlockUse& use) {
        Begun begun;
        begun.block = static_cast<std::size_t>(use.block);
        begun.base = issued_;
        begun.scratch = first_piece(step.beside_last ? program_.beside_scratch : program_.scratch);
        begun.scratch_before = piece(begun.scratch);
        return begun;
    }

    // So many of its own ops on a stream have ended.
    static std::uint32_t own_count(const Begun& begun, std::size_t s, std::uint32_t count) {
        return begun.in_turns ? begun.issued[s][count - 1] : begun.base[s] + count;
    }

    void link_op(const Step& step, const BlockUse& use, Begun& begun, std::size_t i,
                 const StreamCounts& before, std::uint16_t use_index) {
        const Block& block = plan_.blocks[begun.block];
        const BlockOrder& order = orders_[begun.block];
        const std::size_t own = index_of(block.ops[i].stream);
        StreamCounts waits{};
        for (std::size_t s = 0; s < kStreams; ++s)
            if (order.waits[i][s] > 0) waits[s] = own_count(begun, s, order.waits[i][s]);
        if (use.fence) join(waits, begun.base);
        if (step.after_transfers) join(waits, before);
        if (order.touches_scratch[i] && !begun.scratch_ordered[own]) {
            begun.scratch_ordered[own] = true;
            join(waits, begun.scratch_before.writes);
        }
        pieces_of_op_.clear();
        const std::size_t first_outside = begun.next_outside;
        for (; begun.next_outside < order.outside.size() &&
               order.outside[begun.next_outside].op == static_cast<std::int32_t>(i);
             ++begun.next_outside)
            before_access(step, use, order.outside[begun.next_outside], begun.base, waits);
        push(first_op_[begun.block] + static_cast<std::uint32_t>(i), block.ops[i].stream, waits,
             use_index);
        for (std::size_t k = first_outside; k < begun.next_outside; ++k)
            note_access(order.outside[k], pieces_of_op_[k - first_outside], own);
        if (order.touches_scratch[i]) piece(begun.scratch).writes[own] = issued_[own];
        if (begun.in_turns) begun.issued[own].push_back(issued_[own]);
    }

    void link_use(const Step& step, const BlockUse& use, const StreamCounts& before,
                  std::uint16_t use_index) {
        Begun begun = begin_use(step, use);
        const std::size_t ops = plan_.blocks[begun.block].ops.size();
        for (std::size_t i = 0; i < ops; ++i)
            link_op(step, use, begun, i, before, use_index);
    }

    // A step of which turns are issued.
    struct InTurns {
        std::uint32_t number = 0;
        const Step& step;
        const Procedure& procedure;
        StreamCounts before{};
        std::size_t use = 0, op = 0;
        Begun begun{};

        bool left() const { return use < procedure.uses.size(); }
    };

    InTurns in_turns(std::size_t number) {
        const Step& step = program_.steps[number];
        return {static_cast<std::uint32_t>(number), step,
                program_.procedures[static_cast<std::size_t>(step.procedure)],
                transfers_before(step)};
    }

    // To the end of its next exchange of experts' rows.
    void take_turn(InTurns& of) {
        step_ = of.number;
        while (of.left()) {
            const BlockUse& use = of.procedure.uses[of.use];
            if (of.op == 0) {
                of.begun = begin_use(of.step, use);
                of.begun.in_turns = true;
            }
            const std::vector<Op>& ops = plan_.blocks[of.begun.block].ops;
            bool exchanged = false;
            while (of.op < ops.size() && !exchanged) {
                link_op(of.step, use, of.begun, of.op, of.before,
                        static_cast<std::uint16_t>(of.use));
                exchanged = ops[of.op].is<AllToAllV>() &&
                            (of.op + 1 == ops.size() || !ops[of.op + 1].is<AllToAllV>());
                ++of.op;
            }
            if (of.op == ops.size()) {
                of.op = 0;
                ++of.use;
            }
            if (exchanged) return;
        }
    }

    // A forward step and the backward step behind it. Backward goes first: what it begins with, the
    // forward step's attention runs beside.
    void link_pair(std::size_t forward) {
        InTurns first = in_turns(forward + 1), second = in_turns(forward);
        while (first.left() || second.left()) {
            take_turn(first);
            take_turn(second);
        }
    }

    // Accesses by earlier blocks; those within the block are in its order already.
    void before_access(const Step& step, const BlockUse& use, const OutsideAccess& access,
                       const StreamCounts& base, StreamCounts& waits) {
        const std::int32_t index = piece_of(step, use, access.tensor);
        pieces_of_op_.push_back(index);
        const Accesses& at = piece(index);
        for (std::size_t s = 0; s < kStreams; ++s) {
            std::uint32_t count = at.writes[s];
            if (access.writes && at.reads[s] > count) count = at.reads[s];
            if (count > base[s]) count = base[s];
            if (count > waits[s]) waits[s] = count;
        }
    }

    void note_access(const OutsideAccess& access, std::int32_t index, std::size_t own) {
        Accesses& into = piece(index);
        (access.writes ? into.writes : into.reads)[own] = issued_[own];
    }

    const Plan& plan_;
    const Program& program_;
    std::vector<std::uint32_t> first_op_;
    std::vector<BlockOrder> orders_;
    std::vector<std::int32_t> first_piece_;
    std::vector<std::int32_t> births_;  // residents that take memory over, by birth
    std::vector<Accesses> pieces_;
    std::vector<std::int32_t> pieces_of_op_;  // that the op at hand accesses, in order
    StreamCounts issued_{};
    std::array<StreamCounts, kStreams> waited_{};  // what each stream is known to follow
    std::uint32_t step_ = 0;
    int repetition_ = 0;
    LinkedProgram out_;
};

}  // namespace

LinkedProgram link(const Plan& plan, const Program& program, int repetitions) {
    return Linker(plan, program).run(repetitions);
}

}  // namespace orrery::plan
