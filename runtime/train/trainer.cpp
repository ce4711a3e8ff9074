#include "runtime/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "plan/ir/turns.hpp"
#include "plan/memory/arena.hpp"
#include "runtime/kernels/scalar_rules.hpp"
#include "runtime/launch/host_names.hpp"
#include "runtime/train/health.hpp"
#include "runtime/train/replica_check.hpp"
#include "runtime/train/scale_history.hpp"
#include "runtime/train/steps_under_way.hpp"

namespace orrery::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// One rank of a run.
class RankRun final : public RunningRank {
  public:
    RankRun(const plan::TrainingFacts& facts, BatchPlans& plans, const TrainOptions& options,
            const SampleReader& samples, RankSeat& seat, int threads)
        : facts_(facts),
          plans_(plans),
          options_(options),
          seat_(seat),
          threads_(threads),
          feed_(samples) {}

    // What is the same on all ranks once the step has ended.
    StepReport step(std::int64_t number, std::int64_t global_batch) {
        StepReport report = perform(number, global_batch);
        const bool scales = program_->scalar("loss scale") >= 0, later = validates_later();
        if (scales && later) report.loss_scale = scalar<float>("loss scale");
        if (number == options_.steps) device_->validate();
        if (options_.after_step)
            options_.after_step(seat_.rank(), *device_, *program_, planned(), number);
        settle(report);
        if (report.skipped != Skipped::no) --updates_;
        return report;
    }

    void when_ended(std::function<void(StepReport&)> tell) override { tell_ = std::move(tell); }
    std::int64_t begin_step(std::int64_t number, std::int64_t global_batch) override {
        return perform(number, global_batch).consumed_samples;
    }
    void await_all_but(std::int64_t steps) override { device_->await_all_but(steps); }

    // Goes on where a checkpoint ends. The sizes of batches follow from the samples before.
    void resume(const CheckpointReader& checkpoint, std::int64_t global_batch) {
        checkpoint_ = &checkpoint;
        consumed_ = checkpoint.manifest().progress.consumed_samples;
        updates_ = checkpoint.manifest().progress.updates;
        set_batch(global_batch);
        checkpoint_ = nullptr;
    }

    void prepare(Checkpointing& checkpoints, std::int64_t global_batch) {
        set_batch(global_batch);
        checkpoints.reserve(parts(0));
    }

    // Replicas of the model's state are the same after this step, or a ReplicaError is thrown.
    void verify_replicas(std::int64_t step) override {
        device_->validate();
        if (!replicas_) replicas_.emplace(*program_, planned(), control());
        replicas_->verify(*device_, step);
    }

    double computed_s() const { return device_->computed_s().value_or(-1); }
    ExpertCounts take_expert_counts() { return device_->take_expert_counts(); }
    bool has_experts() const {
        return any_op([](const plan::Op& op) { return op.is<plan::Route>(); });
    }

    void save(Checkpointing& checkpoints, std::int64_t step) override {
        device_->validate();
        checkpoints.save(*device_, parts(step), progress(step), *plan_);
    }

    // The step was the last, whatever was planned.
    void finish() {
        device_->await_all_but(0);
        device_->validate();
    }

    RankMemory memory() const {
        return {program_->arena_bytes, program_->high_water_bytes,
                device_->bytes_in_use().value_or(-1)};
    }
    std::span<const OpTime> times() const { return device_->times(); }
    const plan::Plan& plan() const { return *plan_; }

  private:
    // Steps that are under way at a time.
    std::int64_t turns() const { return program_->turns(); }
    ControlPlane& control() { return turns() > 1 ? seat_.control_beside() : seat_.control(); }

