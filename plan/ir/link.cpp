#include "plan/ir/link.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "plan/ir/linked_orders.hpp"

namespace orrery::plan {
namespace {

// Those that ops of a plan are on, in order.
std::vector<Stream> streams_in_use(const Plan& plan) {
    std::uint32_t used = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            used |= 1U << index_of(op.stream);
    std::vector<Stream> streams;
    for (std::size_t s = 0; s < kStreams; ++s)
        if (((used >> s) & 1U) != 0) streams.push_back(static_cast<Stream>(s));
    return streams;
}

// Of experts' rows.
bool ends_exchange_of_rows(const std::vector<Op>& ops, std::size_t i) {
    return ops[i].is<AllToAllV>() && (i + 1 == ops.size() || !ops[i + 1].is<AllToAllV>());
}

std::size_t ops_of(const Plan& plan, const Program& program) {
    std::vector<std::size_t> of_procedure;
    for (const Procedure& procedure : program.procedures) {
        std::size_t& ops = of_procedure.emplace_back();
        for (const BlockUse& use : procedure.uses)
            ops += plan.blocks[static_cast<std::size_t>(use.block)].ops.size();
    }
    std::size_t ops = 0;
    for (const Step& step : program.steps)
        ops += step.procedure < 0 ? 1 : of_procedure[static_cast<std::size_t>(step.procedure)];
    return ops;
}

// Pieces of memory whose accesses are ordered: those that the slots tell apart in each resident; of
// what takes turns each copy. Streams are numbered among those in use, of which there are at most
// `width`: every op goes over all of them, several times. A Count holds all ops of the program.
template <typename Count, std::size_t width>
class Linker {
  public:
    Linker(const Plan& plan, const Program& program, Orders<Count, width>& orders)
        : plan_(plan),
          program_(program),
          orders_(orders),
          streams_(orders.streams()),
          first_op_(plan.first_ops()) {
        for (std::size_t s = 0; s < width; ++s)
            waited_[s][s] = std::numeric_limits<Count>::max();  // in order anyway
        number_pieces();
    }

    LinkedProgram run(int repetitions) {
        make_room(static_cast<std::size_t>(repetitions));
        for (repetition_ = 0; repetition_ < repetitions; ++repetition_) {
            if (repetition_ > 0) begin_again();
            find_residents();
            link_steps();
        }
        out_.first_wait[next_] = static_cast<std::uint32_t>(out_.waits.size());
        for (std::size_t s = 0; s < streams_.size(); ++s)
            out_.ops_per_stream[index_of(streams_[s])] = static_cast<std::uint32_t>(issued_[s]);
        return std::move(out_);
    }

  private:
    using Counts = std::array<Count, width>;
    using Order = typename Orders<Count, width>::Order;

    struct Reached {
        Counts reads{}, writes{};
        bool written = false;  // else nothing waits for its writes
    };

    static void raise(Counts& into, const Counts& other) {
        for (std::size_t s = 0; s < width; s += kAtOnce<Count>)
            put_vector(larger(vector_at(&into[s]), vector_at(&other[s])), &into[s]);
    }

    const Resident& resident(std::int32_t id) const {
        return program_.residents[static_cast<std::size_t>(id)];
    }
    const Procedure& procedure_of(const Step& step) const {
        return program_.procedures[static_cast<std::size_t>(step.procedure)];
    }

    void make_room(std::size_t repetitions) {
        const std::size_t ops = repetitions * ops_of(plan_, program_);
        out_.op.resize(ops);
        out_.first_wait.resize(ops + 1);
        out_.step.resize(ops);
        out_.use.resize(ops);
        out_.waits.reserve(ops);
    }

    // A step, and what its ops look up of it.
    struct StepAt {
        const Step& step;
        std::uint32_t number = 0;
        Counts before{};                            // transfers that have been issued
        std::array<std::int32_t, kFrames> frame{};  // the first piece of what each is in
    };

