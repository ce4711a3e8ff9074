#include "plan/memory/arena.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plan/check.hpp"

namespace orrery::plan {
namespace {

bool is_persistent(const Program& program, const Resident& resident) {
    return resident.first_step == 0 &&
           resident.last_step + 1 == static_cast<std::int32_t>(program.steps.size());
}

// Free memory as offset → bytes, with who occupied each piece last.
class FreeList {
  public:
    // Lowest piece that is large enough, growing the arena where none is.
    std::int64_t take(std::int64_t bytes) {
        for (auto it = pieces_.begin(); it != pieces_.end(); ++it) {
            if (it->second < bytes) continue;
            const auto [offset, size] = *it;
            pieces_.erase(it);
            if (size > bytes) pieces_[offset + bytes] = size - bytes;
            return offset;
        }
        std::int64_t offset = end_;
        if (!pieces_.empty()) {  // the last piece may touch the end: grow it
            const auto last = std::prev(pieces_.end());
            if (last->first + last->second == end_) {
                offset = last->first;
                pieces_.erase(last);
            }
        }
        end_ = offset + bytes;
        return offset;
    }

    void give_back(std::int64_t offset, std::int64_t bytes) {
        auto it = pieces_.emplace(offset, bytes).first;
        const auto next = std::next(it);
        if (next != pieces_.end() && offset + bytes == next->first) {
            it->second += next->second;
            pieces_.erase(next);
        }
        if (it != pieces_.begin()) {
            const auto before = std::prev(it);
            if (before->first + before->second == it->first) {
                before->second += it->second;
                pieces_.erase(it);
            }
        }
    }

    std::int64_t end() const { return end_; }