    // Its report, but for what is known when it has ended.
    StepReport perform(std::int64_t number, std::int64_t global_batch) {
        set_batch(global_batch);
        device_->await_all_but(turns() - 1);
        const RankSamples samples = feed_.take(request(consumed_, plan_->micro_batches));
        if (number < options_.steps) feed_.expect(next_request());
        StepInputs inputs;
        inputs.step = number;
        inputs.updates = ++updates_;
        inputs.learning_rate = facts_.rates.at(number);
        inputs.first_sample = consumed_;
        inputs.samples = global_batch;
        inputs.gradient_scale = 1.0 / static_cast<double>(global_batch * plan_->tokens.sequence);
        for (std::size_t ahead = 0; ahead < kTokensAhead; ++ahead)
            inputs.tokens[ahead] = samples.tokens[ahead];
        StepReport report;
        report.data_wait_s = feed_.waited_s();
        report.step = number;
        report.learning_rate = inputs.learning_rate;
        report.samples = global_batch;
        report.tokens = global_batch * plan_->tokens.sequence;
        consumed_ += report.samples;
        report.consumed_samples = consumed_;
        // Where steps are validated later, the scale is settled on the way, before its first use.
        if (program_->scalar("loss scale") >= 0 && !validates_later())
            report.loss_scale = scalar<float>("loss scale");
        if (options_.change_inputs) options_.change_inputs(inputs);
        if (turns() > 1) under_way(number) = report;
        device_->run(inputs);
        return report;
    }

    StepReport& under_way(std::int64_t number) {
        return under_way_[static_cast<std::size_t>(number % turns())];
    }

    // On the thread that communicates.
    void step_ended(std::int64_t number) {
        StepReport& report = under_way(number);
        turn_ = &program_->of_step(number);
        if (options_.after_step)
            options_.after_step(seat_.rank(), *device_, *turn_, planned(), number);
        settle(report);
        tell_(report);
    }

    std::vector<SavedPart> parts(std::int64_t step) const {
        return saved_parts(*program_, planned(), plan_->mesh, seat_.rank(), step);
    }
    const plan::Program& planned() const { return plan_->program_of(seat_.rank()); }

    // Another size of the global batch is another plan: parameters and states move over.
    void set_batch(std::int64_t global_batch) {
        const plan::Plan& plan = plans_.of(global_batch);
        if (plan_ == &plan) return;
        if (device_) device_->await_all_but(0);
        if (device_) device_->validate();
        const auto kept = device_ ? persistent() : std::map<std::string, std::vector<std::byte>>{};
        device_.reset();
        replicas_.reset();
        plan_ = &plan;
        program_ = std::make_unique<BoundProgram>(bind_program(plan, planned(), seat_.rank()));
        device_ = seat_.make_device(*program_, options_.offload_path);
        device_->when_ended([this](const StepInputs& inputs) { step_ended(inputs.step); });
        turn_ = program_.get();
        under_way_.resize(static_cast<std::size_t>(turns()));
        if (checkpoint_ != nullptr) {
            begin_scale();
            load(*checkpoint_);
        } else if (kept.empty()) {
            begin();
        } else {
            restore(kept);
        }
    }

    void begin() {
        const FirstWeights weights =
            options_.first_weights
                ? options_.first_weights
                : random_weights(plan_->tokens.seed, facts_.initializer_deviation,
                                 plan_->conserved.layers);
        for (std::int64_t turn = 0; turn < turns(); ++turn)
            fill_weights(*device_, program_->of_step(turn), planned(), weights, threads_);
        begin_scales(*device_, *program_);
        begin_scale();
    }

    void begin_scale() { set_scalar("loss scale", static_cast<float>(facts_.loss_scale)); }

