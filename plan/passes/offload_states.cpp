#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "plan/check.hpp"
#include "plan/passes/offload.hpp"

namespace orrery::plan {
namespace {

// States of one kind that are kept off the device.
struct Kind {
    const char* name;
    std::int32_t Bucket::*state;
    KeptOn kept;
    DType dtype;
};

// How one use touches the device's copy of a state.
struct Touch {
    std::int32_t view = -1;
    bool needs_old = false;  // reads it, or writes only a part
    bool writes = false;
};

// Uses in a row, as far as its slot is concerned, that work on the same copy.
struct Run {
    std::int32_t view = -1;
    std::size_t first = 0;  // uses
    std::size_t last = 0;
    std::size_t free = 0;  // from here on nobody else needs the slot
    Phase phase = Phase::forward;
    bool first_sum = false;  // of gradients: overwrites what is there
    bool fetched = false;
    bool stored = false;
};

class StateOffload {
  public:
    explicit StateOffload(ProgramBuilder& builder)
        : builder_(builder), program_(builder.program), offload_(builder.scenario.layout.offload) {}

    void run() {
        const Dims& dims = builder_.dims;
        add({"parameters", &Bucket::parameters, offload_.parameters, dims.dtype});
        add({"gradients", &Bucket::gradients, offload_.gradients, dims.gradient_dtype});
        add({"optimizer", &Bucket::optimizer, offload_.optimizer, type_of_states()});
        rename_in_uses();
        rewrite_steps();
    }

  private:
    Resident& resident(std::int32_t id) { return program_.residents[static_cast<std::size_t>(id)]; }

    // Of what is copied: bytes, where states are of several types.
    DType type_of_states() const {
        for (const Bucket& bucket : program_.buckets)
            if (const auto states = bucket.optimizer_states(); !states.empty())
                return of_one_type(states) ? states.front().dtype : DType::u8;
        return builder_.dims.wide_dtype;
    }

    // Backing residents move to another tier, and buckets point to views of slots.
    void add(const Kind& kind) {
        if (kind.kept == KeptOn::none) return;
        kinds_.push_back(kind);
        struct Backing {
            std::int32_t id = -1;
            std::size_t slot = 0;
        };
        std::vector<Backing> backings;
        const auto ring = static_cast<std::size_t>(offload_.prefetch) + 1;
        // A layer needs its experts, or what is frozen beside adapters, and its others at once, and
        // a tied embedding both of its gradients.
        std::array<std::size_t, 4> placed{};  // by sort of bucket
        for (const Bucket& bucket : program_.buckets) {
            const std::int32_t id = bucket.*kind.state;
            const bool known = std::any_of(backings.begin(), backings.end(),
                                           [&](const Backing& b) { return b.id == id; });
            if (id < 0 || known) continue;
            const std::size_t sort = (bucket.experts ? 1 : 0) + (bucket.frozen ? 2 : 0);
            const bool own = needs_own_slot(kind, id);
            const std::size_t slot = own ? ring : sort * (ring + 1) + placed[sort]++ % ring;
            backings.push_back({id, slot});
        }
        std::map<std::size_t, std::int32_t> slots, host_slots;  // by number
        for (const auto& [backing, slot] : backings) {
            resident(backing).tier = tier_of(kind.kept);
            std::int32_t below = backing;
            if (kind.kept == KeptOn::disk)
                below = view(host_slots, slot, kind, Tier::host, backing, backing);
            const std::int32_t top = view(slots, slot, kind, Tier::device, below, backing);
            views_[backing] = top;
            kind_of_[top] = kinds_.size() - 1;
        }
        for (Bucket& bucket : program_.buckets)
            if (bucket.*kind.state >= 0) bucket.*kind.state = views_.at(bucket.*kind.state);
    }

    bool needs_own_slot(const Kind& kind, std::int32_t backing) const {
        if (kind.state != &Bucket::gradients) return false;
        return std::any_of(program_.buckets.begin(), program_.buckets.end(), [&](const Bucket& b) {
            return b.tied_elements > 0 && b.gradients == backing;
        });
    }

