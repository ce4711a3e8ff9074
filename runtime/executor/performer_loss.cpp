// The loss, and what is done to gradients and states at the end of a step.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plan/ir/check.hpp"
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

LogitsPart Performer::logits_part(const Call& call) const {
    const std::int64_t columns = dims_.vocabulary;
    const std::int64_t first = program_.at.tensor * columns;
    return {call.shape(0), columns, first,
            std::clamp<std::int64_t>(scenario_.model.vocabulary - first, 0, columns)};
}

void Performer::cross_entropy_max(const Call& call) {
    call.kernels.cross_entropy_max({logits_part(call), read(call, 0), written(call, 0)});
}

void Performer::cross_entropy_sum(const Call& call) {
    call.kernels.cross_entropy_sum({logits_part(call), at<std::int32_t>(call.bound.reads[2]),
                                    read(call, 0), read(call, 1), written(call, 0)});
}

void Performer::cross_entropy(const Call& call) {
    call.kernels.cross_entropy({call.shape(0), call.inputs.gradient_scale, read(call, 0),
                                written(call, 0), call.bound.accumulates});
}

// Reads logits, largest, sums, targets, and the loss scale where there is one.
void Performer::cross_entropy_backward(const Call& call) {
    call.kernels.cross_entropy_backward(
        {logits_part(call), at<std::int32_t>(call.bound.reads[3]), call.inputs.gradient_scale,
         call.bound.reads.size() > 4 ? at<float>(call.bound.reads[4]) : nullptr, read(call, 1),
         read(call, 2), written(call, 0)});
}

// What every tensor rank holds counts on the first one, the copy of a tied embedding where it
// embeds.
void Performer::gradient_norm(const Call& call) {
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

void Performer::unscale(const Call& call) {
    call.kernels.unscale({call.shape(0), at<float>(call.bound.reads[1]), written(call, 0),
                          at<float>(call.bound.writes[1]), call.bound.accumulates});
}

void Performer::update_loss_scale(const Call& call) {
    const plan::DynamicLossScale& rule = scenario_.training.dynamic_loss_scale;
    call.kernels.update_loss_scale({{rule.growth_interval, rule.hysteresis, rule.minimum},
                                    at<float>(call.bound.reads[0]),
                                    at<float>(call.bound.writes[0]),
                                    at<std::int32_t>(call.bound.writes[1])});
}

// Every tensor rank of the last stage has the loss: it counts on the first one.
void Performer::loss_share(const Call& call) {
    const bool counts = !call.bound.reads.empty() && program_.at.tensor == 0;
    call.kernels.loss_share({counts ? read(call, 0) : Buffer{}, at<double>(call.bound.writes[0])});
}

// Reads the batch's loss, the losses that count (the latest ones, in turn) with how many there have
// been, and whether gradients overflowed, where they can.
void Performer::judge_loss(const Call& call) {
    const plan::LossSpike& rule = scenario_.training.loss_spike;
    call.kernels.judge_loss({{rule.window, rule.skip_above},
                             at<double>(call.bound.reads[0]),
                             call.bound.reads.size() > 3 ? at<float>(call.bound.reads[3]) : nullptr,
                             at<double>(call.bound.writes[0]),
                             at<std::int32_t>(call.bound.writes[1]),
                             at<float>(call.bound.writes[2])});
}

// Reads gradients, states, parameters that are their own masters, then scalars by name. States are
// m and v, and then masters.
void Performer::adamw(const Call& call) {
    const plan::Optimizer& optimizer = scenario_.training.optimizer;
    AdamW adamw;
    adamw.learning_rate = call.inputs.learning_rate;
    adamw.beta1 = optimizer.beta1;
    adamw.beta2 = optimizer.beta2;
    adamw.epsilon = optimizer.epsilon;
    const auto updates = static_cast<double>(call.inputs.updates);
    adamw.correction1 = 1 - std::pow(optimizer.beta1, updates);
    adamw.correction2 = 1 - std::pow(optimizer.beta2, updates);
    for (std::size_t i = 2; i < call.bound.reads.size(); ++i) {
        const std::string& scalar = call.read_tensor(i).name;
        if (scalar == "overflow") adamw.skip_where[0] = at<float>(call.bound.reads[i]);
        if (scalar == "loss spike") adamw.skip_where[1] = at<float>(call.bound.reads[i]);
        if (scalar != "norm") continue;
        adamw.norm_bins = at<double>(call.bound.reads[i]);
        adamw.clip_norm = optimizer.clip_norm;
    }
    const std::int64_t stepped = call.shape(0);
    const Buffer states = written(call, 0);
    for (const Stepped& part : stepped_parts(program_, bucket_of(call.bound))) {
        adamw.elements = part.elements;
        adamw.weight_decay = part.entry->parameter.decays() ? optimizer.weight_decay : 0;
        adamw.gradients = from(read(call, 0), part.first);
        adamw.m = from(states, part.first);
        adamw.v = from(states, stepped + part.first);
        if (dims_.keeps_masters()) adamw.master = from(states, 2 * stepped + part.first);
        adamw.parameters = from(written(call, 1), part.first);
        call.kernels.adamw(adamw);
    }
}

}  // namespace orrery::runtime
