#include "plan/checks/binding_faults.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

namespace orrery::plan {
namespace {

// Frame, and which resident of those that a slot says itself.
using FrameKey = std::pair<Frame, std::int32_t>;

// Bytes of a frame that a tensor takes, and of which piece.
struct Range {
    FrameKey frame;
    std::int64_t begin = 0, end = 0;
    std::int32_t piece = 0;
    auto operator<=>(const Range&) const = default;
};

// What one procedure takes of a frame, from its start.
struct Extent {
    FrameKey frame;
    std::int64_t bytes = 0;
};

class BindingWalk {
  public:
    BindingWalk(const Plan& plan, const Program& program, std::vector<std::string>& faults)
        : plan_(plan), program_(program), faults_(faults) {}

    void run() {
        std::vector<std::vector<Extent>> extents;
        for (const Procedure& procedure : program_.procedures)
            extents.push_back(extents_of(procedure));
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            const Step& step = program_.steps[s];
            if (step.procedure >= 0)
                check(step, static_cast<std::int32_t>(s),
                      extents[static_cast<std::size_t>(step.procedure)]);
            for (const Transfer& transfer : step.transfers)
                if (end_of(0, transfer.bytes, transfer.share) > bytes_of(transfer.resident))
                    fault(to_text(transfer.action) + " is larger than " +
                          name_of(transfer.resident));
        }
    }

  private:
    void fault(const std::string& text) {
        faults_.push_back("pipeline rank " + std::to_string(program_.pipeline_rank) + ": " + text);
    }
    bool is_resident(std::int32_t id) const {
        return id >= 0 && static_cast<std::size_t>(id) < program_.residents.size();
    }
    std::string name_of(std::int32_t id) const {
        return is_resident(id) ? program_.residents[static_cast<std::size_t>(id)].name
                               : "no memory";
    }
    std::int64_t bytes_of(std::int32_t id) const {
        if (!is_resident(id)) return 0;
        const Resident& resident = program_.residents[static_cast<std::size_t>(id)];
        return resident.bytes / resident.turns;
    }
    std::int64_t end_of(std::int64_t offset, std::int64_t bytes, GroupKind share) const {
        return offset + bytes * (share == GroupKind::none ? 1 : plan_.mesh.group_size(share));
    }

    // By tensor; what nothing touches needs no place, nor does scratch, which has its own.
    const std::vector<bool>& outliving(std::int32_t number) {
        auto [found, fresh] = outliving_.try_emplace(number);
        if (!fresh) return found->second;
        const Block& block = plan_.blocks[static_cast<std::size_t>(number)];
        found->second.resize(block.tensors.size(), false);
        for (const Op& op : block.ops)
            for (const auto* ids : {&op.reads, &op.writes})
                for (const TensorId id : *ids)
                    found->second[static_cast<std::size_t>(id)] =
                        block.tensors[static_cast<std::size_t>(id)].role != Role::scratch;
        return found->second;
    }

    std::vector<Extent> extents_of(const Procedure& procedure) {
        std::vector<Range> ranges;
        for (const BlockUse& use : procedure.uses)
            add_ranges(procedure, use, ranges);
        std::sort(ranges.begin(), ranges.end());
        std::vector<Extent> extents;
        std::int32_t piece = 0;  // of the range that ends last so far
        for (const Range& range : ranges) {
            if (extents.empty() || extents.back().frame != range.frame) {
                extents.push_back({range.frame, range.end});
                piece = range.piece;
                continue;
            }
            std::int64_t& end = extents.back().bytes;
            if (range.begin < end && range.piece != piece)
                fault(procedure.name + ": pieces " + std::to_string(piece) + " and " +
                      std::to_string(range.piece) + " of " + name_of(range.frame) + " share bytes");
            if (range.end < end) continue;
            end = range.end;
            piece = range.piece;
        }
        return extents;
    }

    std::string name_of(const FrameKey& frame) const {
        return frame.first == Frame::resident ? name_of(frame.second)
                                              : std::string(name(frame.first));
    }

    void add_ranges(const Procedure& procedure, const BlockUse& use, std::vector<Range>& ranges) {
        const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
        if (use.slots.size() != block.tensors.size())
            return fault(procedure.name + ": " + block.name + " has " +
                         std::to_string(use.slots.size()) + " slots for " +
                         std::to_string(block.tensors.size()) + " tensors");
        const std::vector<bool>& outlives = outliving(use.block);
        for (std::size_t t = 0; t < use.slots.size(); ++t) {
            if (!outlives[t]) continue;
            const Tensor& tensor = block.tensors[t];
            const Slot& slot = use.slots[t];
            if (slot.frame == Frame::none || slot.offset < 0) {
                fault(procedure.name + ": " + block.name + " has no place for " + tensor.name);
                continue;
            }
            // Where parameters are held in eight bits, the optimizer's ops count those that it
            // steps in 16 as if there were room for all; nothing performs these plans yet.
            if (program_.quantized >= 0 && tensor.role == Role::parameter_shard) continue;
            const std::int64_t bytes = tensor.bytes();
            if (bytes > 0)
                ranges.push_back({{slot.frame, slot.resident},
                                  slot.offset,
                                  end_of(slot.offset, bytes, slot.share),
                                  slot.piece});
        }
    }

    void check(const Step& step, std::int32_t now, const std::vector<Extent>& extents) {
        for (const auto& [frame, bytes] : extents) {
            const std::int32_t id =
                frame.first == Frame::resident ? frame.second : step.resident(frame.first);
            if (bytes > bytes_of(id)) {
                fault(to_text(step.action) + " takes " + std::to_string(bytes) + " bytes of " +
                      name_of(id) + ", which has " + std::to_string(bytes_of(id)));
                continue;
            }
            if (frame.first != Frame::resident) continue;  // check_memory looks at frames
            const Resident& resident = program_.residents[static_cast<std::size_t>(id)];
            if (now < resident.first_step || now > resident.last_step)
                fault(to_text(step.action) + " touches " + resident.name + " outside its life");
        }
    }

    const Plan& plan_;
    const Program& program_;
    std::vector<std::string>& faults_;
    std::map<std::int32_t, std::vector<bool>> outliving_;  // by block
};

}  // namespace

void check_bindings(const Plan& plan, const Program& program, std::vector<std::string>& faults) {
    BindingWalk(plan, program, faults).run();
}

}  // namespace orrery::plan
