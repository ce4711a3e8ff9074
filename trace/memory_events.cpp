#include "trace/memory_events.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/memory/arena.hpp"

namespace orrery::trace {
namespace {

using plan::Block;
using plan::BlockUse;
using plan::Op;
using plan::Step;
using plan::TensorId;

// Part of a resident, from its start.
struct HeldPart {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::vector<MemoryFrame> frames;
};

std::string tensor_text(const plan::Tensor& tensor) {
    return fmt::format("{} {} [{}]", tensor.name, plan::name(tensor.dtype),
                       fmt::join(tensor.dims, ", "));
}

std::string block_text(const Block& block, const BlockUse& use) {
    return use.layer < 0 ? block.name : fmt::format("{}, layer {}", block.name, use.layer);
}

MemoryFrame action_frame(const plan::Program& program, std::int32_t step) {
    const plan::Action& action = program.steps[static_cast<std::size_t>(step)].action;
    std::string text = fmt::format("{}: stage {}", plan::to_text(action), action.stage);
    if (action.micro_batch >= 0) text += fmt::format(", micro-batch {}", action.micro_batch);
    return {text, fmt::format("pipeline rank {}", program.pipeline_rank), step};
}

// Ops of a block that touch a tensor first and last; first −1: none does.
struct Touched {
    std::ptrdiff_t first = -1, last = -1;
};

std::vector<Touched> touches_of(const Block& block) {
    std::vector<Touched> touched(block.tensors.size());
    for (std::size_t i = 0; i < block.ops.size(); ++i)
        for (const auto* list : {&block.ops[i].reads, &block.ops[i].writes})
            for (const TensorId id : *list) {
                Touched& one = touched[static_cast<std::size_t>(id)];
                if (one.first < 0) one.first = static_cast<std::ptrdiff_t>(i);
                one.last = static_cast<std::ptrdiff_t>(i);
            }
    return touched;
}

// Scratch of a block by op: which tensors are taken before it and given back after it.
struct BlockScratch {
    std::vector<std::vector<TensorId>> taken, given;
    std::int64_t fullest = 0;
};

BlockScratch scratch_of(const Block& block) {
    BlockScratch scratch;
    scratch.taken.resize(block.ops.size());
    scratch.given.resize(block.ops.size());
    const std::vector<Touched> touched = touches_of(block);
    for (std::size_t t = 0; t < touched.size(); ++t) {
        const bool has_place = t < block.scratch_offsets.size() && block.scratch_offsets[t] >= 0;
        if (touched[t].first < 0 || !has_place || block.tensors[t].bytes() == 0) continue;
        scratch.taken[static_cast<std::size_t>(touched[t].first)].push_back(
            static_cast<TensorId>(t));
        scratch.given[static_cast<std::size_t>(touched[t].last)].push_back(
            static_cast<TensorId>(t));
    }
    std::int64_t live = 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        for (const TensorId id : scratch.taken[i])
            live += block.tensors[static_cast<std::size_t>(id)].bytes();
        scratch.fullest = std::max(scratch.fullest, live);
        for (const TensorId id : scratch.given[i])
            live -= block.tensors[static_cast<std::size_t>(id)].bytes();
    }
    return scratch;
}

class MemoryWalk {
  public:
    MemoryWalk(const plan::Plan& plan, const plan::Program& program)
        : plan_(plan), program_(program), pieces_(program.residents.size()) {
        for (const Block& block : plan.blocks)
            scratch_.push_back(scratch_of(block));
        find_tensors();
        for (std::size_t r = 0; r < pieces_.size(); ++r)
            if (is_counted(static_cast<std::int32_t>(r))) fill_gaps(r);
    }

    std::vector<MemoryEvent> run() {
        const auto last = static_cast<std::int32_t>(program_.steps.size()) - 1;
        for (std::int32_t s = 0; s <= last; ++s) {
            for (std::size_t r = 0; r < pieces_.size(); ++r)
                if (is_counted(static_cast<std::int32_t>(r)) && resident(r).first_step == s)
                    outlasting(r, s, true);
            if (!step(s).beside_last) compute(s, s < last && step(s + 1).beside_last);
            if (s == last) break;  // what is there now is there when the next step begins
            for (std::size_t r = 0; r < pieces_.size(); ++r)
                if (is_counted(static_cast<std::int32_t>(r)) && resident(r).last_step == s)
                    outlasting(r, s, false);
        }
        return std::move(events_);
    }

