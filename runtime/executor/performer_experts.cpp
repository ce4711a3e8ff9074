// Mixtures of experts: the router, rows to and from experts, their products.
#include <algorithm>

#include "runtime/executor/performer.hpp"
#include "runtime/kernels/activation_forms.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::runtime {
namespace {

RoutingRule rule_of(const plan::Routing& op) {
    RoutingRule rule;
    rule.experts = op.experts;
    rule.chosen = op.chosen;
    rule.sigmoid = op.score == plan::RouterScore::sigmoid;
    rule.normalizes = op.normalizes;
    rule.factor = op.factor;
    rule.groups = op.groups;
    rule.kept_groups = op.kept_groups;
    rule.group_best = op.group_best;
    return rule;
}

}  // namespace

ExpertPlaces Performer::expert_places(const plan::ExpertPlaces& op) const {
    return {op.experts, op.ranks, op.split, communicator_.index_in(plan::GroupKind::expert),
            nullptr};
}

ExpertPlaces Performer::expert_places(const plan::ExpertPlaces& op, const Call& call,
                                      std::size_t counts) const {
    ExpertPlaces places = expert_places(op);
    places.counts = at<std::int32_t>(call.bound.reads[counts]);
    return places;
}

template <typename Op>
ExpertPlaces Performer::places_of_rows(const Op& op, const Call& call, std::size_t counts) const {
    ExpertPlaces places = expert_places(op, call, counts);
    places.room = op.rows;
    return places;
}

ExpertPlaces Performer::places_on_host(const plan::ExpertPlaces& op, const Call& call,
                                       std::size_t counts) const {
    ExpertPlaces places = expert_places(op, call, counts);
    places.counts =
        call.kernels.fetch({places.counts, static_cast<std::size_t>(op.ranks * op.experts)});
    return places;
}

void Performer::compute(const plan::Route& op, const Call& call) {
    Route route;
    route.rows = op.rows;
    route.rule = rule_of(op);
    route.logits = read(call, 0);
    if (op.biased) route.bias = read(call, 1);
    route.scores = written(call, 0);
    route.choice = at<std::int32_t>(call.bound.writes[1]);
    route.weights = written(call, 2);
    route.counts = at<std::int32_t>(call.bound.writes[3]);
    call.kernels.route(route);
    if (!counts_experts_ || call.bound.op->phase != plan::Phase::forward) return;
    std::vector<std::int64_t>& counts = expert_counts_[call.bound.layer].chosen;
    counts.resize(static_cast<std::size_t>(op.experts));
    for (std::size_t expert = 0; expert < counts.size(); ++expert)
        counts[expert] += route.counts[expert];
}

void Performer::compute(const plan::RouteBackward& op, const Call& call) {
    call.kernels.route_backward({op.rows, rule_of(op), read(call, 0), read(call, 1),
                                 at<std::int32_t>(call.bound.reads[2]), written(call, 0)});
}

void Performer::compute(const plan::DropRows& op, const Call& call) {
    DropRows drop;
    drop.rows = op.rows;
    drop.chosen = op.chosen;
    drop.experts = op.experts;
    drop.capacity = op.capacity;
    drop.units = op.units;
    if (op.parts > 1) drop.part = part_;
    drop.tensor_ranks = op.parts / drop.part.ranks;
    drop.tensor_rank = drop.tensor_ranks > 1 ? program_.at.tensor : 0;
    drop.run = drop.tensor_ranks * op.rows / op.units;
    drop.by_position = op.policy == plan::DropPolicy::position;
    drop.pads = op.pads;
    drop.choice = at<std::int32_t>(call.bound.reads[0]);
    drop.weights = read(call, 1);
    drop.kept = at<std::int32_t>(call.bound.writes[0]);
    drop.counts = at<std::int32_t>(call.bound.writes[1]);
    call.kernels.drop_rows(drop);
    if (counts_experts_ && call.bound.op->phase == plan::Phase::forward)
        expert_counts_[call.bound.layer].dropped +=
            std::count(drop.kept, drop.kept + op.rows * op.chosen, -1);
}

void Performer::compute(const plan::CountChoices& op, const Call& call) {
    call.kernels.count_choices({op.rows, op.chosen, op.experts, op.units, first_row(op.rows),
                                held_tokens() / op.units, at<std::int32_t>(call.bound.reads[0]),
                                written(call, 0)});
}

