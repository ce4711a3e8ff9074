// An oracle for the order of a run: walks a program in issue order with the times of its events and
// finds every op that touched memory before it was allowed to. Pieces of memory are residents, a
// stash split by block; within one use of a block they are its tensors. Independent of plan/ir/link
// and plan/ir/order: it compares times, not counts.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/ir/link.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

class MemoryOrder {
  public:
    MemoryOrder(const plan::Plan& plan, const plan::Program& program,
                const plan::LinkedProgram& linked, const std::vector<trace::Event>& events)
        : plan_(plan), program_(program), linked_(linked), events_(events) {
        for (const plan::Step& step : program.steps)
            if (step.action.kind == plan::ActionKind::forward)
                received_[{step.action.stage, step.action.micro_batch}] = step.input;
    }

    // Ops that started too early, in words; empty when all is in order.
    std::vector<std::string> violations() {
        const std::vector<std::uint32_t> first = plan_.first_ops();
        std::size_t op = 0;
        while (op < linked_.size()) {
            const plan::Step& step = program_.steps[linked_.step[op]];
            if (step.procedure < 0) {
                visit_transfers(step, op++);
                continue;
            }
            const plan::BlockUse& use =
                program_.procedures[static_cast<std::size_t>(step.procedure)].uses[linked_.use[op]];
            const plan::Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
            visit_use(step, use, block, op);
            op += block.ops.size();
        }
        return std::move(violations_);
    }

  private:
    using Time = trace::Picoseconds;
    using Piece = std::pair<std::int32_t, std::int32_t>;  // resident, part of a stash
    struct Last {
        Time write_end = 0;
        Time access_end = 0;
        void join(const Last& other) {
            write_end = std::max(write_end, other.write_end);
            access_end = std::max(access_end, other.access_end);
        }
    };

    const plan::Resident& resident(std::int32_t id) const {
        return program_.residents[static_cast<std::size_t>(id)];
    }

    // Whoever takes memory over follows everything that happened in it.
    Last& state(const Piece& piece) {
        const auto found = last_.find(piece);
        if (found != last_.end()) return found->second;
        Last before;
        for (std::int32_t old : resident(piece.first).reuses)
            before.access_end = std::max(before.access_end, all_of(old));
        before.write_end = before.access_end;
        return last_[piece] = before;
    }

    Time all_of(std::int32_t id) {
        Time end = 0;
        bool touched = false;
        for (auto it = last_.lower_bound({id, 0}); it != last_.end() && it->first.first == id;
             ++it) {
            end = std::max(end, it->second.access_end);
            touched = true;
        }
        if (touched) return end;
        for (std::int32_t old : resident(id).reuses)
            end = std::max(end, all_of(old));
        return end;
    }

    void require(std::size_t op, Time not_before, const std::string& what) {
        if (events_[op].start < not_before)
            violations_.push_back("op " + std::to_string(op) + " " +
                                  plan::to_text(program_.steps[linked_.step[op]].action) +
                                  " starts at " + std::to_string(events_[op].start) + " before " +
                                  std::to_string(not_before) + ": " + what);
    }

    void visit_transfers(const plan::Step& step, std::size_t op) {
        for (const plan::Transfer& t : step.transfers) {
            const Last& last = state({t.resident, 0});
            const bool sends = plan::is_send(t.action.kind);
            require(op, sends ? last.write_end : last.access_end, resident(t.resident).name);
        }
        for (const plan::Transfer& t : step.transfers) {
            Last& last = state({t.resident, 0});
            if (!plan::is_send(t.action.kind))
                last.write_end = std::max(last.write_end, events_[op].end);
            last.access_end = std::max(last.access_end, events_[op].end);
        }
    }

    const plan::Stage& stage_of(const plan::Step& step) const {
        for (const plan::Stage& s : program_.stages)
            if (s.index == step.action.stage) return s;
        return program_.stages.front();
    }

    const plan::Block& forward_of(const plan::Stage& stage, std::size_t position) const {
        return plan_.blocks[static_cast<std::size_t>(stage.parts[position].forward)];
    }
    // Of a whole backward pass, else of its half for the input.
    const plan::Block& backward_of(const plan::Step& step, std::size_t position) const {
        const plan::StagePart& part = stage_of(step).parts[position];
        const bool whole =
            part.backward_input < 0 || step.action.kind == plan::ActionKind::backward;
        return plan_.blocks[static_cast<std::size_t>(whole ? part.backward : part.backward_input)];
    }

