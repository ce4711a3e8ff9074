#include "plan/assemble/bind_steps.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/assemble/procedures.hpp"
#include "plan/assemble/stages.hpp"
#include "plan/check.hpp"
#include "plan/passes/pass_table.hpp"

namespace orrery::plan {
namespace {

// After which actions of a row gradients are complete.
class LastActions {
  public:
    LastActions(const ProgramBuilder& builder, const std::vector<LoweredStep>& row)
        : builder_(builder),
          on_the_way_(builder.program.stages.size()),
          waiting_(builder.program.stages.size()) {
        const std::int32_t self = builder.program.pipeline_rank;
        const std::int32_t embedding = builder.placement.embedding_of(self);
        const std::int32_t head = builder.placement.head_of(self);
        for (const LoweredStep& step : row) {
            const Action& action = step.action;
            if (makes_input_gradient(action.kind))
                on_the_way_[builder.chunk(action.stage)] = action;
            if (ends_micro_batch(action.kind)) waiting_[builder.chunk(action.stage)] = action;
            // Of the embedding's table, and of the head's.
            if ((action.stage == embedding && makes_input_gradient(action.kind)) ||
                (action.stage == head && ends_micro_batch(action.kind)))
                tied_ = action;
        }
        has_tied_ = builder.scenario.model.embeds_at_both_ends() && builder.holds(embedding) &&
                    builder.holds(head);
    }

    Completes completes(const Action& action) const {
        const std::size_t chunk = builder_.chunk(action.stage);
        return {on_the_way_[chunk] == action, waiting_[chunk] == action,
                has_tied_ && tied_ == action};
    }

  private:
    const ProgramBuilder& builder_;
    std::vector<std::optional<Action>> on_the_way_, waiting_;  // by chunk
    Action tied_;
    bool has_tied_ = false;
};

// The procedures of a program's backward actions, each once.
class BackwardProcedures {
  public:
    BackwardProcedures(ProgramBuilder& builder, const std::vector<LoweredStep>& row)
        : last_(builder, row) {
        std::set<Key> used;
        for (const LoweredStep& step : row)
            if (is_backward(step.action.kind)) used.insert(key(step.action));
        // As each stage is met, complete ones first.
        for (const Stage& stage : builder.program.stages) {
            first_forward_[stage.index] = add_first_forward(builder, stage);
            forward_[stage.index] = add_forward(builder, stage, true);
            for (auto it = used.rbegin(); it != used.rend(); ++it)
                if (const auto& [index, kind, completes] = *it; index == stage.index)
                    backward_[*it] = add_backward(builder, stage, kind, completes);
        }
    }

    std::int32_t forward(std::int32_t stage) const { return forward_.at(stage); }
    // −1: as any other.
    std::int32_t first_forward(std::int32_t stage) const { return first_forward_.at(stage); }
    std::int32_t backward(const Action& action) const { return backward_.at(key(action)); }

  private:
    using Key = std::tuple<std::int32_t, ActionKind, Completes>;

    static bool is_backward(ActionKind kind) {
        return makes_input_gradient(kind) || ends_micro_batch(kind);
    }
    Key key(const Action& action) const {
        return {action.stage, action.kind, last_.completes(action)};
    }

    LastActions last_;
    std::map<std::int32_t, std::int32_t> forward_, first_forward_;  // by stage
    std::map<Key, std::int32_t> backward_;
};

// The residents of micro-batches, by stage.
class Residents {
  public:
    using Key = std::pair<std::int32_t, std::int32_t>;  // stage, micro-batch

    explicit Residents(std::size_t micro_batches) : micro_batches_(micro_batches) {}

