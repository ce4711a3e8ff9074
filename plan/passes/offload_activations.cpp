#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "plan/check.hpp"
#include "plan/passes/offload.hpp"

namespace orrery::plan {
namespace {

// What one stage and micro-batch keeps, where it is in turn; −1: not there.
struct TierCopies {
    std::int32_t device = -1;  // as forward left it
    std::int32_t away = -1;    // in host memory, for good or on the way to disk
    std::int32_t disk = -1;
    std::int32_t back = -1;     // in host memory again, on the way from disk
    std::int32_t fetched = -1;  // on the device again
};

// A stash that leaves the device and comes back; steps are numbered as they were before any was
// inserted.
struct OffloadedStash {
    Action forward;
    std::size_t made = 0;    // step of the forward action
    std::size_t needed = 0;  // first step that reads the stash
    std::size_t fetch = 0;   // fetched before this one
    std::size_t kept = 0;    // the device's memory is given up behind this one
    TierCopies stash;
    TierCopies received;
};

class ActivationOffload {
  public:
    explicit ActivationOffload(ProgramBuilder& builder)
        : builder_(builder),
          program_(builder.program),
          tier_(tier_of(builder.scenario.layout.offload.activations)) {}

    void run() {
        find_offloaded();
        for (OffloadedStash& offloaded : offloaded_)
            plan_moves(offloaded);
        insert_steps();
        for (const OffloadedStash& offloaded : offloaded_)
            settle_live_ranges(offloaded);
    }

  private:
    static constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max();

    Resident& resident(std::int32_t id) { return program_.residents[static_cast<std::size_t>(id)]; }

    // Stashes that are needed again so soon that they would be fetched as they leave stay.
    void find_offloaded() {
        const std::int64_t prefetch = builder_.scenario.layout.offload.prefetch;
        std::vector<std::size_t> actions;          // steps with a stash
        std::map<std::int32_t, std::size_t> made;  // by stash: index into actions
        std::map<std::int32_t, bool> met;
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            const Step& step = program_.steps[s];
            if (step.stash < 0) continue;
            actions.push_back(s);
            const std::size_t now = actions.size() - 1;
            if (step.action.kind == ActionKind::forward) {
                made[step.stash] = now;
                continue;
            }
            if (std::exchange(met[step.stash], true)) continue;
            const std::size_t since = made.at(step.stash);
            const auto ahead = static_cast<std::size_t>(prefetch);
            if (now - since <= ahead + 1) continue;
            OffloadedStash offloaded;
            offloaded.made = actions[since];
            offloaded.needed = s;
            offloaded.fetch = actions[now - ahead];
            offloaded.kept = actions[since + ahead];
            offloaded.forward = program_.steps[offloaded.made].action;
            offloaded_.push_back(offloaded);
        }
    }

    const Stage& stage_of(const OffloadedStash& offloaded) const {
        return *std::find_if(
            program_.stages.begin(), program_.stages.end(),
            [&](const Stage& stage) { return stage.index == offloaded.forward.stage; });
    }

    // Whether backward reads what the stage received, too.
    bool keeps_received(const OffloadedStash& offloaded) const {
        if (offloaded.forward.stage == 0) return false;
        const Block& first = builder_.blocks.block(stage_of(offloaded).parts.front().forward);
        return first.tensors[static_cast<std::size_t>(first.input)].role == Role::stash;
    }

    TierCopies copies_of(std::int32_t device) {
        const std::int64_t bytes = resident(device).bytes;
        auto add = [&](const char* what, Tier tier) {
            const std::int32_t id = builder_.add_resident(what + (' ' + resident(device).name),
                                                          MemoryCategory::activations, bytes);
            resident(id).tier = tier;
            resident(id).first_step = kLast;
            return id;
        };
        TierCopies copies;
        copies.device = device;
        copies.away = add(tier_ == Tier::disk ? "spilling" : "offloaded", Tier::host);
        if (tier_ == Tier::disk) {
            copies.disk = add("spilled", Tier::disk);
            copies.back = add("loading", Tier::host);
        }
        copies.fetched = add("fetched", Tier::device);
        return copies;
    }

    void plan_moves(OffloadedStash& offloaded) {
        offloaded.stash = copies_of(program_.steps[offloaded.made].stash);
        if (keeps_received(offloaded))
            offloaded.received = copies_of(program_.steps[offloaded.made].input);
        const TierCopies &s = offloaded.stash, &r = offloaded.received;
        auto& out = inserted_[offloaded.made + 1];
        out.push_back(move(offloaded, ActionKind::offload, s.device, s.away, r.device, r.away));
        auto& in = inserted_[offloaded.fetch];
        std::int32_t stash = s.away, received = r.away;
        if (tier_ == Tier::disk) {
            out.push_back(move(offloaded, ActionKind::spill, s.away, s.disk, r.away, r.disk));
            in.push_back(move(offloaded, ActionKind::load, s.back, s.disk, r.disk, r.back));
            stash = s.back;
            received = r.back;
        }
        in.push_back(move(offloaded, ActionKind::fetch, s.fetched, stash, received, r.fetched));
        for (std::size_t i = offloaded.needed; i < program_.steps.size(); ++i) {
            Step& step = program_.steps[i];
            if (step.stash == s.device) step.stash = s.fetched;
            if (r.device >= 0 && step.received == r.device) step.received = r.fetched;
        }
    }

