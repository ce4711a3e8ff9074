#include "plan/text/lines.hpp"
#include "plan/text/print_parts.hpp"
#include "plan/text/runs.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

std::string resident_text(std::int32_t id) {
    return id < 0 ? "r-" : "r" + std::to_string(id);
}

// Of one tensor in the uses of a run, which the first two of them tell.
std::string slot_text(const Slot& first, const Slot& second, std::size_t count) {
    if (first.frame == Frame::none) return "-";
    std::string out(name(first.frame));
    if (first.frame == Frame::resident) {
        out = resident_text(first.resident);
        if (second.resident != first.resident) out += ',' + resident_text(second.resident);
    }
    if (first.piece != 0 || second.piece != 0)
        out += '/' + Progression{first.piece, second.piece - first.piece}.text(count);
    out += '@' + Progression{first.offset, second.offset - first.offset}.text(count);
    if (first.share != GroupKind::none) out += ':' + std::string(name(first.share));
    return out;
}

}  // namespace

std::string slot_lines(const Block& block, const BlockUse& first, const BlockUse& second,
                       std::size_t count) {
    const std::string indent(6, ' ');
    if (first.slots.size() != block.tensors.size()) return indent + "unbound\n";
    const std::vector<TensorReference> references = references_of(block.tensors);
    std::vector<std::string> pieces;
    for (std::size_t t = 0; t < block.tensors.size(); ++t)
        if (block.tensors[t].role != Role::scratch)
            pieces.push_back(to_text(references[t]) + '=' +
                             slot_text(first.slots[t], second.slots[t], count));
    return pieces.empty() ? std::string() : wrapped(indent, pieces, 6);
}

bool have_alike_slots(const BlockUse& a, const BlockUse& b) {
    if (a.slots.size() != b.slots.size()) return false;
    for (std::size_t t = 0; t < a.slots.size(); ++t)
        if (a.slots[t].frame != b.slots[t].frame || a.slots[t].share != b.slots[t].share)
            return false;
    return true;
}

}  // namespace orrery::plan