    void load(const CheckpointReader& checkpoint) {
        const Progress& progress = checkpoint.manifest().progress;
        for (std::int64_t age = 0; age < turns(); ++age)
            load_state(*device_, program_->of_step(progress.step + turns() - age), planned(),
                       checkpoint, threads_, age);
        if (progress.loss_scale && program_->scalar("loss scale counters") >= 0) {
            const SavedLossScale& saved = *progress.loss_scale;
            set_scalar("loss scale", saved.scale);
            set_scalar("loss scale counters",
                       std::array{saved.steps_without_overflow, saved.overflows});
        }
        // A window of another size begins anew.
        if (progress.losses && std::ssize(progress.losses->accepted) == losses_judged()) {
            device_->write(program_->scalar("accepted losses"),
                           std::as_bytes(std::span(progress.losses->accepted)));
            set_scalar("losses accepted", progress.losses->count);
        }
    }

    // That a loss is held against; 0: none is.
    std::int64_t losses_judged() const {
        for (const BoundOp& bound : program_->ops)
            if (bound.op->is<plan::JudgeLoss>()) return bound.op->as<plan::JudgeLoss>().window;
        return 0;
    }

    Progress progress(std::int64_t step) const {
        Progress progress{step, updates_, consumed_, {}, {}};
        progress.older_weights = turns() - 1;
        if (program_->scalar("loss scale counters") >= 0) {
            const auto counters = scalar<std::array<std::int32_t, 2>>("loss scale counters");
            progress.loss_scale = {scalar<float>("loss scale"), counters[0], counters[1]};
        }
        if (program_->scalar("accepted losses") >= 0) {
            SavedLosses losses;
            losses.accepted.resize(static_cast<std::size_t>(losses_judged()));
            device_->read(program_->scalar("accepted losses"),
                          std::as_writable_bytes(std::span(losses.accepted)));
            losses.count = scalar<std::int32_t>("losses accepted");
            progress.losses = std::move(losses);
        }
        return progress;
    }

    std::map<std::string, std::vector<std::byte>> persistent() const {
        std::map<std::string, std::vector<std::byte>> kept;
        const plan::Program& program = planned();
        auto keep = [&](std::int32_t id) {
            if (id < 0) return;
            id = plan::keeper_of(program, id);
            const plan::Resident& resident = program.residents[static_cast<std::size_t>(id)];
            std::vector<std::byte>& bytes = kept[resident.name];
            bytes.resize(static_cast<std::size_t>(resident.bytes));
            device_->read(plan::address_of(program, id), bytes);
        };
        for (const plan::Bucket& bucket : program.buckets) {
            keep(bucket.parameters);
            keep(bucket.optimizer);
        }
        keep(program.scalars);
        return kept;
    }

    void restore(const std::map<std::string, std::vector<std::byte>>& kept) {
        const plan::Program& program = planned();
        for (std::size_t id = 0; id < program.residents.size(); ++id) {
            const plan::Resident& resident = program.residents[id];
            if (const auto found = kept.find(resident.name); found != kept.end()) {
                ORRERY_CHECK(static_cast<std::int64_t>(found->second.size()) == resident.bytes,
                             "states do not depend on the batch");
                device_->write(plan::address_of(program, static_cast<std::int32_t>(id)),
                               found->second);
            }
        }
    }

    // Who embeds tokens or has a loss needs them.
    SampleRequest request(std::int64_t first, std::int64_t micro_batches) const {
        SampleRequest request;
        request.first = first;
        request.mesh = program_->mesh;
        request.tokens = program_->tokens;
        request.micro_batches = micro_batches;
        request.at = program_->at;
        // Not of turn_: that belongs to the thread on which steps end.
        const auto& ops = program_->ops;
        request.needed = std::any_of(ops.begin(), ops.end(), [](const BoundOp& op) {
            return op.op->is<plan::Embedding>() || op.op->is<plan::CrossEntropySum>();
        });
        return request;
    }

    // Of the step after this one, whose batch may be another size.
    SampleRequest next_request() const {
        const std::int64_t per_micro_batch = program_->tokens.samples * program_->mesh.data;
        const std::int64_t first = consumed_ + plan_->micro_batches * per_micro_batch;
        return request(first, facts_.batch.at(first) / per_micro_batch);
    }