  private:
    const Step& step(std::int32_t s) const { return program_.steps[static_cast<std::size_t>(s)]; }
    const plan::Resident& resident(std::size_t r) const { return program_.residents[r]; }

    // As plan::live_bytes_by_step counts: scratch and what is made again by step, views not at all.
    bool is_counted(std::int32_t r) const {
        const plan::Resident& one = resident(static_cast<std::size_t>(r));
        return r != program_.scratch && r != program_.beside_scratch && r != program_.recomputed &&
               one.tier == plan::Tier::device && one.within < 0 && one.bytes > 0;
    }

    // Slots of rings and frames hold one tensor after another.
    bool holds_several(std::int32_t r) const {
        const auto in = [&](const auto& list) {
            return std::find(list.begin(), list.end(), r) != list.end();
        };
        return in(program_.parameter_ring) || in(program_.gradient_ring) || in(program_.frames) ||
               in(program_.beside_frames) || r == program_.workspace || r == program_.scalars;
    }

    // By resident, the tensors that uses of blocks find in it: of those that overlap the smallest.
    void find_tensors() {
        using Place = std::tuple<std::int64_t, std::int64_t>;  // bytes, offset
        std::vector<std::map<Place, std::vector<MemoryFrame>>> found(pieces_.size());
        for (const Step& at : program_.steps) {
            if (at.procedure < 0) continue;
            for (const BlockUse& use :
                 program_.procedures[static_cast<std::size_t>(at.procedure)].uses)
                for (std::size_t t = 0; t < use.slots.size(); ++t) {
                    const plan::Slot& slot = use.slots[t];
                    const std::int32_t r = at.resident(slot);
                    if (slot.frame == plan::Frame::none || r < 0 || !is_counted(r) ||
                        holds_several(r) || slot.share != plan::GroupKind::none)
                        continue;
                    const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
                    const std::int64_t bytes = block.tensors[t].bytes();
                    const auto of = static_cast<std::size_t>(r);
                    if (bytes == 0 || slot.offset + bytes > resident(of).bytes) continue;
                    auto& frames = found[of][{bytes, slot.offset}];
                    if (frames.empty())
                        frames.push_back(
                            {tensor_text(block.tensors[t]), block_text(block, use), 0});
                }
        }
        for (std::size_t r = 0; r < found.size(); ++r)
            for (auto& [place, frames] : found[r])
                place_piece(r, {std::get<1>(place), std::get<0>(place), std::move(frames)});
    }

    // In order of offset, none over another.
    void place_piece(std::size_t r, HeldPart piece) {
        auto& list = pieces_[r];
        const auto next = std::lower_bound(
            list.begin(), list.end(), piece.offset,
            [](const HeldPart& one, std::int64_t offset) { return one.offset < offset; });
        const bool over_next = next != list.end() && piece.offset + piece.bytes > next->offset;
        const bool over_last =
            next != list.begin() && std::prev(next)->offset + std::prev(next)->bytes > piece.offset;
        if (!over_next && !over_last) list.insert(next, std::move(piece));
    }

    // What no tensor has is there all the same.
    void fill_gaps(std::size_t r) {
        std::vector<HeldPart> whole;
        std::int64_t at = 0;
        const bool any = !pieces_[r].empty();
        const auto gap_to = [&](std::int64_t end) {
            if (end > at)
                whole.push_back({at, end - at, {{any ? "no tensor of its own" : "whole", "", 0}}});
            at = end;
        };
        for (HeldPart& piece : pieces_[r]) {
            gap_to(piece.offset);
            at = piece.offset + piece.bytes;
            whole.push_back(std::move(piece));
        }
        gap_to(resident(r).bytes);
        pieces_[r] = std::move(whole);
    }

    void outlasting(std::size_t r, std::int32_t s, bool takes) {
        const plan::Resident& one = resident(r);
        for (const HeldPart& piece : pieces_[r]) {
            std::vector<MemoryFrame> frames = piece.frames;
            frames.push_back({one.name, std::string(plan::name(one.category)), 0});
            frames.push_back(action_frame(program_, one.first_step));
            push(takes, one.offset + piece.offset, piece.bytes, s, std::move(frames));
        }
    }

    void push(bool takes, std::int64_t address, std::int64_t bytes, std::int32_t s,
              std::vector<MemoryFrame> frames) {
        events_.push_back({takes, kArenaBase + address, bytes, s, std::move(frames)});
    }

