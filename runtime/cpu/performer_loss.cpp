// The loss, and what is done to gradients and states at the end of a step.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "plan/ir/check.hpp"
#include "runtime/cpu/performer.hpp"

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
    kernels_.cross_entropy_max({logits_part(call), read(call, 0), written(call, 0)}, team_);
}

void Performer::cross_entropy_sum(const Call& call) {
    kernels_.cross_entropy_sum({logits_part(call), at<std::int32_t>(call.bound.reads[2]),
                                read(call, 0), read(call, 1), written(call, 0)},
                               team_);
}

void Performer::cross_entropy(const Call& call) {
    kernels_.cross_entropy({call.shape(0), call.inputs.gradient_scale, read(call, 0),
                            written(call, 0), call.bound.accumulates},
                           team_);
}

// Reads logits, largest, sums, targets, and the loss scale where there is one.
void Performer::cross_entropy_backward(const Call& call) {
    double scale = call.inputs.gradient_scale;
    if (call.bound.reads.size() > 4) scale *= *at<float>(call.bound.reads[4]);
    kernels_.cross_entropy_backward({logits_part(call), at<std::int32_t>(call.bound.reads[3]),
                                     scale, read(call, 1), read(call, 2), written(call, 0)},
                                    team_);
}

// What every tensor rank holds counts on the first one, the copy of a tied embedding where it
// embeds.
void Performer::gradient_norm(const Call& call) {
    auto* bins = at<double>(call.bound.writes[0]);
    if (!call.bound.accumulates) std::fill_n(bins, call.bound.writes[0].elements, 0.0);
    const std::size_t bucket = bucket_of(call.bound);
    for (const Stepped& part : stepped_parts(program_, bucket)) {
        const plan::Parameter& parameter = part.entry->parameter;
        if (parameter.cut == Cut::whole && program_.at.tensor > 0) continue;
        if (parameter.name == "embedding.weight" && program_.buckets[bucket].stage > 0) continue;
        kernels_.gradient_norm({part.elements, from(read(call, 0), part.first), bins}, team_);
    }
}

void Performer::unscale(const Call& call) {
    auto& overflow = *at<float>(call.bound.writes[1]);
    const float before = call.bound.accumulates ? overflow : 0.0F;
    const double scale = *at<float>(call.bound.reads[1]);
    kernels_.unscale({call.shape(0), 1 / scale, written(call, 0), &overflow}, team_);
    overflow = std::max(overflow, before);
}

// Megatron-LM's DynamicGradScaler.update; the counters are steps without overflow, and overflows
// since the scale last grew.
void Performer::update_loss_scale(const Call& call) {
    const plan::DynamicLossScale& rule = scenario_.training.dynamic_loss_scale;
    const bool overflow = *at<float>(call.bound.reads[0]) > 0;
    auto& scale = *at<float>(call.bound.writes[0]);
    auto* counters = at<std::int32_t>(call.bound.writes[1]);
    if (overflow) {
        counters[0] = 0;
        if (++counters[1] >= rule.hysteresis)
            scale = std::max(scale / 2, static_cast<float>(rule.minimum));
    } else if (++counters[0] == rule.growth_interval) {
        counters[0] = 0;
        counters[1] = 0;
        scale *= 2;
    }
}

// Every tensor rank of the last stage has the loss: it counts on the first one.
void Performer::loss_share(const Call& call) {
    auto& share = *at<double>(call.bound.writes[0]);
    share = 0;
    if (call.bound.reads.empty() || program_.at.tensor > 0) return;
    const Buffer loss = read(call, 0);
    share = loss.dtype == plan::DType::fp64
                ? *static_cast<const double*>(loss.data)
                : static_cast<double>(*static_cast<const float*>(loss.data));
}

// Reads the batch's loss, the losses that count (the latest ones, in turn) with how many there have
// been, and whether gradients overflowed, where they can: such a step is not taken either way, and
// its loss does not count. A loss that is not a number has spiked.
void Performer::judge_loss(const Call& call) {
    const plan::LossSpike& rule = scenario_.training.loss_spike;
    const double loss = *at<double>(call.bound.reads[0]);
    const bool overflow = call.bound.reads.size() > 3 && *at<float>(call.bound.reads[3]) > 0;
    const std::span accepted(at<double>(call.bound.writes[0]),
                             static_cast<std::size_t>(rule.window));
    auto& count = *at<std::int32_t>(call.bound.writes[1]);
    const double mean =
        std::accumulate(accepted.begin(), accepted.end(), 0.0) / static_cast<double>(rule.window);
    const bool spiked = !overflow && count >= rule.window && !(loss <= rule.skip_above * mean);
    *at<float>(call.bound.writes[2]) = spiked ? 1 : 0;
    if (spiked || overflow) return;
    accepted[static_cast<std::size_t>(count % rule.window)] = loss;
    ++count;
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
        if (call.read_tensor(i).name == "overflow" || call.read_tensor(i).name == "loss spike")
            adamw.skip = adamw.skip || *at<float>(call.bound.reads[i]) > 0;
        if (call.read_tensor(i).name != "norm") continue;
        // PyTorch's clip_grad_norm_ and Megatron-LM's clip_grad_by_total_norm_fp32.
        const double norm = norm_of(at<double>(call.bound.reads[i]));
        adamw.gradient_factor = std::min(1.0, optimizer.clip_norm / (norm + 1e-6));
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
        kernels_.adamw(adamw, team_);
    }
}

}  // namespace orrery::runtime