    // Losses are summed over the ranks that hold one; norm and overflow are the same everywhere.
    void settle(StepReport& report) {
        report.loss = control().sum(loss_of_rank("loss"));
        if (predicts_further()) report.mtp_loss = control().sum(loss_of_rank("mtp loss"));
        if (const std::int64_t norm = turn_->scalar("norm"); norm >= 0) {
            std::array<double, 5> bins{};
            device_->read(statistic("norm"), std::as_writable_bytes(std::span(bins)));
            report.grad_norm = of_all_stages(norm_of(bins.data()));
        }
        if (turn_->scalar("overflow") >= 0) {
            float overflow = 0;
            device_->read(statistic("overflow"), std::as_writable_bytes(std::span(&overflow, 1)));
            if (of_all_stages(overflow) > 0) report.skipped = Skipped::overflow;
        }
        if (turn_->scalar("loss spike") >= 0 && scalar<float>("loss spike") > 0)
            report.skipped = Skipped::loss_spike;
    }

    template <typename Is>
    bool any_op(const Is& is) const {
        return std::any_of(plan_->blocks.begin(), plan_->blocks.end(),
                           [&](const plan::Block& block) {
                               return std::any_of(block.ops.begin(), block.ops.end(), is);
                           });
    }
    bool predicts_further() const {
        return any_op([](const plan::Op& op) {
            return op.is<plan::CrossEntropySum>() && op.as<plan::CrossEntropySum>().ahead > 0;
        });
    }

    // Ranks that hold none have 0, as have those that hold what another one does.
    double loss_of_rank(const char* name) const {
        if (turn_->at.tensor != 0 || turn_->scalar(name) < 0) return 0;
        return type_of_loss() == plan::DType::fp64 ? scalar<double>(name)
                                                   : static_cast<double>(scalar<float>(name));
    }

    plan::DType type_of_loss() const {
        for (const BoundOp& bound : turn_->ops)
            if (bound.op->is<plan::CrossEntropy>()) return bound.writes[0].dtype;
        ORRERY_CHECK(false, "who holds a loss computes it");
        return plan::DType::fp32;
    }

    bool validates_later() const { return program_->validation.amendment != nullptr; }

    // Where this rank has a statistic of the step's gradients, and of all that there are: itself,
    // or where steps are validated later, the ranks of the last stages.
    std::int64_t statistic(const char* name) const {
        const bool second = std::string_view(name) == "overflow" && turn_->scalar("norm") >= 0;
        for (const plan::Step& step : planned().steps)
            for (const plan::Transfer& transfer : step.transfers)
                if (plan::carries_statistic(transfer.action.kind) &&
                    transfer.action.kind != plan::ActionKind::recv_sum &&
                    transfer.action.micro_batch == (second ? 1 : 0))
                    return turn_->residents[static_cast<std::size_t>(transfer.resident)].offset;
        return turn_->scalar(name);
    }
    double of_all_stages(double value) {
        if (!validates_later()) return value;
        const plan::Coordinates& at = program_->at;
        const bool tells = at.pipeline + 1 == program_->mesh.pipeline && at.tensor == 0 &&
                           at.data == 0 && at.context == 0;
        return seat_.control().sum(tells ? value : 0);
    }

    template <typename T>
    T scalar(const char* name) const {
        T value{};
        device_->read(turn_->scalar(name), std::as_writable_bytes(std::span(&value, 1)));
        return value;
    }
    template <typename T>
    void set_scalar(const char* name, T value) {
        if (program_->scalar(name) >= 0)
            device_->write(program_->scalar(name), std::as_bytes(std::span(&value, 1)));
    }