  private:
    std::map<std::int64_t, std::int64_t> pieces_;
    std::int64_t end_ = 0;
};

bool shares_memory(const Resident& a, const Resident& b) {
    return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Part of the arena whose pieces only its own residents pass on to each other.
class Pool {
  public:
    explicit Pool(Program& program) : program_(program) {}

    void allocate(std::int32_t id) {
        Resident& resident = at(id);
        resident.offset = memory_.take(resident.bytes);
        // Everyone who had its memory before, back to one who had exactly the same: what came
        // before that one is known to have ended through it.
        for (auto it = freed_.rbegin(); it != freed_.rend(); ++it) {
            const Resident& old = at(*it);
            if (!shares_memory(resident, old)) continue;
            resident.reuses.push_back(*it);
            if (old.offset == resident.offset && old.bytes == resident.bytes) break;
        }
        members_.push_back(id);
    }

    void free(std::int32_t id) {
        memory_.give_back(at(id).offset, at(id).bytes);
        freed_.push_back(id);
    }

    // Moves the pool to `base`; returns its end.
    std::int64_t settle(std::int64_t base) {
        for (std::int32_t id : members_)
            at(id).offset += base;
        return base + memory_.end();
    }

  private:
    Resident& at(std::int32_t id) { return program_.residents[static_cast<std::size_t>(id)]; }

    Program& program_;
    FreeList memory_;
    std::vector<std::int32_t> freed_;
    std::vector<std::int32_t> members_;
};

// Residents that transfers fill or empty; compute alone touches the others.
std::vector<bool> transferred(const Program& program) {
    std::vector<bool> is_transferred(program.residents.size(), false);
    for (const Step& step : program.steps)
        for (const Transfer& transfer : step.transfers)
            is_transferred[static_cast<std::size_t>(transfer.resident)] = true;
    return is_transferred;
}

std::set<std::int32_t> stages_without_layers(const Program& program) {
    std::set<std::int32_t> found;
    for (const Stage& stage : program.stages)
        if (std::all_of(stage.parts.begin(), stage.parts.end(),
                        [](const StagePart& part) { return part.layer < 0; }))
            found.insert(stage.index);
    return found;
}

}  // namespace

std::map<std::string, std::int64_t> scalar_offsets(const std::vector<Block>& blocks,
                                                   const Program& program) {
    constexpr std::int64_t kScalarAlignment = 16;
    std::map<std::string, std::int64_t> scalars;  // bytes first
    for (const Procedure& procedure : program.procedures)
        for (const BlockUse& use : procedure.uses)
            for (const Tensor& tensor : blocks[static_cast<std::size_t>(use.block)].tensors)
                if (tensor.role == Role::scalar) scalars[tensor.name] = tensor.bytes();
    std::int64_t end = 0;
    for (auto& [name, bytes] : scalars) {
        const std::int64_t size = (bytes + kScalarAlignment - 1) / kScalarAlignment;
        bytes = end;
        end += size * kScalarAlignment;
    }
    scalars[""] = end;
    return scalars;
}

// Four pools: what lives for the whole step; stashes and the like, which compute allocates and
// frees, so that their reuse makes nobody wait; those of stages without layers, each of which would
// take the room of a whole stash of layers and keep it from the next; and buffers of transfers. One
// of these is posted early, while compute still runs: it takes over memory only of buffers whose
// last compute step has been left behind, else it would wait for compute and hold up all transfers
// behind it.
static std::int64_t plan_tier(Program& program, Tier tier) {
    Pool persistent(program);
    Pool stash(program);
    Pool without_layers(program);
    Pool transfers(program);
    const std::vector<bool> is_transferred = transferred(program);
    const std::set<std::int32_t> layerless = stages_without_layers(program);
    const auto pool_of = [&](std::int32_t id) -> Pool& {
        if (is_transferred[static_cast<std::size_t>(id)]) return transfers;
        const Resident& resident = program.residents[static_cast<std::size_t>(id)];
        const Step& first = program.steps[static_cast<std::size_t>(resident.first_step)];
        return layerless.contains(first.action.stage) ? without_layers : stash;
    };
    std::vector<std::vector<std::int32_t>> first_used(program.steps.size());
    std::vector<std::vector<std::int32_t>> last_used(program.steps.size());
    for (std::size_t i = 0; i < program.residents.size(); ++i) {
        Resident& resident = program.residents[i];
        const auto id = static_cast<std::int32_t>(i);
        if (resident.tier != tier || resident.within >= 0) continue;
        resident.bytes = aligned(resident.bytes);
        resident.reuses.clear();
        if (is_persistent(program, resident)) {
            persistent.allocate(id);
            continue;
        }
        first_used[static_cast<std::size_t>(resident.first_step)].push_back(id);
        last_used[static_cast<std::size_t>(resident.last_step)].push_back(id);
    }
    std::vector<std::int32_t> to_free;  // transfer buffers, until the next compute step
    for (std::size_t step = 0; step < program.steps.size(); ++step) {
        const Step& now = program.steps[step];
        if (now.procedure >= 0 && !is_move(now.action.kind)) {
            for (std::int32_t id : to_free)
                transfers.free(id);
            to_free.clear();
        }
        for (std::int32_t id : first_used[step])
            pool_of(id).allocate(id);
        for (std::int32_t id : last_used[step]) {
            if (is_transferred[static_cast<std::size_t>(id)])
                to_free.push_back(id);
            else
                pool_of(id).free(id);
        }
    }
    return transfers.settle(without_layers.settle(stash.settle(persistent.settle(0))));
}

void plan_arena(Program& program) {
    program.arena_bytes = plan_tier(program, Tier::device);
    program.host_bytes = plan_tier(program, Tier::host);
    program.disk_bytes = plan_tier(program, Tier::disk);
    for (Resident& resident : program.residents) {
        if (resident.within < 0) continue;
        resident.bytes = aligned(resident.bytes);
        resident.offset = program.residents[static_cast<std::size_t>(resident.within)].offset;
    }
}

std::int64_t first_address(const Program& program, Tier tier) {
    if (tier == Tier::device) return 0;
    return program.arena_bytes + (tier == Tier::disk ? program.host_bytes : 0);
}

std::int64_t address_of(const Program& program, std::int32_t id) {
    const Resident& resident = program.residents[static_cast<std::size_t>(id)];
    return first_address(program, resident.tier) + resident.offset;
}

std::int32_t keeper_of(const Program& program, std::int32_t resident) {
    while (program.residents[static_cast<std::size_t>(resident)].copy_of >= 0)
        resident = program.residents[static_cast<std::size_t>(resident)].copy_of;
    return resident;
}

}  // namespace orrery::plan