    std::int32_t& operator[](const Key& key) {
        const auto stage = static_cast<std::size_t>(key.first);
        if (stage >= of_stage_.size()) of_stage_.resize(stage + 1);
        std::vector<std::int32_t>& of = of_stage_[stage];
        if (of.empty()) of.assign(micro_batches_, -1);
        return of[static_cast<std::size_t>(key.second)];
    }
    // −1: none.
    std::int32_t find(const Key& key) const {
        const auto stage = static_cast<std::size_t>(key.first);
        const auto micro_batch = static_cast<std::size_t>(key.second);
        const bool known = stage < of_stage_.size() && micro_batch < of_stage_[stage].size();
        return known ? of_stage_[stage][micro_batch] : -1;
    }
    std::int32_t at(const Key& key) const {
        const std::int32_t id = find(key);
        ORRERY_CHECK(id >= 0, "what is sent has been made");
        return id;
    }

  private:
    std::size_t micro_batches_;
    std::vector<std::vector<std::int32_t>> of_stage_;
};

class StepBinder {
  public:
    StepBinder(ProgramBuilder& builder, const std::vector<LoweredStep>& row)
        : builder_(builder),
          boundary_bytes_(boundary_bytes(builder.dims)),
          transfer_bytes_(boundary_elements(builder.scenario, builder.dims) *
                          size_bytes(builder.dims.dtype)),
          procedures_(builder, row),
          shares_transfers_(scatters_transfers(builder.scenario, builder.dims)),
          blocking_(blocks_on_transfers(builder.scenario)),
          micro_batches_(static_cast<std::size_t>(builder.scenario.layout.micro_batches())) {
        if (builder.placement.pieces() == 0) return;
        for (std::size_t s = 0; s < row.size(); ++s)
            if (const Action& action = row[s].action;
                is_compute(action.kind) && action.stage >= builder.placement.stages())
                of_pieces_[{action.stage, action.kind}].push_back(static_cast<std::int32_t>(s));
    }

    void add(const LoweredStep& lowered) {
        if (lowered.action.kind == ActionKind::validate) return add_validation(builder_);
        Step step;
        step.action = lowered.action;
        if (is_transfer(step.action.kind))
            add_transfers(step, lowered);
        else if (step.action.kind == ActionKind::forward)
            bind_forward(step);
        else if (step.action.kind == ActionKind::backward_weight)
            bind_weights(step);
        else
            bind_backward(step);
        step.after_transfers = blocking_ && transferring_ && !is_transfer(step.action.kind);
        step.beside_last = lowered.beside_last;
        transferring_ = is_transfer(step.action.kind);
        builder_.program.steps.push_back(std::move(step));
    }

  private:
    static Residents::Key key(const Action& action) { return {action.stage, action.micro_batch}; }
    std::int32_t now() const { return static_cast<std::int32_t>(builder_.program.steps.size()); }
    Resident& resident(std::int32_t id) {
        return builder_.program.residents[static_cast<std::size_t>(id)];
    }
    const StagePlacement& placement() const { return builder_.placement; }

    // Of a piece of the vocabulary: the step of its kind before this one, and the one behind it, or
    // this one where there is none.
    std::int32_t piece_step(const Action& action, int way) const {
        const std::vector<std::int32_t>& all = of_pieces_.at({action.stage, action.kind});
        const auto here = std::lower_bound(all.begin(), all.end(), now()) - all.begin();
        const auto other = here + way;
        return all[static_cast<std::size_t>(
            other < 0 || other >= static_cast<std::ptrdiff_t>(all.size()) ? here : other)];
    }

    // What a piece begins with where another rank has it: it comes while this one does other work.
    std::int32_t spread(const Action& action, MemoryCategory category) {
        const std::int32_t id = allocate("spread", action, category, boundary_bytes_);
        resident(id).first_step = piece_step(action, -1);
        return id;
    }
    // What a piece makes where another rank takes it: it goes while this one does other work.
    std::int32_t summed(const Action& action) {
        const std::int32_t id =
            allocate("summed", action, MemoryCategory::communication, boundary_bytes_);
        resident(id).last_step = piece_step(action, 1);
        return id;
    }
    bool is_piece(std::int32_t stage) const { return stage >= placement().stages(); }