    StepAt step_at(std::size_t number) const {
        const Step& step = program_.steps[number];
        StepAt at{step, static_cast<std::uint32_t>(number), {}, {}};
        if (step.after_transfers)
            for (std::size_t s = 0; s < streams_.size(); ++s)
                if (streams_[s] == Stream::pipeline_comm ||
                    streams_[s] == Stream::pipeline_before_comm)
                    at.before[s] = issued_[s];
        for (std::size_t f = 0; f < kFrames; ++f)
            if (const std::int32_t home = step.resident(static_cast<Frame>(f)); home >= 0)
                at.frame[f] = now_at_[static_cast<std::size_t>(home)];
        return at;
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
            const StepAt at = step_at(s);
            const Procedure& procedure = procedure_of(step);
            for (std::size_t u = 0; u < procedure.uses.size(); ++u)
                link_use(at, procedure.uses[u], static_cast<std::uint16_t>(u));
        }
    }

    // Whatever dies within a step may lie where anything of the step before did.
    void begin_again() {
        const auto last = static_cast<std::int32_t>(program_.steps.size()) - 1;
        auto passing = [&](std::size_t id) {
            const Resident& r = program_.residents[id];
            return r.first_step > 0 || r.last_step < last;
        };
        Reached before;
        before.written = true;
        for (std::size_t id = 0; id < program_.residents.size(); ++id)
            for (std::int32_t p = first_piece_[id]; passing(id) && p < first_piece_[id + 1]; ++p) {
                raise(before.writes, piece(p).reads);
                raise(before.writes, piece(p).writes);
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

    // Where each resident's pieces begin in this step: those of whoever has its turn.
    void find_residents() {
        now_at_.resize(program_.residents.size());
        for (std::size_t id = 0; id < now_at_.size(); ++id) {
            const Resident& of = program_.residents[id];
            const auto home = of.within >= 0 ? static_cast<std::size_t>(of.within) : id;
            now_at_[id] = first_piece_[home] + (of.turns == 1 ? 0 : repetition_ % of.turns);
        }
    }

    // Memory that changes hands: the new owner's first access follows all accesses of the old. They
    // count as writes, so that a first access that only reads (tokens, which the host put there)
    // follows them too.
    void take_over(std::int32_t id) {
        Reached before;
        before.written = true;
        for (std::int32_t old : resident(id).reuses)
            for (std::int32_t p = first_piece(old); p < first_piece(old + 1); ++p) {
                raise(before.writes, piece(p).reads);
                raise(before.writes, piece(p).writes);
            }
        for (std::int32_t p = first_piece(id); p < first_piece(id + 1); ++p)
            piece(p) = before;
    }

    std::int32_t first_piece(std::int32_t id) const {
        return first_piece_[static_cast<std::size_t>(id)];
    }
    Reached& piece(std::int32_t index) { return pieces_[static_cast<std::size_t>(index)]; }

    // The piece of memory behind a tensor that outlives its block.
    std::int32_t piece_of(const StepAt& at, const BlockUse& use, TensorId id) const {
        const Slot& slot = use.slots[static_cast<std::size_t>(id)];
        return slot.piece + (slot.frame == Frame::resident
                                 ? now_at_[static_cast<std::size_t>(slot.resident)]
                                 : at.frame[static_cast<std::size_t>(slot.frame)]);
    }

    void push(std::uint32_t op, std::size_t own, const Counts& waits, std::uint16_t use) {
        out_.op[next_] = op;
        out_.step[next_] = step_;
        out_.use[next_] = use;
        out_.first_wait[next_] = static_cast<std::uint32_t>(out_.waits.size());
        ++next_;
        ++issued_[own];
        Counts& waited = waited_[own];
        for (std::size_t s = 0; s < width; s += kAtOnce<Count>) {
            const Vector<Count> more = vector_at(&waits[s]) > vector_at(&waited[s]);
            std::array<std::uint64_t, 2> any;
            std::memcpy(any.data(), &more, sizeof more);
            if ((any[0] | any[1]) == 0) continue;
            for (std::size_t k = s; k < s + kAtOnce<Count>; ++k) {
                if (waits[k] <= waited[k]) continue;
                waited[k] = waits[k];
                out_.waits.push_back({static_cast<std::uint32_t>(waits[k]), streams_[k]});
            }
        }
    }

    void link_transfers(const Step& step) {
        Counts waits{};
        const auto block = static_cast<std::size_t>(plan_.exchange_of(program_, step));
        const std::size_t own = orders_.number_of(plan_.blocks[block].ops.front().stream);
        for (const Transfer& transfer : step.transfers) {
            const Reached& at = piece(first_piece(transfer.resident));
            raise(waits, at.writes);
            if (!is_send(transfer.action.kind)) raise(waits, at.reads);
        }
        push(first_op_[block], own, waits, 0);
        for (const Transfer& transfer : step.transfers)
            note(piece(first_piece(transfer.resident)), !is_send(transfer.action.kind), own,
                 issued_[own]);
    }

    // A use of a block, some of whose ops may be written out.
    struct Begun {
        const Order* order = nullptr;
        std::uint32_t first_op = 0;
        Counts base{};                      // issued before it
        Counts scratch_before{};            // what its scratch was last touched by
        std::uint32_t scratch_ordered = 0;  // a bit per stream
        std::int32_t scratch = -1;
        // Of a use whose ops take turns with others': by stream, what was issued with each of its
        // own.
        bool in_turns = false;
        std::array<std::vector<Count>, width> issued;
    };

    void begin_use(const Step& step, const BlockUse& use, Begun& begun) {
        const auto block = static_cast<std::size_t>(use.block);
        begun.order = &orders_.of(block);
        begun.first_op = first_op_[block];
        begun.base = issued_;
        begun.scratch = first_piece(step.beside_last ? program_.beside_scratch : program_.scratch);
        begun.scratch_before = piece(begun.scratch).writes;
        begun.scratch_ordered = 0;
    }

    // When so many of the use's own ops on each stream have ended.
    static void follow_own(const Begun& begun, const Counts& own, Counts& waits) {
        if (begun.in_turns)
            for (std::size_t s = 0; s < width; ++s)
                waits[s] = own[s] > 0 ? begun.issued[s][static_cast<std::size_t>(own[s]) - 1] : 0;
        else
            for (std::size_t s = 0; s < width; s += kAtOnce<Count>) {
                const Vector<Count> counts = vector_at(&own[s]);
                put_vector(counts > 0 ? counts + vector_at(&begun.base[s]) : counts, &waits[s]);
            }
    }

    void link_op(const StepAt& at, const BlockUse& use, Begun& begun, std::size_t i,
                 std::uint16_t use_index) {
        const auto& of = begun.order->ops[i];
        const std::size_t own = of.stream;
        Counts waits;
        follow_own(begun, of.waits, waits);
        if (use.fence) raise(waits, begun.base);
        if (at.step.after_transfers) raise(waits, at.before);
        if (of.touches_scratch && ((begun.scratch_ordered >> own) & 1U) == 0) {
            begun.scratch_ordered |= 1U << own;
            raise(waits, begun.scratch_before);
        }
        // Noted before the op is issued: what it would wait for of itself is on its own stream.
        const auto number = static_cast<Count>(issued_[own] + 1);
        const OutsideAccess* const outside = begun.order->outside.data();
        for (std::uint32_t k = of.first_outside; k < of.end_outside; ++k) {
            Reached& reached = piece(piece_of(at, use, outside[k].tensor));
            if (outside[k].writes)
                before_write(reached, begun.base, waits);
            else if (reached.written)
                before_read(reached, begun.base, waits);
            note(reached, outside[k].writes, own, number);
        }
        if (of.touches_scratch) note(piece(begun.scratch), true, own, number);
        push(begun.first_op + static_cast<std::uint32_t>(i), own, waits, use_index);
        if (begun.in_turns) begun.issued[own].push_back(issued_[own]);
    }

    void link_use(const StepAt& at, const BlockUse& use, std::uint16_t use_index) {
        begin_use(at.step, use, begun_);
        for (std::size_t i = 0; i < begun_.order->ops.size(); ++i)
            link_op(at, use, begun_, i, use_index);
    }

    // A step of which turns are issued.
    struct InTurns {
        StepAt at;
        const Procedure& procedure;
        std::size_t use = 0, op = 0;
        Begun begun{};

        bool left() const { return use < procedure.uses.size(); }
    };

    InTurns in_turns(std::size_t number) {
        return {step_at(number), procedure_of(program_.steps[number])};
    }

    // To the end of its next exchange of experts' rows.
    void take_turn(InTurns& of) {
        step_ = of.at.number;
        while (of.left()) {
            const BlockUse& use = of.procedure.uses[of.use];
            if (of.op == 0) {
                of.begun = {};
                begin_use(of.at.step, use, of.begun);
                of.begun.in_turns = true;
            }
            const std::vector<Op>& ops = plan_.blocks[static_cast<std::size_t>(use.block)].ops;
            bool exchanged = false;
            while (of.op < ops.size() && !exchanged) {
                link_op(of.at, use, of.begun, of.op, static_cast<std::uint16_t>(of.use));
                exchanged = ends_exchange_of_rows(ops, of.op);
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
    static void before_read(const Reached& reached, const Counts& base, Counts& waits) {
        for (std::size_t s = 0; s < width; s += kAtOnce<Count>)
            put_vector(larger(vector_at(&waits[s]),
                              smaller(vector_at(&reached.writes[s]), vector_at(&base[s]))),
                       &waits[s]);
    }
    static void before_write(const Reached& reached, const Counts& base, Counts& waits) {
        for (std::size_t s = 0; s < width; s += kAtOnce<Count>) {
            const Vector<Count> both =
                larger(vector_at(&reached.writes[s]), vector_at(&reached.reads[s]));
            put_vector(larger(vector_at(&waits[s]), smaller(both, vector_at(&base[s]))), &waits[s]);
        }
    }

    // The access of an op: this one of stream `own`.
    static void note(Reached& reached, bool writes, std::size_t own, Count number) {
        reached.written |= writes;
        (writes ? reached.writes : reached.reads)[own] = number;
    }

    const Plan& plan_;
    const Program& program_;
    Orders<Count, width>& orders_;
    const std::vector<Stream>& streams_;  // in use
    std::vector<std::uint32_t> first_op_;
    std::vector<std::int32_t> first_piece_;
    std::vector<std::int32_t> now_at_;  // by resident
    std::vector<std::int32_t> births_;  // residents that take memory over, by birth
    std::vector<Reached> pieces_;
    Counts issued_{};
    std::array<Counts, width> waited_{};  // what each stream is known to follow
    std::size_t next_ = 0;                // op
    std::uint32_t step_ = 0;
    int repetition_ = 0;
    Begun begun_;
    LinkedProgram out_;
};

template <typename Count, std::size_t width>
std::vector<LinkedProgram> linked(const Plan& plan, std::span<const Program> programs,
                                  const std::vector<Stream>& streams, int repetitions) {
    Orders<Count, width> orders(plan, streams);
    std::vector<LinkedProgram> all;
    for (const Program& program : programs)
        all.push_back(Linker<Count, width>(plan, program, orders).run(repetitions));
    return all;
}

std::vector<LinkedProgram> linked(const Plan& plan, std::span<const Program> programs,
                                  int repetitions) {
    std::size_t most = 0;
    for (const Program& program : programs)
        most = std::max(most, static_cast<std::size_t>(repetitions) * ops_of(plan, program));
    const bool few = most < std::numeric_limits<std::int16_t>::max();
    const std::vector<Stream> streams = streams_in_use(plan);
    static_assert(kStreams <= 16);
    const auto with =
        few ? (streams.size() <= 8 ? linked<std::int16_t, 8> : linked<std::int16_t, 16>)
            : (streams.size() <= 4   ? linked<std::int32_t, 4>
               : streams.size() <= 8 ? linked<std::int32_t, 8>
                                     : linked<std::int32_t, 16>);
    return with(plan, programs, streams, repetitions);
}

}  // namespace

LinkedProgram link(const Plan& plan, const Program& program, int repetitions) {
    return std::move(linked(plan, {&program, 1}, repetitions).front());
}

std::vector<LinkedProgram> link_all(const Plan& plan, int repetitions) {
    return linked(plan, plan.programs, repetitions);
}

}  // namespace orrery::plan
