#include "plan/text/parse_slots.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::plan {
namespace {

std::optional<Frame> frame_from_name(std::string_view text) {
    for (std::size_t i = static_cast<std::size_t>(Frame::stash); i < kFrames; ++i)
        if (name(static_cast<Frame>(i)) == text) return static_cast<Frame>(i);
    return std::nullopt;
}

}  // namespace

Field read_field(Reader& reader, std::int64_t count, std::string_view expected, std::int64_t most) {
    const std::size_t here = reader.place();
    const Reader::Range range = reader.range(expected);
    if (range.first > most || range.last > most) reader.fail_at(here, expected);
    const std::int64_t span = range.last - range.first;
    if (count == 1 ? span != 0 : span % (count - 1) != 0)
        reader.fail_at(here, "a range of " + std::to_string(count) + " equal steps");
    return {range.first, count == 1 ? 0 : span / (count - 1)};
}

bool at_resident(const Reader& reader) {
    const Token& token = reader.peek();
    return token.kind == TokenKind::word && token.text.size() > 1 && token.text[0] == 'r' &&
           (token.text[1] == '-' || (token.text[1] >= '0' && token.text[1] <= '9'));
}

GroupKind read_sharing_group(Reader& reader) {
    static const std::string expected = [] {
        std::vector<std::string_view> names;
        for (const GroupKind kind : kSharingGroups)
            names.push_back(name(kind));
        return fmt::format("the group that shares it out ({})", fmt::join(names, ", "));
    }();
    return reader.one_of<GroupKind>(expected, [](std::string_view text) {
        const auto found = std::find_if(kSharingGroups.begin(), kSharingGroups.end(),
                                        [&](GroupKind kind) { return name(kind) == text; });
        return found == kSharingGroups.end() ? std::optional<GroupKind>() : *found;
    });
}

Slot SlotRun::at(std::int64_t n) const {
    Slot slot = first;
    if (n % 2 == 1) slot.resident = second_resident;
    slot.piece = piece.index_at(n);
    slot.offset = offset.at(n);
    return slot;
}

std::vector<SlotRun> SlotReader::read(std::int32_t number, std::int64_t count) {
    const Block& block = plan_.blocks[static_cast<std::size_t>(number)];
    if (reader_.accept_word("unbound")) return {};
    const std::vector<TensorReference>& references = references_to(number);
    std::vector<SlotRun> slots(block.tensors.size());
    for (std::size_t t = 0; t < slots.size(); ++t) {
        if (block.tensors[t].role == Role::scratch) continue;
        expect_reference(references[t]);
        slots[t] = read_slot(count);
    }
    return slots;
}

const std::vector<TensorReference>& SlotReader::references_to(std::int32_t block) {
    auto [found, fresh] = references_.try_emplace(block);
    if (fresh) found->second = references_of(plan_.blocks[static_cast<std::size_t>(block)].tensors);
    return found->second;
}

// "x", "qkv.weight:gradient", "dx#2", and "=".
void SlotReader::expect_reference(const TensorReference& reference) {
    const std::size_t here = reader_.place();
    const std::string expected = to_text(reference) + ", the next tensor of the block";
    if (!reader_.at_name() || reader_.name(expected) != reference.name)
        reader_.fail_at(here, expected);
    if (reference.role) {
        reader_.expect_sign(":");
        reader_.expect_word(std::string(name(*reference.role)));
    }
    if (reference.number > 1) {
        reader_.expect_sign("#");
        reader_.expect_word(std::to_string(reference.number));
    }
    reader_.expect_sign("=");
}

// "stash/1..2@1280..57088", "r5,r6@0", "r0@0:data", "-"
SlotRun SlotReader::read_slot(std::int64_t count) {
    SlotRun run;
    if (reader_.accept_sign("-")) return run;
    if (at_resident(reader_)) {
        run.first.frame = Frame::resident;
        run.first.resident = run.second_resident = resident_();
        if (reader_.accept_sign(",")) run.second_resident = resident_();
    } else {
        run.first.frame = reader_.one_of<Frame>(
            "a resident (r12) or a frame (stash, kept, deferred, received, input, output, stored)",
            frame_from_name);
    }
    if (reader_.accept_sign("/"))
        run.piece = read_field(reader_, count, "a piece of the frame", kMostIndex);
    reader_.expect_sign("@");
    run.offset = read_field(reader_, count, "an offset in the frame", kLargest);
    if (reader_.accept_sign(":")) run.first.share = read_sharing_group(reader_);
    return run;
}

}  // namespace orrery::plan