    std::int32_t allocate(std::string_view name, const Action& action, MemoryCategory category,
                          std::int64_t bytes) {
        const std::string of = to_text(action);
        std::string full;
        full.reserve(name.size() + 1 + of.size());
        full.append(name).append(1, ' ').append(of);
        const std::int32_t id = builder_.add_resident(std::move(full), category, bytes);
        resident(id).first_step = now();
        resident(id).last_step = now();
        return id;
    }

    // The same where there is anything to hold.
    std::int32_t allocate_unless_empty(std::string_view name, const Action& action,
                                       std::int64_t bytes) {
        return bytes == 0 ? -1 : allocate(name, action, MemoryCategory::activations, bytes);
    }

    std::int32_t lives_on(const Residents& residents, const Action& action) {
        const std::int32_t id = residents.find(key(action));
        if (id >= 0) resident(id).last_step = now();
        return id;
    }

    const Stage& stage(std::int32_t index) const {
        return builder_.program.stages[builder_.chunk(index)];
    }
    const StageAreas& areas(std::int32_t stage) const { return builder_.areas_of(stage); }

    // Parameters that are kept until backward stay while any micro-batch in flight needs them.
    std::int32_t forward_procedure(const Action& action) {
        const std::int32_t stage_index = action.stage;
        const std::int32_t first = procedures_.first_forward(stage_index);
        const bool gathered = builder_.keeps_gathered() && in_flight_[stage_index]++ > 0;
        if (action.micro_batch == 0 && first >= 0) return first;
        if (!gathered) return procedures_.forward(stage_index);
        const auto found = gathered_forward_.find(stage_index);
        if (found != gathered_forward_.end()) return found->second;
        return gathered_forward_[stage_index] = add_forward(builder_, stage(stage_index), false);
    }

    // What leaves the stage for the one before or after: to be sent, or found there by this rank.
    std::int32_t handed(const Action& action, std::int32_t to, MemoryCategory kept,
                        Residents& received, Residents& sending) {
        if (!builder_.holds(to) && is_piece(action.stage)) return summed(action);
        if (!builder_.holds(to))
            return sending[key(action)] =
                       allocate("sending", action, MemoryCategory::communication, boundary_bytes_);
        return received[{to, action.micro_batch}] =
                   allocate("handed", action, kept, boundary_bytes_);
    }

    void bind_forward(Step& step) {
        const Action& action = step.action;
        step.procedure = forward_procedure(action);
        step.stash = stash_[key(action)] =
            allocate("stash", action, MemoryCategory::activations, areas(action.stage).stash_bytes);
        step.kept = kept_[key(action)] =
            allocate_unless_empty("kept", action, areas(action.stage).kept_bytes);
        const std::int32_t self = builder_.program.pipeline_rank;
        if (placement().receives(action.stage)) {
            const bool elsewhere = !builder_.holds(placement().before(action.stage, self));
            if (is_piece(action.stage) && elsewhere)
                received_f_[key(action)] = spread(action, MemoryCategory::activations);
            step.input = lives_on(received_f_, action);
        }
        if (placement().receives_gradient(action.stage))
            step.output = handed(action, placement().after(action.stage, self),
                                 MemoryCategory::activations, received_f_, sending_f_);
    }

    // A whole backward pass, or the half of one that is for the input.
    void bind_backward(Step& step) {
        const Action& action = step.action;
        --in_flight_[action.stage];
        step.procedure = procedures_.backward(action);
        step.stash = lives_on(stash_, action);
        step.kept = lives_on(kept_, action);
        if (action.kind == ActionKind::backward_input || defers_recomputed(action.stage))
            step.deferred = deferred_[key(action)] =
                allocate_unless_empty("deferred", action, areas(action.stage).deferred_bytes);
        const std::int32_t self = builder_.program.pipeline_rank;
        if (placement().receives(action.stage)) step.received = lives_on(received_f_, action);
        if (placement().receives_gradient(action.stage)) {
            const bool elsewhere = !builder_.holds(placement().after(action.stage, self));
            if (is_piece(action.stage) && elsewhere)
                received_b_[key(action)] = spread(action, MemoryCategory::communication);
            step.input = lives_on(received_b_, action);
        }
        if (placement().receives(action.stage))
            step.output = handed(action, placement().before(action.stage, self),
                                 MemoryCategory::communication, received_b_, sending_b_);
    }

