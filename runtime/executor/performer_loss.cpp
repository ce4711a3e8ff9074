// The loss, and what is done to gradients and states at the end of a step.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plan/check.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {
namespace {

using plan::Cut;

// Part of a bucket's entry that lies in the shard that this rank steps.
struct Stepped {
    const plan::BucketEntry* entry = nullptr;
    std::int64_t first = 0;  // elements from the start of the shard
    std::int64_t elements = 0;
};

std::vector<Stepped> stepped_parts(const BoundProgram& program, std::size_t bucket) {
    const std::int64_t begin = program.first_stepped(bucket);
    const std::int64_t end = begin + program.stepped(bucket);
    std::vector<Stepped> parts;
    for (const plan::BucketEntry& entry : program.entries[bucket]) {
        const std::int64_t first = std::max(begin, entry.offset);
        const std::int64_t last = std::min(end, entry.offset + entry.elements);
        if (first < last) parts.push_back({&entry, first - begin, last - first});
    }
    return parts;
}

Buffer from(Buffer buffer, std::int64_t element) {
    buffer.data = static_cast<std::byte*>(buffer.data) + element * plan::size_bytes(buffer.dtype);
    return buffer;
}

std::size_t bucket_of(const BoundOp& bound) {
    ORRERY_CHECK(bound.bucket >= 0, "what steps parameters has a bucket");
    return static_cast<std::size_t>(bound.bucket);
}

}  // namespace

template <typename Op>
LogitsPart Performer::logits_part(const Op& op) const {
    const std::int64_t first = program_.at.tensor * op.width;
    return {op.rows, op.width, first, std::clamp<std::int64_t>(op.vocabulary - first, 0, op.width)};
}

void Performer::compute(const plan::CrossEntropyMax& op, const Call& call) {
    call.kernels.cross_entropy_max({logits_part(op), read(call, 0), written(call, 0)});
}

void Performer::compute(const plan::CrossEntropySum& op, const Call& call) {
    call.kernels.cross_entropy_sum({logits_part(op), at<std::int32_t>(call.bound.reads[2]),
                                    read(call, 0), read(call, 1), written(call, 0)});
}

void Performer::compute(const plan::CrossEntropy& op, const Call& call) {
    call.kernels.cross_entropy({op.rows, call.inputs.gradient_scale, read(call, 0),
                                written(call, 0), call.bound.accumulates});
}

// Reads logits, largest, sums, targets, and the loss scale where there is one.
void Performer::compute(const plan::CrossEntropyBackward& op, const Call& call) {
    call.kernels.cross_entropy_backward(
        {logits_part(op), at<std::int32_t>(call.bound.reads[3]), call.inputs.gradient_scale,
         call.bound.reads.size() > 4 ? at<float>(call.bound.reads[4]) : nullptr, read(call, 1),
         read(call, 2), written(call, 0)});
}

// What every tensor rank holds counts on the first one, the copy of a tied embedding where it
// embeds.
void Performer::compute(const plan::GradientNorm&, const Call& call) {
    auto* bins = at<double>(call.bound.writes[0]);
    if (!call.bound.accumulates)
        call.kernels.fill({call.bound.writes[0].elements, 0, written(call, 0)});
    const std::size_t bucket = bucket_of(call.bound);
    for (const Stepped& part : stepped_parts(program_, bucket)) {
        const plan::Parameter& parameter = part.entry->parameter;
        if (parameter.cut == Cut::whole && program_.at.tensor > 0) continue;
        if (parameter.name == "embedding.weight" && program_.buckets[bucket].stage > 0) continue;
        call.kernels.gradient_norm({part.elements, from(read(call, 0), part.first), bins});
    }
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
// told to. Where each state lies the bucket says.
void Performer::compute(const plan::AdamW& op, const Call& call) {
    AdamW adamw;
    adamw.learning_rate = call.inputs.learning_rate;
    adamw.beta1 = op.beta1;
    adamw.beta2 = op.beta2;
    adamw.epsilon = op.epsilon;
    const auto updates = static_cast<double>(call.inputs.updates);
    adamw.correction1 = 1 - std::pow(op.beta1, updates);
    adamw.correction2 = 1 - std::pow(op.beta2, updates);
    const plan::Bucket& bucket = program_.buckets[bucket_of(call.bound)];
    std::size_t next = bucket.state(plan::StateKind::masters) != nullptr ? 2 : 3;
    if (op.clip_norm > 0) {
        adamw.norm_bins = at<double>(call.bound.reads[next++]);
        adamw.clip_norm = op.clip_norm;
    }
    if (op.skips_overflow) adamw.skip_where[0] = at<float>(call.bound.reads[next++]);
    if (op.skips_spike) adamw.skip_where[1] = at<float>(call.bound.reads[next++]);
    ORRERY_CHECK(next == call.bound.reads.size(), "adamw reads what its fields say");
    const Buffer states = written(call, 0);
    for (const Stepped& part : stepped_parts(program_, bucket_of(call.bound))) {
        adamw.elements = part.elements;
        adamw.weight_decay = part.entry->parameter.decays() ? op.weight_decay : 0;
        adamw.gradients = from(read(call, 0), part.first);
        const auto state = [&](plan::StateKind kind) {
            const plan::BucketState* of = bucket.state(kind);
            return of == nullptr
                       ? Buffer{}
                       : from(states, of->offset / plan::size_bytes(of->dtype) + part.first);
        };
        adamw.m = state(plan::StateKind::first_moments);
        adamw.v = state(plan::StateKind::second_moments);
        adamw.master = state(plan::StateKind::masters);
        adamw.parameters = from(written(call, 1), part.first);
        call.kernels.adamw(adamw);
    }
}

}  // namespace orrery::runtime