    const plan::TrainingFacts& facts_;
    BatchPlans& plans_;
    const TrainOptions& options_;
    RankSeat& seat_;
    int threads_;                                   // of the host
    const CheckpointReader* checkpoint_ = nullptr;  // to begin with
    const plan::Plan* plan_ = nullptr;
    std::unique_ptr<BoundProgram> program_;
    const BoundProgram* turn_ = nullptr;  // of the step whose scalars are read
    std::vector<StepReport> under_way_;   // of steps that run on, by turn
    std::function<void(StepReport&)> tell_;
    std::unique_ptr<Device> device_;
    std::optional<ReplicaCheck> replicas_;
    std::int64_t consumed_ = 0;  // samples of the steps before
    std::int64_t updates_ = 0;
    SampleFeed feed_;
};

// What each rank has, by rank; nothing but on rank 0.
template <typename Value>
std::vector<std::vector<Value>> gather(ControlPlane& control, std::span<const Value> mine) {
    std::vector<std::vector<Value>> all;
    for (const ControlPlane::Bytes& bytes : control.gather(std::as_bytes(mine))) {
        std::vector<Value>& values = all.emplace_back(bytes.size() / sizeof(Value));
        std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    return all;
}

// What a rank tells of its step.
struct RankStep {
    double data_wait_s = 0;
    double computed_s = 0;  // below 0: not timed
};

// Tells rank 0 what the others know of the step.
void complete(StepReport& step, double computed_s, ControlPlane& control) {
    const RankStep mine{step.data_wait_s, computed_s};
    for (const auto& of_rank : gather(control, std::span(&mine, 1))) {
        step.data_wait_s = std::max(step.data_wait_s, of_rank.front().data_wait_s);
        if (of_rank.front().computed_s >= 0) step.computed_s.push_back(of_rank.front().computed_s);
    }
}

// Rank 0 has the sum over ranks, each of which has other tokens.
void add_expert_counts(StepReport& step, const ExpertCounts& counts, ControlPlane& control) {
    std::vector<std::int64_t> mine;  // of each layer its number, drops, how many experts, counts
    for (const auto& [layer, of_layer] : counts) {
        mine.insert(mine.end(), {layer, of_layer.dropped, std::ssize(of_layer.chosen)});
        mine.insert(mine.end(), of_layer.chosen.begin(), of_layer.chosen.end());
    }
    std::map<std::int64_t, LayerCounts> all;
    for (const auto& of_rank : gather(control, std::span<const std::int64_t>(mine)))
        for (std::size_t at = 0; at < of_rank.size();) {
            LayerCounts& sums = all[of_rank[at]];
            sums.dropped += of_rank[at + 1];
            sums.chosen.resize(static_cast<std::size_t>(of_rank[at + 2]));
            at += 3;
            for (std::int64_t& sum : sums.chosen)
                sum += of_rank[at++];
        }
    for (auto& [layer, of_layer] : all) {
        step.expert_counts.push_back(std::move(of_layer.chosen));
        step.dropped_rows.push_back(of_layer.dropped);
    }
}

// The same on all ranks.
void require_finite(const StepReport& step) {
    if (step.skipped == Skipped::no && !step.is_finite())
        throw NotFiniteError(
            fmt::format("step {} was taken with numbers that are none: the "
                        "weights are lost",
                        step.step));
}

}  // namespace

bool StepReport::is_finite() const {
    return std::isfinite(loss) && std::isfinite(mtp_loss.value_or(0)) &&
           std::isfinite(grad_norm.value_or(0));
}