    void bind_weights(Step& step) {
        const Action& action = step.action;
        step.procedure = procedures_.backward(action);
        step.kept = lives_on(kept_, action);
        step.deferred = lives_on(deferred_, action);
        // The gradient received is the last part's to keep, as any other's is.
        if (builder_.part_kinds[builder_.chunk(action.stage)].back().handed_bytes > 0)
            step.input = lives_on(received_b_, action);
    }

    // What runs again leaves there what waits, whoever reads it.
    bool defers_recomputed(std::int32_t stage_index) const {
        const auto& parts = stage(stage_index).parts;
        return std::any_of(parts.begin(), parts.end(), [](const StagePart& part) {
            return part.recompute >= 0 && part.backward_weight >= 0;
        });
    }

    void add_transfers(Step& step, const LoweredStep& lowered) {
        step.transfers.reserve(lowered.with ? 2 : 1);
        add_transfer(step, lowered.action);
        if (lowered.with) add_transfer(step, *lowered.with);
    }

    void add_transfer(Step& step, const Action& action) {
        Transfer transfer;
        transfer.action = action;
        transfer.peer = builder_.placement.rank_of(action.stage + hop_to_peer(action.kind));
        transfer.bytes = transfer_bytes_;
        if (shares_transfers_) transfer.share = GroupKind::tensor;
        switch (action.kind) {
            case ActionKind::send_f:
                transfer.resident = sending_f_.at(key(action));
                break;
            case ActionKind::send_b:
                transfer.resident = sending_b_.at(key(action));
                break;
            case ActionKind::recv_f:  // kept for backward, hence an activation
                transfer.resident = received_f_[key(action)] =
                    allocate("received", action, MemoryCategory::activations, boundary_bytes_);
                break;
            default:
                transfer.resident = received_b_[key(action)] =
                    allocate("received", action, MemoryCategory::communication, boundary_bytes_);
        }
        resident(transfer.resident).last_step =
            std::max(resident(transfer.resident).last_step, now());
        step.transfers.push_back(transfer);
    }

    ProgramBuilder& builder_;
    std::int64_t boundary_bytes_;  // of a whole boundary activation: what a buffer holds
    std::int64_t transfer_bytes_;  // of what one rank sends of it
    BackwardProcedures procedures_;
    bool shares_transfers_;      // tensor ranks send one share each of what all of them have
    bool blocking_;              // a transfer ends before the next computation begins
    bool transferring_ = false;  // the step before was a transfer
    std::map<std::int32_t, std::int32_t> gathered_forward_;  // by stage
    std::map<std::int32_t, std::int32_t> in_flight_;         // micro-batches, by stage
    // Steps over pieces of the vocabulary, by stage and kind.
    std::map<std::pair<std::int32_t, ActionKind>, std::vector<std::int32_t>> of_pieces_;
    std::size_t micro_batches_;
    Residents stash_{micro_batches_}, kept_{micro_batches_}, deferred_{micro_batches_};
    Residents sending_f_{micro_batches_}, sending_b_{micro_batches_};
    Residents received_f_{micro_batches_}, received_b_{micro_batches_};
};

}  // namespace

bool blocks_on_transfers(const Scenario& scenario) {
    const TransferOverlap overlap = scenario.training.framework.overlap_pipeline_transfers;
    return overlap == TransferOverlap::never ||
           (overlap == TransferOverlap::interleaved && scenario.layout.virtual_pipeline == 1);
}

void bind_steps(ProgramBuilder& builder, const std::vector<LoweredStep>& row) {
    builder.program.steps.reserve(builder.program.steps.size() + row.size());
    builder.program.residents.reserve(builder.program.residents.size() + row.size());
    StepBinder binder(builder, row);
    for (const LoweredStep& step : row)
        binder.add(step);
}

}  // namespace orrery::plan
