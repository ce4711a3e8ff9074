#include "runtime/executor/bound_program.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "plan/check.hpp"
#include "plan/ir/accumulates.hpp"
#include "plan/ir/turns.hpp"
#include "plan/memory/address.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::runtime {
namespace {

using plan::Block;
using plan::BlockUse;
using plan::Op;
using plan::Role;
using plan::Step;
using plan::Tensor;
using plan::TensorId;

class Binder {
  public:
    Binder(const plan::Plan& plan, const plan::Program& program, plan::Rank rank,
           plan::LinkedProgram linked)
        : plan_(plan),
          program_(program),
          rank_(rank),
          addresses_(plan, program, rank),
          touched_(program.residents.size()) {
        out_.linked = std::move(linked);
        out_.arena_bytes = program.arena_bytes;
        out_.host_bytes = program.host_bytes;
        out_.disk_bytes = program.disk_bytes;
        out_.buckets = program.buckets;
        out_.residents = program.residents;
        for (std::size_t id = 0; id < out_.residents.size(); ++id)
            out_.residents[id].offset = plan::address_of(program, static_cast<std::int32_t>(id));
        out_.spare = {program.workspace, program.frames[0], program.frames[1]};
        const plan::Resident& workspace =
            program.residents[static_cast<std::size_t>(program.workspace)];
        out_.workspace = {workspace.offset, workspace.bytes};
        for (const auto* ring : {&program.parameter_ring, &program.gradient_ring})
            out_.spare.insert(ring->begin(), ring->end());
        out_.at = plan.mesh.coordinates(rank);
        out_.mesh = plan.mesh;
        out_.tokens = plan.tokens;
        for (const plan::Bucket& bucket : program.buckets) {
            out_.entries.push_back(plan::bucket_entries(plan.blocks, program, bucket));
            out_.share.push_back(
                bucket.shares.empty() ? 0 : addresses_.member(bucket.shares.front().group));
        }
        find_scalars();
        if (out_.scalars.empty()) out_.spare.insert(program.scalars);
        for (std::size_t b = 0; b < plan.blocks.size(); ++b)
            for (std::size_t i = 0; i < plan.blocks[b].ops.size(); ++i)
                numbered_.push_back({&plan.blocks[b], &plan.blocks[b].ops[i]});
    }

    BoundProgram run() {
        const std::size_t ops = out_.linked.size();
        for (std::size_t id = 0; id < ops; ++id)
            bind(id);
        set_spans();
        set_validation();
        return std::move(out_);
    }

  private:
    // Indices into the backing, until that has grown to its size.
    struct Range {
        std::size_t reads = 0, writes = 0, end = 0;
        std::size_t transfers = 0, births = 0;
    };

    // Where the blocks of the program find each scalar.
    void find_scalars() {
        for (const plan::Procedure& procedure : program_.procedures)
            for (const BlockUse& use : procedure.uses) {
                const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
                for (std::size_t t = 0; t < block.tensors.size(); ++t)
                    if (block.tensors[t].role == Role::scalar &&
                        use.slots[t].frame != plan::Frame::none)
                        out_.scalars[block.tensors[t].name] =
                            addresses_.at({program_.scalars, use.slots[t].offset});
            }
    }

    void bind(std::size_t id) {
        const Step& step = program_.steps[out_.linked.step[id]];
        BoundOp bound;
        std::tie(bound.block, bound.op) = numbered_[out_.linked.op[id]];
        bound.micro_batch = step.action.micro_batch;
        Range range;
        range.reads = out_.operands.size();
        range.transfers = out_.transfers.size();
        range.births = out_.births.size();
        if (step.procedure < 0) {
            bind_transfers(step);
            range.writes = out_.operands.size();
        } else {
            const BlockUse& use = program_.procedures[static_cast<std::size_t>(step.procedure)]
                                      .uses[out_.linked.use[id]];
            bound.layer = use.layer;
            bound.bucket = use.bucket;
            for (TensorId tensor : bound.op->reads)
                out_.operands.push_back(operand(step, use, *bound.block, tensor));
            range.writes = out_.operands.size();
            for (TensorId tensor : bound.op->writes)
                out_.operands.push_back(operand(step, use, *bound.block, tensor));
            bound.accumulates = adds(step, use, *bound.block, *bound.op);
            feed(step, use, bound);
        }
        range.end = out_.operands.size();
        ranges_.push_back(range);
        out_.ops.push_back(bound);
    }

    Operand operand(const Step& step, const BlockUse& use, const Block& block, TensorId id) {
        const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        const plan::Place place = addresses_.place(step, use, id);
        touch(place.resident, place.offset, tensor.bytes());
        return located({addresses_.at(place), tensor.elements(), tensor.dtype}, place);
    }

    Operand located(Operand operand, const plan::Place& place) {
        const plan::Resident& resident =
            program_.residents[static_cast<std::size_t>(place.resident)];
        ORRERY_CHECK(place.offset >= 0 && place.offset + operand.bytes() <= resident.bytes,
                     "a tensor lies within " + resident.name);
        if (resident.tier == plan::Tier::device)
            out_.high_water_bytes =
                std::max(out_.high_water_bytes, plan::aligned(operand.offset + operand.bytes()));
        return operand;
    }

