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
struct Places {
    std::int32_t device = -1;  // as forward left it
    std::int32_t away = -1;    // in host memory, for good or on the way to disk
    std::int32_t disk = -1;
    std::int32_t back = -1;     // in host memory again, on the way from disk
    std::int32_t fetched = -1;  // on the device again
};

// A stash on its way; steps are numbered as they were before any was inserted.
struct Journey {
    Action forward;
    std::size_t made = 0;    // step of the forward action
    std::size_t needed = 0;  // first step that reads the stash
    std::size_t fetch = 0;   // fetched before this one
    std::size_t kept = 0;    // the device's memory is given up behind this one
    Places stash;
    Places received;
};

class ActivationOffload {
  public:
    explicit ActivationOffload(ProgramBuilder& builder)
        : builder_(builder),
          program_(builder.program),
          tier_(tier_of(builder.scenario.layout.offload.activations)) {}

    void run() {
        find_journeys();
        for (Journey& journey : journeys_)
            plan_moves(journey);
        insert_steps();
        for (const Journey& journey : journeys_)
            settle_lives(journey);
    }

  private:
    static constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max();

    Resident& resident(std::int32_t id) { return program_.residents[static_cast<std::size_t>(id)]; }

    // Stashes that are needed again so soon that they would be fetched as they leave stay.
    void find_journeys() {
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
            Journey journey;
            journey.made = actions[since];
            journey.needed = s;
            journey.fetch = actions[now - ahead];
            journey.kept = actions[since + ahead];
            journey.forward = program_.steps[journey.made].action;
            journeys_.push_back(journey);
        }
    }

    const Stage& stage_of(const Journey& journey) const {
        return *std::find_if(
            program_.stages.begin(), program_.stages.end(),
            [&](const Stage& stage) { return stage.index == journey.forward.stage; });
    }

    // Whether backward reads what the stage received, too.
    bool keeps_received(const Journey& journey) const {
        if (journey.forward.stage == 0) return false;
        const Block& first = builder_.blocks.block(stage_of(journey).parts.front().forward);
        return first.tensors[static_cast<std::size_t>(first.input)].role == Role::stash;
    }

    Places places_of(std::int32_t device) {
        const std::int64_t bytes = resident(device).bytes;
        auto add = [&](const char* what, Tier tier) {
            const std::int32_t id = builder_.add_resident(what + (' ' + resident(device).name),
                                                          MemoryCategory::activations, bytes);
            resident(id).tier = tier;
            resident(id).first_step = kLast;
            return id;
        };
        Places places;
        places.device = device;
        places.away = add(tier_ == Tier::disk ? "spilling" : "offloaded", Tier::host);
        if (tier_ == Tier::disk) {
            places.disk = add("spilled", Tier::disk);
            places.back = add("loading", Tier::host);
        }
        places.fetched = add("fetched", Tier::device);
        return places;
    }

    void plan_moves(Journey& journey) {
        journey.stash = places_of(program_.steps[journey.made].stash);
        if (keeps_received(journey))
            journey.received = places_of(program_.steps[journey.made].input);
        const Places &s = journey.stash, &r = journey.received;
        auto& out = inserted_[journey.made + 1];
        out.push_back(move(journey, ActionKind::offload, s.device, s.away, r.device, r.away));
        auto& in = inserted_[journey.fetch];
        std::int32_t stash = s.away, received = r.away;
        if (tier_ == Tier::disk) {
            out.push_back(move(journey, ActionKind::spill, s.away, s.disk, r.away, r.disk));
            in.push_back(move(journey, ActionKind::load, s.back, s.disk, r.disk, r.back));
            stash = s.back;
            received = r.back;
        }
        in.push_back(move(journey, ActionKind::fetch, s.fetched, stash, received, r.fetched));
        for (std::size_t i = journey.needed; i < program_.steps.size(); ++i) {
            Step& step = program_.steps[i];
            if (step.stash == s.device) step.stash = s.fetched;
            if (r.device >= 0 && step.received == r.device) step.received = r.fetched;
        }
    }

    Step move(const Journey& journey, ActionKind kind, std::int32_t stash, std::int32_t stored,
              std::int32_t input, std::int32_t output) {
        Step step;
        step.action = {journey.forward.stage, kind, journey.forward.micro_batch};
        step.stash = stash;
        step.stored = stored;
        step.input = input;
        step.output = output;
        step.procedure = procedure_of(journey, kind);
        return step;
    }

    std::int32_t procedure_of(const Journey& journey, ActionKind kind) {
        const auto key = std::pair(journey.forward.stage, kind);
        const auto found = procedures_.find(key);
        if (found != procedures_.end()) return found->second;
        const Stage& stage = stage_of(journey);
        const StageAreas& areas = builder_.areas_of(stage.index);
        const bool away = kind == ActionKind::offload || kind == ActionKind::spill;
        std::vector<BlockUse> uses;
        if (keeps_received(journey)) {
            uses.push_back(use_of(kind, "received", resident(journey.received.device).bytes));
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

    // Steps get new numbers; so do the lives that are told in them.
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

    void settle_lives(const Journey& journey) {
        const std::int32_t kept = now_at_[journey.kept];
        for (const Places* places : {&journey.stash, &journey.received}) {
            if (places->device < 0) continue;
            for (const std::int32_t id :
                 {places->away, places->disk, places->back, places->fetched}) {
                if (id < 0) continue;
                std::tie(resident(id).first_step, resident(id).last_step) = moved_.at(id);
            }
            Resident& device = resident(places->device);
            resident(places->fetched).last_step = device.last_step;  // of whoever reads it
            device.last_step = std::max(kept, moved_.at(places->device).second);
            if (places->disk >= 0)  // the buffer, too, is given up only when it has been written
                resident(places->away).last_step = std::max(kept, moved_.at(places->away).second);
        }
    }

    ProgramBuilder& builder_;
    Program& program_;
    Tier tier_;
    std::vector<Journey> journeys_;
    std::map<std::pair<std::int32_t, ActionKind>, std::int32_t> procedures_;
    std::map<std::size_t, std::vector<Step>> inserted_;                    // before each step
    std::vector<std::int32_t> now_at_;                                     // of each step there was
    std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> moved_;  // lives in moves
};

}  // namespace

void offload_activations(ProgramBuilder& builder) {
    ActivationOffload(builder).run();
}

}  // namespace orrery::plan