    // Whether the part keeps the gradient handed to it, under this name, for its weights.
    bool defers_gradient(const plan::Step& step, std::size_t position,
                         const std::string* name = nullptr) const {
        const plan::Block& block = backward_of(step, position);
        if (block.input < 0) return false;
        const plan::Tensor& dy = block.tensors[static_cast<std::size_t>(block.input)];
        return dy.role == plan::Role::deferred && (name == nullptr || dy.name == *name);
    }

    std::int32_t frame(std::size_t number) const { return program_.frames[number % 2]; }

    // Where a stage finds what a transfer brought it; of a forward action until its backward ends.
    bool is_received(const plan::Step& step, const plan::BlockUse& use,
                     const plan::Tensor& tensor) const {
        if (step.action.stage == 0 || use.position != 0) return false;
        const plan::Block& first = forward_of(stage_of(step), 0);
        return tensor.name == first.tensors[static_cast<std::size_t>(first.input)].name;
    }

    // What a part hands to the one at `next`: into its stash, or a frame that alternates.
    Piece handed_forward(const plan::Step& step, std::size_t next) const {
        const plan::Stage& stage = stage_of(step);
        if (next == stage.parts.size()) return {step.output, 0};
        const plan::Block& block = forward_of(stage, next);
        const plan::Tensor& input = block.tensors[static_cast<std::size_t>(block.input)];
        if (input.role == plan::Role::stash) return {step.stash, static_cast<std::int32_t>(next)};
        if (input.role == plan::Role::kept) return {step.kept, static_cast<std::int32_t>(next)};
        return {frame(next), 0};
    }

    // The gradient after the parts from the last down to `position`: each that makes a new one
    // changes frames.
    Piece handed_backward(const plan::Step& step, std::size_t position) const {
        const plan::Stage& stage = stage_of(step);
        if (position == stage.parts.size()) return {step.input, 0};
        if (position == 0) return {step.output, 0};
        if (defers_gradient(step, position - 1))
            return {step.deferred, static_cast<std::int32_t>(position - 1)};
        std::size_t changes = 0;
        for (std::size_t p = position; p < stage.parts.size(); ++p) {
            const plan::Block& block = backward_of(step, p);
            changes += block.input != block.output ? 1 : 0;
        }
        return {frame(changes), 0};
    }

    // Where what a part makes again lies: by its place among the layers that are made again
    // together.
    Piece recomputed(const plan::Step& step, std::size_t position) const {
        const auto& parts = stage_of(step).parts;
        std::int32_t place = 0;
        for (std::size_t p = position; p > 0 && parts[p - 1].recompute >= 0; --p)
            ++place;
        return {program_.recomputed, place};
    }

    // The rings through which parameters and gradients pass, and the sides of copies, a pass
    // chooses; the oracle takes its word.
    static std::int32_t said(const plan::BlockUse& use, const plan::Block& block,
                             const plan::Tensor& tensor) {
        return use.slots[static_cast<std::size_t>(&tensor - block.tensors.data())].resident;
    }

    Piece piece_of(const plan::Step& step, const plan::BlockUse& use, const plan::Block& block,
                   const plan::Tensor& tensor, bool is_input) const {
        const auto bucket = [&]() -> const plan::Bucket& {
            return program_.buckets[static_cast<std::size_t>(use.bucket)];
        };
        const auto position = static_cast<std::size_t>(use.position);
        switch (tensor.role) {
            case plan::Role::parameter:
                return {said(use, block, tensor), 0};
            case plan::Role::parameter_shard:
                return {bucket().parameters, 0};
            case plan::Role::gradient:
            case plan::Role::source_gradient:
                return {said(use, block, tensor), 0};
            case plan::Role::gradient_shard:
                return {bucket().gradients, 0};
            case plan::Role::optimizer:
                return {bucket().optimizer, 0};
            case plan::Role::scalar:
                return {program_.scalars, 0};
            case plan::Role::stash:
                if (is_received(step, use, tensor))
                    return {received_.at({step.action.stage, step.action.micro_batch}), 0};
                return {step.stash, use.position};
            case plan::Role::recomputed:
                return recomputed(step, position);
            case plan::Role::kept:
                return {step.kept, use.position};
            case plan::Role::deferred:
                if (position + 1 == stage_of(step).parts.size() &&
                    defers_gradient(step, position, &tensor.name))
                    return {step.input, 0};
                return {step.deferred, use.position};
            case plan::Role::quantized:
                return {program_.quantized, 0};
            case plan::Role::scratch:
                return {program_.scratch, 0};
            case plan::Role::source:  // of a state: activations are not offloaded here
            case plan::Role::target:
                return {said(use, block, tensor), 0};
            case plan::Role::input:
            case plan::Role::output:
                break;
        }
        if (step.action.kind == plan::ActionKind::forward)
            return is_input ? Piece{frame(position), 0} : handed_forward(step, position + 1);
        if (stage_of(step).parts[position].recompute == use.block)
            return recomputed(step, position + 1);
        return handed_backward(step, is_input ? position + 1 : position);
    }