    // What is first touched of a resident is allocated then, and not all of it: another stream may
    // touch the rest at the same time.
    void touch(std::int32_t resident, std::int64_t offset, std::int64_t bytes) {
        const std::int32_t slot = program_.residents[static_cast<std::size_t>(resident)].within;
        const auto r = static_cast<std::size_t>(slot >= 0 ? slot : resident);
        const plan::Resident& memory = program_.residents[r];
        const bool persistent =
            memory.first_step == 0 &&
            memory.last_step + 1 == static_cast<std::int32_t>(program_.steps.size());
        if (persistent || memory.tier == plan::Tier::disk) return;
        std::map<std::int64_t, std::int64_t>& touched = touched_[r];
        const std::int64_t end = offset + bytes;
        std::int64_t from = offset;
        auto next = touched.upper_bound(from);
        if (next != touched.begin()) from = std::max(from, std::prev(next)->second);
        for (; from < end; ++next) {
            const std::int64_t to = next == touched.end() ? end : std::min(end, next->first);
            if (from < to) out_.births.push_back({out_.residents[r].offset + from, to - from});
            if (next == touched.end()) break;
            from = std::max(from, next->second);
        }
        cover(touched, offset, end);
    }

    // Adds [begin, end) to pieces that neither overlap nor touch.
    static void cover(std::map<std::int64_t, std::int64_t>& pieces, std::int64_t begin,
                      std::int64_t end) {
        auto at = pieces.upper_bound(begin);
        if (at != pieces.begin() && std::prev(at)->second >= begin) {
            --at;
            begin = at->first;
        }
        while (at != pieces.end() && at->first <= end) {
            end = std::max(end, at->second);
            at = pieces.erase(at);
        }
        pieces.emplace(begin, end);
    }

    // The first sum of a step overwrites; in a ring, whose slots pass from part to part, the first
    // of a part.
    bool adds(const Step& step, const BlockUse& use, const Block& block, const Op& op) {
        if (!plan::accumulates(block, op)) return false;
        if (op.part > 0) return true;  // to what the parts before it have summed
        bool seen = false;
        for (std::size_t w = 0; w < op.writes.size(); ++w) {
            const TensorId id = op.writes[w];
            const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
            if (std::find(op.reads.begin(), op.reads.end(), id) == op.reads.end()) continue;
            if (op.is<plan::Unscale>() && tensor.role != Role::scalar) continue;
            const plan::Place place = addresses_.place(step, use, id);
            const auto& ring = program_.gradient_ring;
            if (std::find(ring.begin(), ring.end(), place.resident) != ring.end()) {
                seen = seen || is_written_before(block, op, id);
                continue;
            }
            seen = !sums_.insert({place.resident, place.offset}).second || seen;
        }
        return seen;
    }

    static bool is_written_before(const Block& block, const Op& op, TensorId id) {
        for (const Op& before : block.ops) {
            if (&before == &op) return false;
            if (std::count(before.writes.begin(), before.writes.end(), id) > 0) return true;
        }
        return false;
    }

    static bool is_made(const Block& block, TensorId id) {
        return std::any_of(block.ops.begin(), block.ops.end(), [id](const Op& op) {
            return std::find(op.writes.begin(), op.writes.end(), id) != op.writes.end();
        });
    }

    // A target is the next token.
    static std::int32_t ahead_of(const Op& op) {
        if (op.is<plan::Embedding>())
            return static_cast<std::int32_t>(op.as<plan::Embedding>().ahead);
        return static_cast<std::int32_t>(op.as<plan::CrossEntropySum>().ahead) + 1;
    }

    // What a forward op reads and nobody wrote, the host brings.
    void feed(const Step& step, const BlockUse& use, BoundOp& bound) {
        if (bound.op->phase != plan::Phase::forward) return;
        for (TensorId id : bound.op->reads) {
            const Tensor& tensor = bound.block->tensors[static_cast<std::size_t>(id)];
            if (tensor.role != Role::stash || tensor.dtype != plan::DType::i32) continue;
            if (is_made(*bound.block, id)) continue;
            if (bound.op->is<plan::CrossEntropy>()) continue;  // brought before
            bound.fed_ahead = ahead_of(*bound.op);
            bound.fed = operand(step, use, *bound.block, id);
        }
    }

    void bind_transfers(const Step& step) {
        for (const plan::Transfer& transfer : step.transfers) {
            const plan::Place place = addresses_.place(transfer);
            touch(place.resident, place.offset, transfer.bytes);
            BoundTransfer bound;
            bound.peer = plan_.mesh.pipeline_peer(rank_, transfer.peer);
            bound.sends = plan::is_send(transfer.action.kind);
            bound.offset =
                located({addresses_.at(place), transfer.bytes, plan::DType::u8}, place).offset;
            bound.bytes = transfer.bytes;
            bound.tag = tag_of(transfer.action);
            out_.transfers.push_back(bound);
        }
    }

