#include "plan/memory/arena.hpp"

#include <algorithm>
#include <map>

#include "plan/ir/check.hpp"

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

// Everyone who had its memory before, back to one who had exactly the same: what came before that
// one is known to have ended through it.
void note_reuse(Program& program, std::int32_t born, const std::vector<std::int32_t>& dead) {
    Resident& resident = program.residents[static_cast<std::size_t>(born)];
    for (auto it = dead.rbegin(); it != dead.rend(); ++it) {
        const Resident& old = program.residents[static_cast<std::size_t>(*it)];
        if (!shares_memory(resident, old)) continue;
        resident.reuses.push_back(*it);
        if (old.offset == resident.offset && old.bytes == resident.bytes) break;
    }
}

}  // namespace

void plan_arena(Program& program) {
    FreeList memory;
    std::vector<std::vector<std::int32_t>> births(program.steps.size());
    std::vector<std::vector<std::int32_t>> deaths(program.steps.size());
    for (std::size_t i = 0; i < program.residents.size(); ++i) {
        Resident& resident = program.residents[i];
        resident.bytes = aligned(resident.bytes);
        resident.reuses.clear();
        if (is_persistent(program, resident)) {
            resident.offset = memory.take(resident.bytes);
            continue;
        }
        births[static_cast<std::size_t>(resident.first_step)].push_back(
            static_cast<std::int32_t>(i));
        deaths[static_cast<std::size_t>(resident.last_step)].push_back(
            static_cast<std::int32_t>(i));
    }
    std::vector<std::int32_t> dead;
    for (std::size_t step = 0; step < program.steps.size(); ++step) {
        for (std::int32_t id : births[step]) {
            Resident& resident = program.residents[static_cast<std::size_t>(id)];
            resident.offset = memory.take(resident.bytes);
            note_reuse(program, id, dead);
        }
        for (std::int32_t id : deaths[step]) {
            const Resident& resident = program.residents[static_cast<std::size_t>(id)];
            memory.give_back(resident.offset, resident.bytes);
            dead.push_back(id);
        }
    }
    program.arena_bytes = memory.end();
}

}  // namespace orrery::plan
