// The loss, and what is done to gradients and states at the end of a step.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <ranges>
#include <utility>
#include <vector>

#include "plan/check.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/executor/stepped_runs.hpp"

namespace orrery::runtime {
namespace {

Buffer from(Buffer buffer, std::int64_t element) {
    buffer.data = static_cast<std::byte*>(buffer.data) + element * plan::size_bytes(buffer.dtype);
    return buffer;
}

std::size_t bucket_of(const BoundOp& bound) {
    ORRERY_CHECK(bound.bucket >= 0, "what steps parameters has a bucket");
    return static_cast<std::size_t>(bound.bucket);
}

}  // namespace

// The same for all steps, and for what amends one.
void Performer::keep_runs(const BoundOp& bound, Kernels& kernels) {
    const auto kept = [&kernels](const auto& runs) {
        using Run = std::ranges::range_value_t<decltype(runs)>;
        return ElementRuns<Run>{runs.empty() ? nullptr : kernels.keep(runs), std::ssize(runs)};
    };
    const auto place = std::pair(bound.op, bound.bucket);
    if (runs_.count(place) > 0) return;
    if (bound.op->is<plan::AdamW>())
        runs_[place].stepped = kept(
            stepped_runs(program_, bucket_of(bound), bound.op->as<plan::AdamW>().weight_decay));
    if (bound.op->is<plan::GradientNorm>())
        runs_[place].counted = kept(counted_runs(program_, bucket_of(bound)));
}

const Performer::KeptRuns& Performer::kept_runs(const Call& call) const {
    return runs_.at({call.bound.op, call.bound.bucket});
}

template <typename Op>
LogitsPart Performer::logits_part(const Op& op) const {
    const std::int64_t first = word_share(op.words) * op.width;
    return {op.rows, op.width, first, std::clamp<std::int64_t>(op.vocabulary - first, 0, op.width),
            op.soft_cap};
}

void Performer::compute(const plan::CrossEntropyMax& op, const Call& call) {
    call.kernels.cross_entropy_max({logits_part(op), read(call, 0), written(call, 0)});
}

// Of an op that goes over a part of the tokens, so many rows of each tensor rank's share: the rows
// of one share, where they begin in tensors that have the part alone and in those that have all.
template <typename F>
void Performer::over_shares(const plan::Op& op, std::int64_t rows, const F& f) const {
    const std::int64_t shares = op.parts == 1 ? 1 : program_.mesh.tensor;
    const std::int64_t each = rows / shares;
    for (std::int64_t share = 0; share < shares; ++share)
        f(each, share * each, (share * op.parts + op.part) * each);
}

void Performer::compute(const plan::CrossEntropySum& whole, const Call& call) {
    plan::CrossEntropySum op = whole;
    const Buffer logits = read(call, 0), sums = written(call, 0);
    const Buffer largest = op.finds_largest ? written(call, 1) : read(call, 1);
    const auto* targets = at<std::int32_t>(call.bound.reads.back());
    over_shares(*call.bound.op, op.rows, [&](auto rows, auto row, auto token) {
        op.rows = rows;
        call.kernels.cross_entropy_sum({logits_part(op), targets + token,
                                        from(logits, row * op.width), from(largest, row),
                                        from(sums, 2 * row), op.finds_largest});
    });
}

void Performer::compute(const plan::CrossEntropyJoin& op, const Call& call) {
    call.kernels.cross_entropy_join({op.rows, op.parts, op.width,
                                     at<std::int32_t>(call.bound.reads[2]), read(call, 0),
                                     read(call, 1), written(call, 0), written(call, 1)});
}

void Performer::compute(const plan::CrossEntropy& op, const Call& call) {
    call.kernels.cross_entropy({op.rows, call.step().gradient_scale * op.weight, read(call, 0),
                                written(call, 0), call.bound.accumulates});
}

// Reads logits, largest, sums, targets, and the loss scale where there is one.
void Performer::compute(const plan::CrossEntropyBackward& whole, const Call& call) {
    plan::CrossEntropyBackward op = whole;
    const auto* targets = at<std::int32_t>(call.bound.reads[3]);
    const float* scale = call.bound.reads.size() > 4 ? at<float>(call.bound.reads[4]) : nullptr;
    over_shares(*call.bound.op, op.rows, [&](auto rows, auto row, auto token) {
        op.rows = rows;
        call.kernels.cross_entropy_backward({logits_part(op), targets + token,
                                             call.step().gradient_scale * op.weight, scale,
                                             from(read(call, 1), row), from(read(call, 2), 2 * row),
                                             from(written(call, 0), row * op.width)});
    });
}

// Reads dlogits, dinput and words of the part, its sums and largest, those of whole rows, targets,
// and the loss scale where there is one.
void Performer::compute(const plan::CrossEntropyRescale& op, const Call& call) {
    const float* scale = call.bound.reads.size() > 8 ? at<float>(call.bound.reads[8]) : nullptr;
    call.kernels.cross_entropy_rescale({logits_part(op), at<std::int32_t>(call.bound.reads[7]),
                                        call.step().gradient_scale, scale, op.hidden, read(call, 3),
                                        read(call, 4), read(call, 5), read(call, 6), read(call, 1),
                                        read(call, 2), written(call, 0), written(call, 1)});
}

void Performer::compute(const plan::GradientNorm& op, const Call& call) {
    auto* bins = at<double>(call.bound.writes[0]);
    if (!call.bound.accumulates)
        call.kernels.fill({call.bound.writes[0].elements, 0, written(call, 0)});
    const std::size_t bucket = bucket_of(call.bound);
    const plan::Rank rank = program_.mesh.rank(program_.at);
    if (op.copies && program_.mesh.group(program_.buckets[bucket].copies(), rank).front() != rank)
        return;
    const KeptRuns& runs = kept_runs(call);
    if (runs.counted.count > 0)
        call.kernels.gradient_norm({op.elements, read(call, 0), bins, runs.counted});
}

void Performer::compute(const plan::Unscale& op, const Call& call) {
    call.kernels.unscale({op.elements, at<float>(call.bound.reads[1]), written(call, 0),
                          at<float>(call.bound.writes[1]), call.bound.accumulates});
}

void Performer::compute(const plan::UpdateLossScale& rule, const Call& call) {
    call.kernels.update_loss_scale({{rule.growth_interval, rule.hysteresis, rule.minimum},
                                    at<float>(call.bound.reads[0]),
                                    at<float>(call.bound.writes[0]),
                                    at<std::int32_t>(call.bound.writes[1])});
}

// Every tensor rank of the last stage has the loss: it counts on the first one.
void Performer::compute(const plan::LossShare&, const Call& call) {
    const bool counts = !call.bound.reads.empty() && program_.at.tensor == 0;
    call.kernels.loss_share({counts ? read(call, 0) : Buffer{}, at<double>(call.bound.writes[0])});
}

// Reads the batch's loss, the losses that count (the latest ones, in turn) with how many there have
// been, and whether gradients overflowed, where they can.
void Performer::compute(const plan::JudgeLoss& rule, const Call& call) {
    call.kernels.judge_loss({{rule.window, rule.skip_above},
                             at<double>(call.bound.reads[0]),
                             call.bound.reads.size() > 3 ? at<float>(call.bound.reads[3]) : nullptr,
                             at<double>(call.bound.writes[0]),
                             at<std::int32_t>(call.bound.writes[1]),
                             at<float>(call.bound.writes[2])});
}

// Reads gradients, states, parameters that are their own masters, then the scalars that the op is
// told to. States are rows of one tensor, or of several types a tensor each: those of the bucket,
// in its order.
void Performer::compute(const plan::AdamW& op, const Call& call) {
    AdamW adamw;
    adamw.learning_rate = call.step().learning_rate;
    adamw.beta1 = op.beta1;
    adamw.beta2 = op.beta2;
    adamw.epsilon = op.epsilon;
    const auto updates = static_cast<double>(call.step().updates);
    adamw.correction1 = 1 - std::pow(op.beta1, updates);
    adamw.correction2 = 1 - std::pow(op.beta2, updates);
    const plan::Bucket& bucket = program_.buckets[bucket_of(call.bound)];
    const std::vector<plan::BucketState> states = bucket.optimizer_states();
    const bool apart = !plan::of_one_type(states);
    const std::size_t tensors = apart ? states.size() : 1;
    std::size_t next = 1 + tensors;
    if (bucket.state(plan::StateKind::masters) == nullptr) ++next;
    if (op.clip_norm > 0) {
        adamw.norm_bins = at<double>(call.bound.reads[next++]);
        adamw.clip_norm = op.clip_norm;
    }
    if (op.skips_overflow) adamw.skip_where[0] = at<float>(call.bound.reads[next++]);
    if (op.skips_spike) adamw.skip_where[1] = at<float>(call.bound.reads[next++]);
    ORRERY_CHECK(next == call.bound.reads.size(), "adamw reads what its fields say");
    const auto state = [&](plan::StateKind kind) -> Buffer {
        for (std::size_t i = 0; i < states.size(); ++i) {
            if (states[i].kind != kind) continue;
            return apart ? written(call, i)
                         : from(written(call, 0), static_cast<std::int64_t>(i) * op.elements);
        }
        return {};
    };
    adamw.elements = op.elements;
    adamw.weight_decay = op.weight_decay;
    adamw.gradients = read(call, 0);
    adamw.m = state(plan::StateKind::first_moments);
    adamw.v = state(plan::StateKind::second_moments);
    adamw.master = state(plan::StateKind::masters);
    adamw.parameters = written(call, tensors);
    adamw.runs = kept_runs(call).stepped;
    if (adamw.runs.count > 0) call.kernels.adamw(adamw);
}

}  // namespace orrery::runtime