    Step move(const OffloadedStash& offloaded, ActionKind kind, std::int32_t stash,
              std::int32_t stored, std::int32_t input, std::int32_t output) {
        Step step;
        step.action = {offloaded.forward.stage, kind, offloaded.forward.micro_batch};
        step.stash = stash;
        step.stored = stored;
        step.input = input;
        step.output = output;
        step.procedure = procedure_of(offloaded, kind);
        return step;
    }

    std::int32_t procedure_of(const OffloadedStash& offloaded, ActionKind kind) {
        const auto key = std::pair(offloaded.forward.stage, kind);
        const auto found = procedures_.find(key);
        if (found != procedures_.end()) return found->second;
        const Stage& stage = stage_of(offloaded);
        const StageAreas& areas = builder_.areas_of(stage.index);
        const bool away = kind == ActionKind::offload || kind == ActionKind::spill;
        std::vector<BlockUse> uses;
        if (keeps_received(offloaded)) {
            uses.push_back(use_of(kind, "received", resident(offloaded.received.device).bytes));
            uses.back().slots = {{Frame::input}, {Frame::output}};
        }
        for (std::size_t p = 0; p < stage.parts.size(); ++p) {
            const std::int64_t offset = areas.parts[p].stash;
            const std::int64_t end =
                p + 1 < stage.parts.size() ? areas.parts[p + 1].stash : areas.stash_bytes;
            if (end == offset) continue;
            BlockUse use = use_of(kind, "stash", end - offset);
            use.position = static_cast<std::int32_t>(p);
            use.layer = stage.parts[p].layer;
            // Offloading takes from the stash what fetching puts there.
            use.slots = {{away ? Frame::stash : Frame::stored, -1, use.position, offset},
                         {away ? Frame::stored : Frame::stash, -1, use.position, offset}};
            uses.push_back(use);
        }
        if (!away) std::reverse(uses.begin(), uses.end());  // as backward needs them
        return procedures_[key] = builder_.add_procedure(
                   name_of(kind) + (' ' + std::to_string(stage.index)), std::move(uses));
    }

    static std::string name_of(ActionKind kind) {
        switch (kind) {
            case ActionKind::offload:
                return "offload";
            case ActionKind::spill:
                return "spill";
            case ActionKind::load:
                return "load";
            default:
                return "fetch";
        }
    }

    BlockUse use_of(ActionKind action, const char* what, std::int64_t bytes) {
        OpKind kind = OpKind::copy_to_device;
        if (action == ActionKind::offload) kind = OpKind::copy_to_host;
        if (action == ActionKind::spill) kind = OpKind::write_disk;
        if (action == ActionKind::load) kind = OpKind::read_disk;
        const bool away = action == ActionKind::offload || action == ActionKind::spill;
        BlockUse use;
        Block block =
            copy_block(kind, away ? Phase::forward : Phase::backward, what, DType::u8, bytes);
        // What leaves the device gives its memory up, and so follows those that read it, too: the
        // host brings tokens when the first of them comes.
        if (action == ActionKind::offload) block.ops.front().writes.push_back(0);
        use.block = builder_.blocks.add(std::move(block));
        return use;
    }

    // Steps get new numbers; so do the live ranges that are told in them.
    void insert_steps() {
        std::vector<Step> steps;
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            for (Step& step : inserted_[s]) {
                const auto now = static_cast<std::int32_t>(steps.size());
                for (const std::int32_t id : {step.stash, step.stored, step.input, step.output}) {
                    if (id < 0) continue;
                    moved_.try_emplace(id, now, now).first->second.second = now;
                }
                steps.push_back(std::move(step));
            }
            now_at_.push_back(static_cast<std::int32_t>(steps.size()));
            steps.push_back(std::move(program_.steps[s]));
        }
        ORRERY_CHECK(inserted_[now_at_.size()].empty(), "a stash is read after it is made");
        program_.steps = std::move(steps);
        for (Resident& r : program_.residents) {
            if (r.first_step < 0 || r.first_step == kLast) continue;
            r.first_step = now_at_[static_cast<std::size_t>(r.first_step)];
            r.last_step = now_at_[static_cast<std::size_t>(r.last_step)];
        }
    }

    void settle_live_ranges(const OffloadedStash& offloaded) {
        const std::int32_t kept = now_at_[offloaded.kept];
        for (const TierCopies* copies : {&offloaded.stash, &offloaded.received}) {
            if (copies->device < 0) continue;
            for (const std::int32_t id :
                 {copies->away, copies->disk, copies->back, copies->fetched}) {
                if (id < 0) continue;
                std::tie(resident(id).first_step, resident(id).last_step) = moved_.at(id);
            }
            Resident& device = resident(copies->device);
            resident(copies->fetched).last_step = device.last_step;  // of whoever reads it
            device.last_step = std::max(kept, moved_.at(copies->device).second);
            if (copies->disk >= 0)  // the buffer, too, is given up only when it has been written
                resident(copies->away).last_step = std::max(kept, moved_.at(copies->away).second);
        }
    }

    ProgramBuilder& builder_;
    Program& program_;
    Tier tier_;
    std::vector<OffloadedStash> offloaded_;
    std::map<std::pair<std::int32_t, ActionKind>, std::int32_t> procedures_;
    std::map<std::size_t, std::vector<Step>> inserted_;                    // before each step
    std::vector<std::int32_t> now_at_;                                     // of each step there was
    std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> moved_;  // live ranges in moves
};

}  // namespace

void offload_activations(ProgramBuilder& builder) {
    ActivationOffload(builder).run();
}

}  // namespace orrery::plan