void Performer::compute(const plan::LoadGradient& op, const Call& call) {
    const double mean = static_cast<double>(op.rows * op.chosen) / static_cast<double>(op.experts);
    call.kernels.load_gradient({op.experts, mean, at<std::int32_t>(call.bound.reads[0]),
                                written(call, 0), call.bound.accumulates});
}

// The loss is divided by the valid tokens, as is what is added to it.
void Performer::compute(const plan::BalanceGradient& op, const Call& call) {
    BalanceGradient added;
    added.rows = op.rows;
    added.experts = op.experts;
    added.first = first_row(op.rows);
    added.run = held_tokens() / op.units;
    added.sigmoid = op.score == plan::RouterScore::sigmoid;
    added.factor = call.step().gradient_scale * op.coefficient * static_cast<double>(op.experts) /
                   static_cast<double>(op.chosen * op.unit);
    if (call.bound.reads.size() > 3) added.scale = at<float>(call.bound.reads[3]);
    added.scores = read(call, 1);
    added.choices = read(call, 2);
    added.dlogits = written(call, 0);
    call.kernels.balance_gradient(added);
}

// As the balance, of each token.
void Performer::compute(const plan::RouterZGradient& op, const Call& call) {
    RouterZGradient added;
    added.rows = op.rows;
    added.experts = op.experts;
    added.factor = call.step().gradient_scale * op.coefficient;
    if (call.bound.reads.size() > 2) added.scale = at<float>(call.bound.reads[2]);
    added.logits = read(call, 1);
    added.dlogits = written(call, 0);
    call.kernels.router_z_gradient(added);
}

void Performer::compute(const plan::ChooseRanks& op, const Call& call) {
    call.kernels.choose_ranks(
        {op.rows, op.chosen, op.experts / op.sets, op.sets, at<std::int32_t>(call.bound.reads[0]),
         at<std::int32_t>(call.bound.writes[0]), at<std::int32_t>(call.bound.writes[1])});
}

std::int64_t Performer::copies_in_use(const plan::SpreadFields& op, const Call& call) const {
    if (call.bound.reads.size() < 4) return op.room;
    const ExpertPlaces sets = places_on_host({op.sets(), op.ranks, op.split}, call, 3);
    return sets.received(sets.member);
}

// Copies may fit where their rows do not.
void Performer::compute(const plan::SpreadRows& op, const Call& call) {
    const ExpertPlaces places = expert_places(op, call, 2);
    if (!op.apart) check_room(call, places_on_host(op, call, 2), op.rows, op.expected);
    call.kernels.spread_rows({op.width, op.chosen, copies_in_use(op, call), places, op.apart,
                              at<std::int32_t>(call.bound.reads[1]), read(call, 0),
                              written(call, 0)});
}

void Performer::compute(const plan::SpreadWeights& op, const Call& call) {
    call.kernels.spread_weights({op.chosen, copies_in_use(op, call), expert_places(op, call, 2),
                                 op.apart, at<std::int32_t>(call.bound.reads[1]), read(call, 0),
                                 written(call, 0)});
}

void Performer::compute(const plan::Permute& op, const Call& call) {
    Permute permute;
    permute.rows = op.rows;
    permute.width = op.width;
    permute.chosen = op.chosen;
    permute.experts = op.experts;
    permute.capacity = op.capacity;
    permute.x = read(call, 0);
    permute.choice = at<std::int32_t>(call.bound.reads[1]);
    permute.y = written(call, 0);
    if (call.bound.reads.size() > 2) {
        permute.weights = read(call, 2);
        permute.permuted_weights = written(call, 1);
    }
    call.kernels.permute(permute);
}

void Performer::compute(const plan::Unpermute& op, const Call& call) {
    Unpermute unpermute;
    unpermute.rows = op.rows;
    unpermute.width = op.width;
    unpermute.chosen = op.chosen;
    unpermute.places = expert_places(op);
    unpermute.capacity = op.capacity;
    unpermute.returned = read(call, 0);
    unpermute.choice = at<std::int32_t>(call.bound.reads[1]);
    unpermute.y = written(call, 0);
    if (call.bound.reads.size() > 2) {
        unpermute.returned_dweights = read(call, 2);
        unpermute.dweights = written(call, 1);
    }
    call.kernels.unpermute(unpermute);
}

void Performer::compute(const plan::GroupRows& op, const Call& call) {
    call.kernels.group_rows(
        {op.width, expert_places(op, call, 1), op.apart, read(call, 0), written(call, 0)});
}

