#include "plan/memory/arena.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plan/memory/placement.hpp"

namespace orrery::plan {
namespace {

bool is_persistent(const Program& program, const Resident& resident) {
    return resident.first_step == 0 &&
           resident.last_step + 1 == static_cast<std::int32_t>(program.steps.size());
}

// Who had each piece of a part of the arena last.
class Occupants {
  public:
    // Those whose memory [begin, end) was, each once; it is `id`'s from now on. What came before
    // one of them is known to have ended through it.
    std::vector<std::int32_t> take(std::int64_t begin, std::int64_t end, std::int32_t id) {
        std::vector<std::int32_t> before;
        if (begin == end) return before;
        const std::size_t first = cut(begin), last = cut(end);
        for (std::size_t piece = first; piece < last; ++piece) {
            const std::int32_t owner = pieces_[piece].owner;
            if (owner >= 0 && std::find(before.begin(), before.end(), owner) == before.end())
                before.push_back(owner);
        }
        pieces_[first].owner = id;
        pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                      pieces_.begin() + static_cast<std::ptrdiff_t>(last));
        return before;
    }

  private:
    struct Piece {
        std::int64_t begin = 0;
        std::int32_t owner = -1;
    };

    // The number of the piece that begins there from now on.
    std::size_t cut(std::int64_t offset) {
        const auto after =
            std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                             [](std::int64_t at, const Piece& piece) { return at < piece.begin; });
        const auto number = static_cast<std::size_t>(after - pieces_.begin());
        const Piece of = pieces_[number - 1];
        if (of.begin == offset) return number - 1;
        pieces_.insert(after, {offset, of.owner});
        return number;
    }

    std::vector<Piece> pieces_ = {{}};  // by begin
};

// Part of the arena whose pieces only its own residents pass on to each other.
class Pool {
  public:
    explicit Pool(Program& program) : program_(program) {}

    // In order of birth. `last`: the step after which its memory may be another's.
    void add(std::int32_t id, std::int32_t last, bool apart = false) {
        members_.push_back(id);
        lifetimes_.push_back({at(id).bytes, at(id).first_step, last, apart});
    }

    // Lays the pool out from `base` on; returns its end.
    std::int64_t settle(std::int64_t base) {
        const Placement placement = place(lifetimes_);
        Occupants occupants;
        for (std::size_t i = 0; i < members_.size(); ++i) {
            Resident& resident = at(members_[i]);
            const std::int64_t offset = placement.offsets[i];
            resident.offset = base + offset;
            resident.reuses = occupants.take(offset, offset + resident.bytes, members_[i]);
        }
        return base + placement.bytes;
    }

  private:
    Resident& at(std::int32_t id) { return program_.residents[static_cast<std::size_t>(id)]; }

    Program& program_;
    std::vector<std::int32_t> members_;
    std::vector<Lifetime> lifetimes_;
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

// The last step before which a buffer of transfers that ends with a step is nobody else's: these
// are posted early, while compute still runs, so one takes over only memory whose last compute step
// has been left behind, else it would wait for compute and hold up all transfers behind it.
std::vector<std::int32_t> ends_of_transfers(const Program& program) {
    const auto steps = static_cast<std::int32_t>(program.steps.size());
    std::vector<std::int32_t> ends(program.steps.size());
    std::int32_t end = steps - 1;
    for (std::int32_t step = steps - 1; step >= 0; --step) {
        ends[static_cast<std::size_t>(step)] = end;
        const Step& of = program.steps[static_cast<std::size_t>(step)];
        if (of.procedure >= 0 && !is_move(of.action.kind)) end = step - 1;
    }
    return ends;
}

// Three pools: what lives for the whole step; stashes and the like, which compute allocates and
// frees, so that their reuse makes nobody wait; and buffers of transfers.
std::int64_t plan_tier(Program& program, Tier tier) {
    if (std::none_of(program.residents.begin(), program.residents.end(),
                     [&](const Resident& resident) { return resident.tier == tier; }))
        return 0;
    Pool persistent(program);
    Pool stash(program);
    Pool transfers(program);
    const std::vector<bool> is_transferred = transferred(program);
    const std::set<std::int32_t> layerless = stages_without_layers(program);
    const std::vector<std::int32_t> ends = ends_of_transfers(program);
    std::vector<std::int32_t> births;
    for (std::size_t i = 0; i < program.residents.size(); ++i) {
        Resident& resident = program.residents[i];
        if (resident.tier != tier || resident.within >= 0) continue;
        resident.bytes = aligned(resident.bytes);
        births.push_back(static_cast<std::int32_t>(i));
    }
    const auto at = [&](std::int32_t id) -> const Resident& {
        return program.residents[static_cast<std::size_t>(id)];
    };
    std::stable_sort(births.begin(), births.end(), [&](std::int32_t a, std::int32_t b) {
        return at(a).first_step < at(b).first_step;
    });
    for (const std::int32_t id : births) {
        const Resident& resident = at(id);
        const Step& first = program.steps[static_cast<std::size_t>(resident.first_step)];
        if (is_persistent(program, resident))
            persistent.add(id, resident.last_step);
        else if (is_transferred[static_cast<std::size_t>(id)])
            transfers.add(id, ends[static_cast<std::size_t>(resident.last_step)]);
        else
            stash.add(id, resident.last_step, layerless.contains(first.action.stage));
    }
    return transfers.settle(stash.settle(persistent.settle(0)));
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