TrainResult train(const plan::TrainingFacts& facts, const PlanOfBatch& plan_of,
                  const TrainOptions& options, Backend& backend, const SampleReader& samples,
                  const std::function<bool(const StepReport&)>& report) {
    BatchPlans plans(plan_of, options.change_plan);
    const plan::Plan& first_plan = plans.of(facts.batch.at(0));
    const plan::Mesh mesh = first_plan.mesh;
    const std::int64_t turns = plan::turns_of(first_plan.programs.front());
    TrainResult result;
    backend.run_ranks(mesh, [&](RankSeat& seat) {
        require_agreement(seat.control(), options.statement);
        ControlPlane& control = turns > 1 ? seat.control_beside() : seat.control();
        std::optional<HeldFolder> folder;
        std::optional<Checkpointing> checkpoints;
        // Of steps that run on; how long a rank computed is not told, as it computes later ones.
        StepsUnderWay under_way(facts.batch, turns, options, checkpoints, [&](StepReport& step) {
            ControlPlane::Bytes go_on(1, std::byte{1});
            complete(step, -1, control);
            if (seat.rank() == 0) {
                if (!report(step)) go_on[0] = std::byte{0};
            }
            control.broadcast(go_on);
            if (options.ends_where_not_finite) require_finite(step);
            return go_on[0] != std::byte{0};
        });
        RankRun run(facts, plans, options, samples, seat,
                    backend.threads_per_rank());  // uses these
        std::int64_t consumed = 0, first = 1;
        if (options.checkpoint) {
            const CheckpointOptions& checkpoint = *options.checkpoint;
            folder.emplace(checkpoint, seat.control());
            const Clock::time_point begun = Clock::now();
            const auto newest =
                checkpoint.resume ? newest_checkpoint(checkpoint, seat.control()) : nullptr;
            if (newest) {
                consumed = newest->manifest().progress.consumed_samples;
                first = newest->manifest().progress.step + 1;
                run.resume(*newest, facts.batch.at(consumed));
                seat.control().barrier();
                ResumptionReport resumption;
                resumption.load_s = std::chrono::duration<double>(Clock::now() - begun).count();
                for (const Shard& shard : newest->manifest().shards)
                    resumption.bytes += shard.bytes;
                if (seat.rank() == 0 && checkpoint.resumed) checkpoint.resumed(*newest, resumption);
            }
            checkpoints.emplace(checkpoint, *folder, control, first - 1);
            run.prepare(*checkpoints, facts.batch.at(consumed));
        }
        if (options.met) {
            const auto hosts = host_names(seat.control());
            if (seat.rank() == 0) options.met(hosts);
        }
        if (turns > 1) {
            under_way.perform(run, first, consumed);
            first = options.steps + 1;
        }
        const std::int64_t verify_every = options.verify_replicas_every_steps;
        for (std::int64_t number = first; number <= options.steps; ++number) {
            const Clock::time_point start = Clock::now();
            StepReport step = run.step(number, facts.batch.at(consumed));
            consumed = step.consumed_samples;
            ControlPlane::Bytes go_on(1, std::byte{1});
            complete(step, run.computed_s(), seat.control());
            if (run.has_experts())
                add_expert_counts(step, run.take_expert_counts(), seat.control());
            if (seat.rank() == 0) {
                step.time_s = std::chrono::duration<double>(Clock::now() - start).count();
                if (checkpoints) checkpoints->stepped(step.time_s);
                if (!report(step)) go_on[0] = std::byte{0};
            }
            seat.control().broadcast(go_on);
            if (options.ends_where_not_finite) require_finite(step);
            const bool last = go_on[0] == std::byte{0} || number == options.steps;
            const bool saves = checkpoints && (checkpoints->due(number) || last);
            if (verify_every > 0 && (saves || number % verify_every == 0))
                run.verify_replicas(number);
            if (saves) run.save(*checkpoints, number);
            if (checkpoints) checkpoints->poll();
            if (last) break;
        }
        run.finish();
        if (checkpoints) checkpoints->finish();
        const RankMemory memory = run.memory();
        const auto memories = gather(seat.control(), std::span(&memory, 1));
        const auto times = gather(seat.control(), run.times());
        if (seat.rank() == 0) {
            for (const auto& of_rank : memories)
                result.memory.push_back(of_rank.front());
            if (options.record) result.times = times;
            result.plan = run.plan();
        }
        seat.control().finish();
    });
    return result;
}

}  // namespace orrery::runtime
