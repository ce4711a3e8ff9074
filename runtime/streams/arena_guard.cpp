#include "runtime/streams/arena_guard.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "plan/memory/arena.hpp"

namespace orrery::runtime {
namespace {

constexpr std::byte kZoneByte{0xa5};
constexpr std::byte kUnwritten{0xff};

bool overlap(const Operand& a, const Operand& b) {
    return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
}

// Three products of unfused attention write a third each of the gradients of queries, keys, values.
bool writes_a_third(const plan::Op& op) {
    if (!op.is<plan::BatchedGemm>()) return false;
    const plan::AttentionProduct product = op.as<plan::BatchedGemm>().product;
    return product == plan::AttentionProduct::queries || product == plan::AttentionProduct::keys ||
           product == plan::AttentionProduct::values;
}

// Whether the op makes all of the tensor: what it reads as well it may change in part, and what
// adamw steps it may leave alone.
bool makes(const BoundOp& bound, const Operand& written) {
    if (bound.op->kind() == plan::OpKind::adamw || writes_a_third(*bound.op)) return false;
    if (plan::is_copy(bound.op->kind()))
        return false;  // of any bytes, those that mark the unwritten
    return std::none_of(bound.reads.begin(), bound.reads.end(),
                        [&](const Operand& read) { return overlap(read, written); });
}

// Whether the op writes its part alone of the tensor: its other parts make the rest.
bool writes_part(const BoundOp& bound, std::size_t index) {
    return bound.block != nullptr && bound.op->parts > 1 &&
           plan::touches_part(*bound.block, *bound.op, bound.op->writes[index]);
}

}  // namespace

// What ops touch, in order of where it begins.
std::vector<ArenaGuard::Extent> ArenaGuard::touched(const BoundProgram& program) {
    std::vector<Extent> extents;
    for (std::int64_t turn = 0; turn < program.turns(); ++turn) {
        for (const Operand& operand : program.of_step(turn).operands)
            if (operand.offset < program.memory_bytes())
                extents.push_back({operand.offset, operand.offset + operand.bytes()});
        for (const BoundTransfer& transfer : program.of_step(turn).transfers)
            extents.push_back({transfer.offset, transfer.offset + transfer.bytes});
    }
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    return extents;
}

// The first part of a resident that no op touches; empty where there is none to speak of.
ArenaGuard::Extent ArenaGuard::untouched(const std::vector<Extent>& extents,
                                         const plan::Resident& resident) {
    const std::int64_t end = resident.offset + resident.bytes;
    std::int64_t seen = resident.offset;
    for (const Extent& extent : extents) {
        if (extent.begin >= end || extent.begin - seen >= plan::kAlignment) break;
        seen = std::max(seen, extent.end);
    }
    return end - seen >= plan::kAlignment ? Extent{seen, end} : Extent{};
}

ArenaGuard::ArenaGuard(const BoundProgram& program, plan::Rank rank, std::byte* arena)
    : program_(program),
      rank_(rank),
      memory_(arena - kZone, static_cast<std::size_t>(program.memory_bytes() + 2 * kZone)) {
    if (program.high_water_bytes > program.arena_bytes)
        throw MemoryFault(fmt::format("rank {}: tensors end at byte {}, beyond an arena of {}",
                                      rank, program.high_water_bytes, program.arena_bytes));
    std::fill_n(memory_.begin(), kZone, kZoneByte);
    std::fill_n(memory_.end() - kZone, kZone, kZoneByte);
    expected_.assign(memory_.begin(), memory_.end());
    const std::vector<Extent> extents = touched(program);
    watch(extents);
    for (std::size_t id = 0; id < program.residents.size(); ++id) {
        if (program.spare.contains(static_cast<std::int32_t>(id))) continue;
        if (program.residents[id].tier == plan::Tier::disk) continue;
        const Extent missed = untouched(extents, program.residents[id]);
        if (missed.begin < missed.end)
            throw MemoryFault(
                fmt::format("rank {}: no op touches bytes from {} on of \"{}\", of {}", rank,
                            missed.begin - program.residents[id].offset, program.residents[id].name,
                            program.residents[id].bytes));
    }
}

void ArenaGuard::watch(const std::vector<Extent>& extents) {
    const auto end = static_cast<std::int64_t>(memory_.size());
    watched_ = {{0, 2 * kZone}};  // what stands before the arena and its first bytes
    const auto add = [&](const Extent& wider) {
        if (wider.begin <= watched_.back().end)
            watched_.back().end = std::max(watched_.back().end, wider.end);
        else
            watched_.push_back(wider);
    };
    for (const Extent& extent : extents)  // a place in the memory is one in the arena + kZone
        add({extent.begin, extent.end + 2 * kZone});
    add({end - 2 * kZone, end});
}

void ArenaGuard::around(const IssuedOp& op, const OpRest& rest) {
    if (found_) return rest.perform(op);
    for (const Birth& birth : op.bound.births)
        accept(birth.offset, birth.bytes);
    begin(op.bound);
    rest.perform(op);
    try {
        end(op.bound);
    } catch (const MemoryFault&) {
        found_ = true;
        throw;
    }
}

void ArenaGuard::begin(const BoundOp& bound) {
    for (std::size_t w = 0; w < bound.writes.size(); ++w) {
        const Operand& written = bound.writes[w];
        const bool later_part = writes_part(bound, w) && bound.op->part > 0;
        if (in_memory(written) && makes(bound, written) && !later_part)
            std::fill_n(at(written.offset), written.bytes(), kUnwritten);
    }
}

void ArenaGuard::end(const BoundOp& bound) {
    for (std::size_t w = 0; w < bound.writes.size(); ++w) {
        const Operand& written = bound.writes[w];
        if (!in_memory(written)) continue;
        const bool unfinished = writes_part(bound, w) && bound.op->part + 1 < bound.op->parts;
        if (makes(bound, written) && !unfinished) expect_whole(bound, written);
        accept(written.offset, written.bytes());
    }
    for (const BoundTransfer& transfer : bound.transfers)
        if (!transfer.sends) accept(transfer.offset, transfer.bytes);
    if (bound.fed_ahead >= 0) accept(bound.fed.offset, bound.fed.bytes());
    // The padding of a bucket is cleared before it is reduced.
    if (plan::is_communication(bound.op->kind()) && bound.bucket >= 0 && !bound.reads.empty())
        accept(bound.reads[0].offset, bound.reads[0].bytes());
    expect_unchanged(bound);
}

void ArenaGuard::accept(std::int64_t offset, std::int64_t bytes) {
    std::memcpy(expected_.data() + kZone + offset, at(offset), static_cast<std::size_t>(bytes));
}

void ArenaGuard::expect_whole(const BoundOp& bound, const Operand& written) const {
    const std::int64_t size = plan::size_bytes(written.dtype);
    for (std::int64_t i = 0; i < written.elements; ++i) {
        const std::byte* const element = at(written.offset + i * size);
        if (std::any_of(element, element + size, [](std::byte b) { return b != kUnwritten; }))
            continue;
        throw MemoryFault(fmt::format("{} did not write element {} of {} that it makes",
                                      named(bound), i, written.elements));
    }
}

std::optional<std::int64_t> ArenaGuard::changed_in(const Extent& extent) const {
    const std::byte* const is = memory_.data() + extent.begin;
    const std::byte* const was = expected_.data() + extent.begin;
    const std::int64_t bytes = extent.end - extent.begin;
    if (std::memcmp(is, was, static_cast<std::size_t>(bytes)) == 0) return std::nullopt;
    return extent.begin + (std::mismatch(is, is + bytes, was).first - is) - kZone;
}

void ArenaGuard::expect_unchanged(const BoundOp& bound) const {
    for (const Extent& extent : watched_)
        if (const auto byte = changed_in(extent))
            throw MemoryFault(
                fmt::format("{} wrote byte {} of an arena of {}, which is in no tensor that "
                            "it writes",
                            named(bound), *byte, program_.memory_bytes()));
}

void ArenaGuard::end_of_step() const {
    if (const auto byte = changed_in({0, static_cast<std::int64_t>(memory_.size())}))
        throw MemoryFault(fmt::format(
            "rank {}: an op of this step wrote byte {} of an arena of {}, which no op touches",
            rank_, *byte, program_.memory_bytes()));
}

// rank 2: layer.forward gemm "fc1", layer 3, micro-batch 0
std::string ArenaGuard::named(const BoundOp& bound) const {
    std::string text = fmt::format("rank {}: {} {} \"{}\"", rank_, bound.block->name,
                                   plan::name(bound.op->kind()), bound.op->label);
    if (bound.layer >= 0) text += fmt::format(", layer {}", bound.layer);
    if (bound.micro_batch >= 0) text += fmt::format(", micro-batch {}", bound.micro_batch);
    return text;
}

}  // namespace orrery::runtime