    // A view of slot `number` on `tier`, of what `below` has.
    std::int32_t view(std::map<std::size_t, std::int32_t>& slots, std::size_t number,
                      const Kind& kind, Tier tier, std::int32_t below, std::int32_t backing) {
        const std::string where = tier == Tier::host ? "host slot " : "slot ";
        if (slots.count(number) == 0) {
            slots[number] =
                builder_.add_resident(kind.name + (' ' + where) + std::to_string(number),
                                      MemoryCategory::communication, 0);
            resident(slots[number]).tier = tier;
        }
        const std::int64_t bytes = resident(backing).bytes;
        Resident& slot = resident(slots[number]);
        slot.bytes = std::max(slot.bytes, bytes);
        const std::int32_t id =
            builder_.add_resident(resident(backing).name + " in " + where + std::to_string(number),
                                  MemoryCategory::communication, bytes);
        resident(id).tier = tier;
        resident(id).within = slots[number];
        resident(id).copy_of = below;
        return id;
    }

    void rename_in_uses() {
        for (Procedure& procedure : program_.procedures)
            for (BlockUse& use : procedure.uses)
                for (Slot& slot : use.slots)
                    if (const auto found = views_.find(slot.resident); found != views_.end())
                        slot.resident = found->second;
    }

    std::vector<Touch> touches(const BlockUse& use) {
        std::vector<Touch> found;
        const Block& block = builder_.blocks.block(use.block);
        auto touch = [&](TensorId id, bool writes) {
            const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
            const std::int32_t view = builder_.state_of(use, id);
            if (kind_of_.count(view) == 0) return;
            auto at = std::find_if(found.begin(), found.end(),
                                   [&](const Touch& t) { return t.view == view; });
            if (at == found.end()) at = found.insert(found.end(), {view, false, false});
            at->needs_old = at->needs_old || !writes || tensor.bytes() < resident(view).bytes;
            at->writes = at->writes || writes;
        };
        for (const Op& op : block.ops) {
            for (const TensorId id : op.reads)
                touch(id, false);
            for (const TensorId id : op.writes)
                touch(id, true);
        }
        return found;
    }

    // Runs of a procedure in order of their first use.
    std::vector<Run> runs_of(const std::vector<BlockUse>& uses) {
        std::vector<Run> runs;
        std::map<std::int32_t, std::size_t> now;  // by slot: its last run
        std::set<std::int32_t> summed = summed_;
        for (std::size_t u = 0; u < uses.size(); ++u)
            for (const Touch& touch : touches(uses[u])) {
                const std::int32_t slot = resident(touch.view).within;
                const auto before = now.find(slot);
                if (before == now.end() || runs[before->second].view != touch.view) {
                    Run run;
                    run.view = touch.view;
                    run.first = u;
                    run.phase = builder_.blocks.block(uses[u].block).ops.front().phase;
                    if (before != now.end()) {
                        const Run& other = runs[before->second];
                        run.free = other.last + 1;
                        ORRERY_CHECK(run.free <= u, "one use needs two states of one slot");
                        if (other.stored) summed.insert(other.view);
                    }
                    run.first_sum = is_gradient(touch.view) && summed.count(touch.view) == 0;
                    run.fetched = touch.needs_old && !run.first_sum;
                    now[slot] = runs.size();
                    runs.push_back(run);
                }
                Run& run = runs[now[slot]];
                run.last = u;
                run.stored = run.stored || touch.writes;
            }
        return runs;
    }

    bool is_gradient(std::int32_t view) const {
        return kinds_[kind_of_.at(view)].state == &Bucket::gradients;
    }

    void move(std::vector<BlockUse>& into, OpKind kind, const Run& run, std::int32_t from,
              std::int32_t to, const BlockUse& of) {
        const Kind& what = kinds_[kind_of_.at(run.view)];
        BlockUse use;
        use.block = builder_.blocks.add(
            copy_block(kind, run.phase, what.name, what.dtype, resident(run.view).bytes));
        use.layer = of.layer;
        use.bucket = of.bucket;
        builder_.place(use, Role::source, from);
        builder_.place(use, Role::target, to);
        into.push_back(use);
    }