    // Of the message: what one side sends of a stage, the other receives as the next or the last.
    static std::int64_t tag_of(const plan::Action& action) {
        const bool sends = plan::is_send(action.kind);
        const std::int64_t sender = action.stage + (sends ? 0 : plan::hop_to_peer(action.kind));
        return (static_cast<std::int64_t>(action.micro_batch) * 4096 + sender) * 4 +
               (plan::carries_statistic(action.kind) ? 2 : 0) +
               (plan::goes_onward(action.kind) ? 0 : 1);
    }

    // Transfers of totals stand around VALIDATE.
    void set_validation() {
        for (std::uint32_t id = 0; id < out_.ops.size(); ++id) {
            const plan::ActionKind kind = program_.steps[out_.linked.step[id]].action.kind;
            if (kind != plan::ActionKind::validate && kind != plan::ActionKind::recv_total &&
                kind != plan::ActionKind::send_total)
                continue;
            Validation& validation = out_.validation;
            if (validation.end == 0) validation.first = id;
            ORRERY_CHECK(validation.end == 0 || validation.end == id, "validation is one piece");
            validation.end = id + 1;
        }
    }

    void set_spans() {
        const std::span<const Operand> operands(out_.operands);
        const std::span<const BoundTransfer> transfers(out_.transfers);
        const std::span<const Birth> births(out_.births);
        const std::span<const plan::Wait> waits(out_.linked.waits);
        for (std::size_t id = 0; id < out_.ops.size(); ++id) {
            const Range& range = ranges_[id];
            const bool last = id + 1 == out_.ops.size();
            BoundOp& bound = out_.ops[id];
            bound.reads = operands.subspan(range.reads, range.writes - range.reads);
            bound.writes = operands.subspan(range.writes, bound.op->writes.size());
            bound.transfers = transfers.subspan(
                range.transfers,
                (last ? transfers.size() : ranges_[id + 1].transfers) - range.transfers);
            bound.births = births.subspan(
                range.births, (last ? births.size() : ranges_[id + 1].births) - range.births);
            const std::uint32_t first = out_.linked.first_wait[id];
            bound.waits = waits.subspan(first, out_.linked.first_wait[id + 1] - first);
        }
    }

    const plan::Plan& plan_;
    const plan::Program& program_;
    plan::Rank rank_;
    plan::Addresses addresses_;
    std::vector<std::pair<const Block*, const Op*>> numbered_;
    std::vector<std::map<std::int64_t, std::int64_t>>
        touched_;                                           // by resident: pieces, begin to end
    std::set<std::pair<std::int32_t, std::int64_t>> sums_;  // places of sums that have a term
    std::vector<Range> ranges_;
    BoundProgram out_;
};

// The program with its amendment as its only step.
plan::Program amendment_of(plan::Program program) {
    Step step;
    step.action = {program.stages.front().index, plan::ActionKind::amend, -1};
    step.procedure = program.amendment;
    program.steps = {step};
    for (plan::Resident& resident : program.residents)
        resident.first_step = resident.last_step = 0;
    return program;
}

}  // namespace

std::int64_t BoundProgram::scalar(const std::string& name) const {
    const auto found = scalars.find(name);
    return found == scalars.end() ? -1 : found->second;
}

std::int64_t BoundProgram::stepped(std::size_t bucket) const {
    return buckets[bucket].stepped(mesh);
}

std::int64_t BoundProgram::first_stepped(std::size_t bucket) const {
    return buckets[bucket].first_stepped(mesh, share[bucket]);
}

BoundProgram bind_program(const plan::Plan& plan, const plan::Program& program, plan::Rank rank) {
    const auto bind = [&](const plan::Program& bound, plan::LinkedProgram linked) {
        return Binder(plan, bound, rank, std::move(linked)).run();
    };
    const std::int32_t turns = plan::turns_of(program);
    if (turns > 1) {
        const plan::LinkedProgram linked = plan::link_endless(plan, program);
        BoundProgram bound = bind(plan::at_turn(program, 0), linked);
        bound.communicators = plan::communicators_of(plan);
        for (std::int32_t turn = 1; turn < turns; ++turn) {
            bound.other_turns.push_back(
                std::make_shared<const BoundProgram>(bind(plan::at_turn(program, turn), linked)));
            bound.high_water_bytes =
                std::max(bound.high_water_bytes, bound.other_turns.back()->high_water_bytes);
        }
        return bound;
    }
    BoundProgram bound = bind(program, plan::link(plan, program));
    bound.communicators = plan::communicators_of(plan);
    if (bound.validation.end > 0) {
        const plan::Program amendment = amendment_of(program);
        bound.validation.amendment =
            std::make_shared<const BoundProgram>(bind(amendment, plan::link(plan, amendment)));
    }
    return bound;
}

}  // namespace orrery::runtime