    std::int64_t planned_scratch(std::int32_t s) const {
        std::int64_t most = 0;
        for (const BlockUse& use : uses(s))
            most = std::max(most, plan_.blocks[static_cast<std::size_t>(use.block)].scratch_bytes);
        return most;
    }

    const std::vector<BlockUse>& uses(std::int32_t s) const {
        static const std::vector<BlockUse> none;
        const std::int32_t procedure = step(s).procedure;
        return procedure < 0 ? none : program_.procedures[static_cast<std::size_t>(procedure)].uses;
    }

    // For the length of a step, or of two that are issued in turns.
    struct StepArea {
        std::int64_t address = 0, bytes = 0;
        std::vector<MemoryFrame> frames;
    };

    void compute(std::int32_t s, bool with_next) {
        std::vector<StepArea> areas;
        for (std::int32_t of = s; of <= (with_next ? s + 1 : s); ++of) {
            add_recomputed(of, areas);
            const std::int32_t scratch = of == s ? program_.scratch : program_.beside_scratch;
            if (with_next && scratch >= 0)
                areas.push_back(
                    {resident(static_cast<std::size_t>(scratch)).offset,
                     planned_scratch(of),
                     {{"scratch of blocks", "activations", 0}, action_frame(program_, of)}});
        }
        if (!with_next) add_unfilled(s, areas);
        for (const StepArea& area : areas)
            if (area.bytes > 0) push(true, area.address, area.bytes, s, area.frames);
        if (!with_next)
            for (const BlockUse& use : uses(s))
                run_block(s, use);
        for (const StepArea& area : areas)
            if (area.bytes > 0) push(false, area.address, area.bytes, s, area.frames);
    }

    void add_recomputed(std::int32_t s, std::vector<StepArea>& areas) const {
        if (program_.recomputed < 0 || !plan::makes_input_gradient(step(s).action.kind)) return;
        const plan::Resident& one = resident(static_cast<std::size_t>(program_.recomputed));
        // Of two steps in turns the second's is counted, and lies where the first's does.
        const std::int64_t address = areas.empty() ? one.offset : beyond_;
        areas.push_back(
            {address,
             one.bytes,
             {{one.name, std::string(plan::name(one.category)), 0}, action_frame(program_, s)}});
    }

    void add_unfilled(std::int32_t s, std::vector<StepArea>& areas) const {
        std::int64_t fullest = 0;
        for (const BlockUse& use : uses(s))
            fullest = std::max(fullest, scratch_[static_cast<std::size_t>(use.block)].fullest);
        areas.push_back(
            {beyond_,
             planned_scratch(s) - fullest,
             {{"scratch that no tensor fills", "activations", 0}, action_frame(program_, s)}});
    }

    void run_block(std::int32_t s, const BlockUse& use) {
        const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
        const BlockScratch& scratch = scratch_[static_cast<std::size_t>(use.block)];
        const std::int64_t start =
            program_.scratch < 0 ? 0 : resident(static_cast<std::size_t>(program_.scratch)).offset;
        const auto frames = [&](TensorId id, std::size_t op) -> std::vector<MemoryFrame> {
            return {{tensor_text(block.tensors[static_cast<std::size_t>(id)]), "scratch", 0},
                    {block.ops[op].label, block_text(block, use), static_cast<std::int64_t>(op)},
                    action_frame(program_, s)};
        };
        for (std::size_t op = 0; op < block.ops.size(); ++op) {
            for (const TensorId id : scratch.taken[op])
                push(true, start + block.scratch_offsets[static_cast<std::size_t>(id)],
                     block.tensors[static_cast<std::size_t>(id)].bytes(), s, frames(id, op));
            for (const TensorId id : scratch.given[op])
                push(false, start + block.scratch_offsets[static_cast<std::size_t>(id)],
                     block.tensors[static_cast<std::size_t>(id)].bytes(), s, {});
        }
    }

    const plan::Plan& plan_;
    const plan::Program& program_;
    std::vector<std::vector<HeldPart>> pieces_;  // by resident
    std::vector<BlockScratch> scratch_;          // by block
    std::vector<MemoryEvent> events_;
    std::int64_t beyond_ = plan::aligned(program_.arena_bytes);
};

}  // namespace

std::vector<MemoryEvent> memory_events(const plan::Plan& plan, const plan::Program& program) {
    return MemoryWalk(plan, program).run();
}

}  // namespace orrery::trace