    void fetch(std::vector<BlockUse>& into, const Run& run, const BlockUse& of) {
        const std::int32_t below = resident(run.view).copy_of;
        const std::int32_t backing = resident(below).copy_of;
        if (backing >= 0) move(into, OpKind::read_disk, run, backing, below, of);
        move(into, OpKind::copy_to_device, run, below, run.view, of);
    }

    void store(std::vector<BlockUse>& into, const Run& run, const BlockUse& of) {
        const std::int32_t below = resident(run.view).copy_of;
        const std::int32_t backing = resident(below).copy_of;
        move(into, OpKind::copy_to_host, run, run.view, below, of);
        if (backing >= 0) move(into, OpKind::write_disk, run, below, backing, of);
    }

    // Each run is fetched before the run of its kind that is `prefetch` before it, but not before
    // its slot is free, and stored behind its last use.
    std::vector<BlockUse> with_copies(const std::vector<BlockUse>& uses,
                                      const std::vector<Run>& runs) {
        std::vector<std::vector<BlockUse>> before(uses.size() + 1);
        for (const Run& run : runs)
            if (run.stored) store(before[run.last + 1], run, uses[run.last]);
        std::vector<std::vector<std::size_t>> order(kinds_.size());  // first uses, by kind
        const auto ahead = static_cast<std::size_t>(offload_.prefetch);
        for (const Run& run : runs) {
            auto& earlier = order[kind_of_.at(run.view)];
            earlier.push_back(run.first);
            const std::size_t wished =
                earlier.size() > ahead ? earlier[earlier.size() - 1 - ahead] : 0;
            if (run.fetched) fetch(before[std::max(wished, run.free)], run, uses[run.first]);
        }
        std::vector<BlockUse> all;
        for (std::size_t u = 0; u <= uses.size(); ++u) {
            all.insert(all.end(), before[u].begin(), before[u].end());
            if (u < uses.size()) all.push_back(uses[u]);
        }
        return all;
    }

    void rewrite_steps() {
        const std::vector<Procedure> plain = std::exchange(program_.procedures, {});
        std::map<std::pair<std::int32_t, std::vector<bool>>, std::int32_t> rewritten;
        std::vector<int> steps_of(plain.size());
        for (const Step& step : program_.steps)
            if (step.procedure >= 0) ++steps_of[static_cast<std::size_t>(step.procedure)];
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            Step& step = program_.steps[s];
            if (step.procedure < 0) continue;
            const Procedure& procedure = plain[static_cast<std::size_t>(step.procedure)];
            const std::vector<Run> runs = runs_of(procedure.uses);
            std::vector<bool> fetched;
            bool first_sums = false;
            for (const Run& run : runs) {
                live_during(run.view, static_cast<std::int32_t>(s));
                fetched.push_back(run.fetched);
                first_sums = first_sums || run.first_sum;
            }
            const auto key = std::pair(step.procedure, fetched);
            if (const auto found = rewritten.find(key); found != rewritten.end()) {
                step.procedure = found->second;
            } else {
                // The first of several: what later micro-batches run adds to what it has made.
                const bool several =
                    first_sums && steps_of[static_cast<std::size_t>(step.procedure)] > 1;
                step.procedure = rewritten[key] = builder_.add_procedure(
                    (several ? "first " : "") + procedure.name, with_copies(procedure.uses, runs));
            }
            for (const Run& run : runs)
                if (run.stored) summed_.insert(run.view);
        }
    }

    // A slot lives from the first step that uses it to the last.
    void live_during(std::int32_t view, std::int32_t step) {
        for (; resident(view).copy_of >= 0; view = resident(view).copy_of)
            for (const std::int32_t id : {view, resident(view).within}) {
                Resident& r = resident(id);
                if (r.first_step < 0) r.first_step = step;
                r.last_step = step;
            }
    }

    ProgramBuilder& builder_;
    Program& program_;
    const Offload& offload_;
    std::vector<Kind> kinds_;
    std::map<std::int32_t, std::int32_t> views_;   // of each backing, on the device
    std::map<std::int32_t, std::size_t> kind_of_;  // of each view on the device
    std::set<std::int32_t> summed_;                // gradients that have a first term
};

}  // namespace

void offload_states(ProgramBuilder& builder) {
    StateOffload(builder).run();
}

}  // namespace orrery::plan
