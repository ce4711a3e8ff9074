#include "plan/build/bind_steps.hpp"

#include <algorithm>
#include <map>

#include "plan/build/procedures.hpp"
#include "plan/build/stages.hpp"

namespace orrery::plan {
namespace {

class StepBinder {
  public:
    StepBinder(ProgramBuilder& builder, std::int64_t boundary_bytes)
        : builder_(builder),
          boundary_bytes_(boundary_bytes),
          transfer_bytes_(boundary_elements(builder.scenario, builder.dims) *
                          size_bytes(builder.dims.dtype)) {
        for (const Stage& stage : builder.program.stages)
            procedures_[stage.index] = add_procedures(builder, stage);
    }

    void add(const LoweredStep& lowered) {
        Step step;
        step.action = lowered.actions.front();
        if (is_transfer(step.action.kind))
            for (const Action& action : lowered.actions)
                add_transfer(step, action);
        else if (step.action.kind == ActionKind::forward)
            bind_forward(step);
        else
            bind_backward(step);
        builder_.program.steps.push_back(std::move(step));
    }

  private:
    using Key = std::pair<std::int32_t, std::int32_t>;  // stage, micro-batch

    static Key key(const Action& action) { return {action.stage, action.micro_batch}; }
    std::int32_t now() const { return static_cast<std::int32_t>(builder_.program.steps.size()); }
    Resident& resident(std::int32_t id) {
        return builder_.program.residents[static_cast<std::size_t>(id)];
    }
    bool last_stage(std::int32_t stage) const {
        return stage == static_cast<std::int32_t>(builder_.scenario.layout.stages()) - 1;
    }

    std::int32_t born(const std::string& name, const Action& action, MemoryCategory category,
                      std::int64_t bytes) {
        const std::int32_t id =
            builder_.add_resident(name + " " + to_text(action), category, bytes);
        resident(id).first_step = now();
        resident(id).last_step = now();
        return id;
    }

    std::int64_t stash_bytes(std::int32_t stage_index) const {
        for (const Stage& stage : builder_.program.stages)
            if (stage.index == stage_index) return stage.stash_bytes;
        return 0;
    }

    // Parameters that are kept until backward stay while any micro-batch in flight needs them.
    std::int32_t forward_procedure(std::int32_t stage_index) {
        if (!builder_.keeps_gathered() || in_flight_[stage_index]++ == 0)
            return procedures_.at(stage_index).forward;
        const auto found = gathered_forward_.find(stage_index);
        if (found != gathered_forward_.end()) return found->second;
        const auto stage =
            std::find_if(builder_.program.stages.begin(), builder_.program.stages.end(),
                         [&](const Stage& s) { return s.index == stage_index; });
        return gathered_forward_[stage_index] = add_gathered_forward(builder_, *stage);
    }

    void bind_forward(Step& step) {
        const Action& action = step.action;
        step.procedure = forward_procedure(action.stage);
        step.stash = stash_[key(action)] =
            born("stash", action, MemoryCategory::activations, stash_bytes(action.stage));
        if (action.stage > 0) step.input = received_f_.at(key(action));
        if (!last_stage(action.stage))
            step.output = sending_f_[key(action)] =
                born("sending", action, MemoryCategory::communication, boundary_bytes_);
    }

    void bind_backward(Step& step) {
        const Action& action = step.action;
        const bool last = action.micro_batch ==
                          static_cast<std::int32_t>(builder_.scenario.layout.micro_batches()) - 1;
        const StageProcedures& procedures = procedures_.at(action.stage);
        --in_flight_[action.stage];
        step.procedure = last ? procedures.last_backward : procedures.backward;
        step.stash = stash_.at(key(action));
        resident(step.stash).last_step = now();
        if (action.stage > 0) resident(received_f_.at(key(action))).last_step = now();
        if (!last_stage(action.stage)) {
            step.input = received_b_.at(key(action));
            resident(step.input).last_step = now();
        }
        if (action.stage > 0)
            step.output = sending_b_[key(action)] =
                born("sending", action, MemoryCategory::communication, boundary_bytes_);
    }

    void add_transfer(Step& step, const Action& action) {
        Transfer transfer;
        transfer.action = action;
        const bool to_next = action.kind == ActionKind::send_f || action.kind == ActionKind::recv_b;
        transfer.peer = builder_.placement.rank_of(action.stage + (to_next ? 1 : -1));
        transfer.bytes = transfer_bytes_;
        switch (action.kind) {
            case ActionKind::send_f:
                transfer.resident = sending_f_.at(key(action));
                break;
            case ActionKind::send_b:
                transfer.resident = sending_b_.at(key(action));
                break;
            case ActionKind::recv_f:  // kept for backward, hence an activation
                transfer.resident = received_f_[key(action)] =
                    born("received", action, MemoryCategory::activations, boundary_bytes_);
                break;
            default:
                transfer.resident = received_b_[key(action)] =
                    born("received", action, MemoryCategory::communication, boundary_bytes_);
        }
        resident(transfer.resident).last_step =
            std::max(resident(transfer.resident).last_step, now());
        step.transfers.push_back(transfer);
    }

    ProgramBuilder& builder_;
    std::int64_t boundary_bytes_;  // of a whole boundary activation: what a buffer holds
    std::int64_t transfer_bytes_;  // of what one rank sends of it
    std::map<std::int32_t, StageProcedures> procedures_;
    std::map<std::int32_t, std::int32_t> gathered_forward_;  // by stage
    std::map<std::int32_t, std::int32_t> in_flight_;         // micro-batches, by stage
    std::map<Key, std::int32_t> stash_, sending_f_, sending_b_, received_f_, received_b_;
};

}  // namespace

void bind_steps(ProgramBuilder& builder, std::int64_t boundary_bytes,
                const std::vector<LoweredStep>& row) {
    StepBinder binder(builder, boundary_bytes);
    for (const LoweredStep& step : row)
        binder.add(step);
}

}  // namespace orrery::plan