void Performer::compute(const plan::GroupedGemm& op, const Call& call) {
    if (plan::is_eight_bit(call.bound.reads[0].dtype)) return grouped_gemm_of_eight_bits(op, call);
    GroupedGemm gemm;
    gemm.form = form_of(op.product);
    gemm.m = op.m;
    gemm.n = op.n;
    gemm.k = op.k;
    gemm.places = expert_places(op, call, 2);
    gemm.a = read(call, 0);
    gemm.b = read(call, 1);
    gemm.c = written(call, 0);
    gemm.accumulate = call.bound.accumulates;
    gemm.by_source = op.by_source;
    call.kernels.grouped_gemm(gemm);
}

void Performer::compute(const plan::ExpertActivate& op, const Call& call) {
    ExpertActivation activation;
    activation.form = form_of(op.function);
    activation.width = op.width;
    activation.limit = op.limit;
    activation.places = places_of_rows(op, call, op.weighs ? 2 : 1);
    activation.x = read(call, 0);
    if (op.weighs) activation.weights = read(call, 1);
    activation.y = written(call, 0);
    call.kernels.expert_activation(activation);
}

void Performer::compute(const plan::ExpertActivateBackward& op, const Call& call) {
    ExpertActivationBackward activation;
    activation.form = form_of(op.function);
    activation.width = op.width;
    activation.limit = op.limit;
    activation.places = places_of_rows(op, call, op.weighs ? 3 : 2);
    activation.dy = read(call, 0);
    activation.x = read(call, 1);
    activation.dx = written(call, 0);
    if (op.weighs) {
        activation.weights = read(call, 2);
        activation.dweights = written(call, 1);
    }
    call.kernels.expert_activation_backward(activation);
}

void Performer::compute(const plan::ExpertBias& op, const Call& call) {
    ExpertBias bias;
    bias.width = op.width;
    bias.places = places_of_rows(op, call, 2);
    bias.x = read(call, 0);
    bias.biases = read(call, 1);
    if (op.weighs) bias.weights = read(call, 3);
    bias.y = written(call, 0);
    call.kernels.expert_bias(bias);
}

void Performer::compute(const plan::ExpertBiasBackward& op, const Call& call) {
    ExpertBiasBackward bias;
    bias.width = op.width;
    bias.places = places_of_rows(op, call, 1);
    bias.dy = read(call, 0);
    bias.dbiases = written(call, 0);
    if (op.weighs) {
        bias.weights = read(call, 2);
        bias.biases = read(call, 3);
        bias.dweights = written(call, 1);
    }
    bias.accumulate = call.bound.accumulates;
    bias.by_source = op.by_source;
    call.kernels.expert_bias_backward(bias);
}

// The end of the sums that no parameter fills is reduced with the rest.
void Performer::compute(const plan::SumSources& op, const Call& call) {
    const Buffer sums = written(call, 0);
    std::int64_t first = 0;
    const auto from = [&](std::int64_t element) {
        return Buffer{static_cast<std::byte*>(sums.data) + element * plan::size_bytes(sums.dtype),
                      sums.dtype};
    };
    for (std::size_t i = 0; i < call.bound.reads.size(); ++i) {
        const std::int64_t elements = call.bound.reads[i].elements / op.sources;
        call.kernels.sum_sources({elements, op.sources, read(call, i), from(first)});
        first += elements;
    }
    if (const std::int64_t padding = call.bound.writes[0].elements - first; padding > 0)
        call.kernels.fill({padding, 0, from(first)});
}

void Performer::compute(const plan::WeighRows& op, const Call& call) {
    call.kernels.weigh_rows(
        {op.width, places_of_rows(op, call, 2), read(call, 0), read(call, 1), written(call, 0)});
}

void Performer::compute(const plan::WeighRowsBackward& op, const Call& call) {
    call.kernels.weigh_rows_backward({op.width, places_of_rows(op, call, 3), read(call, 0),
                                      read(call, 1), read(call, 2), written(call, 0),
                                      written(call, 1)});
}

void Performer::compute(const plan::GateRows& op, const Call& call) {
    call.kernels.gate_rows({op.rows, op.width, read(call, 0), read(call, 1), written(call, 0)});
}

void Performer::compute(const plan::GateRowsBackward& op, const Call& call) {
    call.kernels.gate_rows_backward({op.rows, op.width, read(call, 0), read(call, 1), read(call, 2),
                                     written(call, 0), written(call, 1)});
}

}  // namespace orrery::runtime
