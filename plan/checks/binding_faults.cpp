#include "plan/checks/binding_faults.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace orrery::plan {
namespace {

// Frame, and which resident of those that a slot says itself.
using FrameKey = std::pair<Frame, std::int32_t>;

// What one procedure takes of its frames.
struct Extent {
    std::map<FrameKey, std::int64_t> ends;  // bytes from the start
};

class BindingWalk {
  public:
    BindingWalk(const Plan& plan, const Program& program, std::vector<std::string>& faults)
        : plan_(plan), program_(program), faults_(faults) {}

    void run() {
        std::vector<Extent> extents;
        for (const Procedure& procedure : program_.procedures)
            extents.push_back(extent_of(procedure));
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

    static std::set<TensorId> touched(const Block& block) {
        std::set<TensorId> ids;
        for (const Op& op : block.ops) {
            ids.insert(op.reads.begin(), op.reads.end());
            ids.insert(op.writes.begin(), op.writes.end());
        }
        return ids;
    }

    Extent extent_of(const Procedure& procedure) {
        Extent extent;
        std::map<std::int32_t, std::set<TensorId>> touched_by_block;
        std::set<std::tuple<FrameKey, std::int64_t, std::int64_t, std::int32_t>> ranges;
        for (const BlockUse& use : procedure.uses) {
            const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
            if (use.slots.size() != block.tensors.size()) {
                fault(procedure.name + ": " + block.name + " has " +
                      std::to_string(use.slots.size()) + " slots for " +
                      std::to_string(block.tensors.size()) + " tensors");
                continue;
            }
            auto [of_block, fresh] = touched_by_block.try_emplace(use.block);
            if (fresh) of_block->second = touched(block);
            for (const TensorId id : of_block->second) {
                const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
                const Slot& slot = use.slots[static_cast<std::size_t>(id)];
                if (tensor.role == Role::scratch) continue;
                if (slot.frame == Frame::none || slot.offset < 0) {
                    fault(procedure.name + ": " + block.name + " has no place for " + tensor.name);
                    continue;
                }
                // Where parameters are held in eight bits, the optimizer's ops count those that it
                // steps in 16 as if there were room for all; nothing performs these plans yet.
                if (program_.quantized >= 0 && tensor.role == Role::parameter_shard) continue;
                const FrameKey key{slot.frame, slot.resident};
                const std::int64_t end = end_of(slot.offset, tensor.bytes(), slot.share);
                std::int64_t& last = extent.ends[key];
                last = std::max(last, end);
                if (end > slot.offset) ranges.insert({key, slot.offset, end, slot.piece});
            }
        }
        check_pieces(procedure, ranges);
        return extent;
    }

    template <typename Ranges>
    void check_pieces(const Procedure& procedure, const Ranges& ranges) {
        std::map<FrameKey, std::pair<std::int64_t, std::int32_t>> before;  // end, piece
        for (const auto& [key, offset, end, piece] : ranges) {
            const auto [it, fresh] = before.try_emplace(key, end, piece);
            if (fresh) continue;
            auto& [last, of] = it->second;
            if (offset < last && piece != of)
                fault(procedure.name + ": pieces " + std::to_string(of) + " and " +
                      std::to_string(piece) + " of " +
                      (key.first == Frame::resident ? name_of(key.second)
                                                    : std::string(name(key.first))) +
                      " share bytes");
            if (end >= last) std::tie(last, of) = std::pair(end, piece);
        }
    }

    void check(const Step& step, std::int32_t now, const Extent& extent) {
        for (const auto& [key, end] : extent.ends) {
            const std::int32_t id =
                key.first == Frame::resident ? key.second : step.resident(key.first);
            if (end > bytes_of(id)) {
                fault(to_text(step.action) + " takes " + std::to_string(end) + " bytes of " +
                      name_of(id) + ", which has " + std::to_string(bytes_of(id)));
                continue;
            }
            if (key.first != Frame::resident) continue;  // check_memory looks at frames
            const Resident& resident = program_.residents[static_cast<std::size_t>(id)];
            if (now < resident.first_step || now > resident.last_step)
                fault(to_text(step.action) + " touches " + resident.name + " outside its life");
        }
    }

    const Plan& plan_;
    const Program& program_;
    std::vector<std::string>& faults_;
};

}  // namespace

void check_bindings(const Plan& plan, const Program& program, std::vector<std::string>& faults) {
    BindingWalk(plan, program, faults).run();
}

}  // namespace orrery::plan