    void visit_use(const plan::Step& step, const plan::BlockUse& use, const plan::Block& block,
                   std::size_t first) {
        std::vector<Last> tensors(block.tensors.size());
        std::map<Piece, Last> touched;
        Time before_fence = use.fence ? latest_ : 0;
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const std::size_t op = first + i;
            const plan::Op& facts = block.ops[i];
            require(op, before_fence, "a fence");
            auto visit = [&](plan::TensorId id, bool writes) {
                const auto t = static_cast<std::size_t>(id);
                const plan::Tensor& tensor = block.tensors[t];
                const Piece piece = piece_of(step, use, block, tensor, id == block.input);
                // Scratch of different uses overlays: whoever touches it follows all of it.
                const bool any = writes || tensor.role == plan::Role::scratch;
                const Last& outside = state(piece);
                require(op, any ? outside.access_end : outside.write_end,
                        resident(piece.first).name + " by " + tensor.name);
                require(op, writes ? tensors[t].access_end : tensors[t].write_end, tensor.name);
                Last now{writes ? events_[op].end : 0, events_[op].end};
                touched[piece].join(now);
            };
            for (plan::TensorId id : facts.reads)
                visit(id, false);
            for (plan::TensorId id : facts.writes)
                visit(id, true);
            for (plan::TensorId id : facts.reads)
                tensors[static_cast<std::size_t>(id)].join({0, events_[op].end});
            for (plan::TensorId id : facts.writes)
                tensors[static_cast<std::size_t>(id)].join({events_[op].end, events_[op].end});
            for (std::int32_t earlier : facts.after)
                require(op, events_[first + static_cast<std::size_t>(earlier)].end, "after");
        }
        check_scratch(block, first);
        for (const auto& [piece, now] : touched)
            state(piece).join(now);
        for (std::size_t i = 0; i < block.ops.size(); ++i)
            latest_ = std::max(latest_, events_[first + i].end);
    }

    // Scratch tensors that share bytes must not be alive at the same time.
    void check_scratch(const plan::Block& block, std::size_t first) {
        struct Life {
            Time first_start = 0, last_end = 0;
            std::size_t first_op = 0;
            bool touched = false;
        };
        std::vector<Life> lives(block.tensors.size());
        for (std::size_t i = 0; i < block.ops.size(); ++i)
            for (const auto* ids : {&block.ops[i].reads, &block.ops[i].writes})
                for (plan::TensorId id : *ids) {
                    Life& life = lives[static_cast<std::size_t>(id)];
                    const trace::Event& e = events_[first + i];
                    if (!life.touched) life = {e.start, e.end, first + i, true};
                    life.first_start = std::min(life.first_start, e.start);
                    life.last_end = std::max(life.last_end, e.end);
                }
        for (std::size_t a = 0; a < lives.size(); ++a)
            for (std::size_t b = 0; b < lives.size(); ++b) {
                if (!overlay(block, a, b) || !lives[a].touched || !lives[b].touched ||
                    lives[a].first_op >= lives[b].first_op)
                    continue;
                if (lives[b].first_start < lives[a].last_end)
                    require(lives[b].first_op, lives[a].last_end,
                            block.tensors[b].name + " over " + block.tensors[a].name);
            }
    }

    static bool overlay(const plan::Block& block, std::size_t a, std::size_t b) {
        if (a == b || block.scratch_offsets[a] < 0 || block.scratch_offsets[b] < 0) return false;
        return block.scratch_offsets[a] < block.scratch_offsets[b] + block.tensors[b].bytes() &&
               block.scratch_offsets[b] < block.scratch_offsets[a] + block.tensors[a].bytes();
    }

    const plan::Plan& plan_;
    const plan::Program& program_;
    const plan::LinkedProgram& linked_;
    const std::vector<trace::Event>& events_;
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> received_;  // stage, micro-batch
    std::map<Piece, Last> last_;
    Time latest_ = 0;  // of everything before this use
    std::vector<std::string> violations_;
};

}  // namespace orrery::sim
