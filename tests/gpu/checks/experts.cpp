// Layers of experts: who is chosen, rows on their way, what experts make of them.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

struct Router {
    const char* name;
    RoutingRule rule;
    bool biased = false;
};

std::vector<Router> routers() {
    Router softmax{"softmax", {8, 2}};
    Router normalized{"softmax, normalized", {40, 5}};
    normalized.rule.normalizes = true;
    Router sigmoid{"sigmoid, groups, bias", {64, 6}, true};
    sigmoid.rule.sigmoid = sigmoid.rule.normalizes = true;
    sigmoid.rule.factor = 2.5;
    sigmoid.rule.groups = 8;
    sigmoid.rule.kept_groups = 3;
    sigmoid.rule.group_best = 2;
    Router all{"all chosen", {3, 3}};
    return {softmax, normalized, sigmoid, all};
}

void check_route(World& world, const Router& router, std::int64_t rows) {
    const RoutingRule& rule = router.rule;
    world.begin("route", std::string(router.name) + ", " + std::to_string(rows) + " rows");
    Values numbers = normals(rows * rule.experts, 1);
    // Two alike, and one that is none.
    if (rows > 2) {
        numbers[1] = numbers[0] = 9;
        numbers[static_cast<std::size_t>(rule.experts) + 2] = std::nan("");
    }
    Tensor& logits = world.in(DType::fp32, numbers);
    Tensor& bias = world.in(DType::fp32, normals(rule.experts, 2));
    Tensor& scores = world.out(DType::fp32, rows * rule.experts);
    Tensor& choice = world.out(DType::i32, rows * rule.chosen);
    Tensor& weights = world.out(DType::fp32, rows * rule.chosen);
    Tensor& counts = world.out(DType::i32, rule.experts);
    Tensor& dweights = world.in(DType::fp32, normals(rows * rule.chosen, 3));
    Tensor& dlogits = world.out(rows * rule.experts);
    Tensor& old_dbias = world.in(DType::fp32, normals(rule.experts, 4));
    world.run([&](Kernels& kernels, const Place& at) {
        Route route;
        route.rows = rows;
        route.rule = rule;
        route.logits = at(logits);
        if (router.biased) route.bias = at(bias);
        route.scores = at(scores);
        route.choice = at.at<std::int32_t>(choice);
        route.weights = at(weights);
        route.counts = at.at<std::int32_t>(counts);
        kernels.route(route);
        kernels.route_backward({rows, rule, at(dweights), at(scores), route.choice, at(dlogits)});
        kernels.load_gradient({rule.experts, 1.5, route.counts, at(old_dbias), true});
    });
    world.expect_close("scores", scores, 16);
    world.expect_same("choice", choice);
    world.expect_close("weights", weights, 32);
    world.expect_same("counts", counts);
    world.expect_close("dlogits", dlogits, roundings_of_sum(rule.experts) + 64);
    world.expect_close("dbias", old_dbias, 2);
}

// Tokens of all members of a group and whom they choose, each expert once.
struct Group {
    std::int64_t experts, ranks, split, chosen, tokens;

    std::string text() const {
        return std::to_string(experts) + " experts, " + std::to_string(ranks) + " ranks / " +
               std::to_string(split) + ", " + std::to_string(chosen) + " of " +
               std::to_string(tokens) + " tokens";
    }
    std::int64_t local() const { return experts * split / ranks; }
    // Few go to the last ones.
    std::vector<std::int32_t> choices(std::uint32_t seed) const {
        std::mt19937 random(seed);
        std::vector<std::int32_t> all;
        for (std::int64_t token = 0; token < tokens; ++token) {
            std::vector<std::int32_t> own;
            while (static_cast<std::int64_t>(own.size()) < chosen) {
                const auto a = static_cast<std::int32_t>(random() % experts);
                const auto b = static_cast<std::int32_t>(random() % experts);
                const std::int32_t expert = std::min(a, b);
                if (std::find(own.begin(), own.end(), expert) == own.end()) own.push_back(expert);
            }
            std::sort(own.begin(), own.end());
            all.insert(all.end(), own.begin(), own.end());
        }
        return all;
    }
    // [ranks, experts].
    std::vector<std::int32_t> counts() const {
        std::vector<std::int32_t> all;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            std::vector<std::int32_t> own(static_cast<std::size_t>(experts));
            for (const std::int32_t expert : choices(static_cast<std::uint32_t>(rank)))
                ++own[static_cast<std::size_t>(expert)];
            all.insert(all.end(), own.begin(), own.end());
        }
        return all;
    }
    ExpertPlaces places(std::int64_t member, const std::int32_t* counts) const {
        return {experts, ranks, split, member, counts};
    }
    std::int64_t received(std::int64_t member) const {
        const std::vector<std::int32_t> all = counts();
        return places(member, all.data()).received(member);
    }
};

// One rank, several, with a split, one expert a rank; more choices than a block has threads.
std::vector<Group> groups() {
    return {{4, 1, 1, 2, 5}, {8, 4, 1, 2, 37}, {6, 4, 2, 3, 9}, {4, 4, 1, 1, 7}, {16, 2, 1, 5, 60}};
}

// Some were dropped.
std::vector<std::int32_t> with_drops(std::vector<std::int32_t> choices) {
    for (std::size_t i = 3; i < choices.size(); i += 7)
        choices[i] = -1;
    return choices;
}

void check_permute(World& world, const Group& group, std::int64_t width, bool drops, bool pads) {
    world.begin("permute", group.text() + (drops ? ", some dropped" : "") +
                               (pads ? ", filled up" : "") + ", width " + std::to_string(width));
    const std::vector<std::int32_t> choices =
        drops ? with_drops(group.choices(0)) : group.choices(0);
    const std::int64_t sent = group.tokens * group.chosen;
    const std::int64_t room = pads ? group.experts * group.tokens : sent;
    Tensor& x = world.in(normals(group.tokens * width, 1));
    Tensor& weights = world.in(DType::fp32, normals(sent, 2));
    Tensor& choice = world.tokens(choices);
    Tensor& y = world.out(room * width);
    Tensor& permuted = world.out(DType::fp32, room);
    Tensor& returned = world.in(normals(room * group.split * width, 3));
    Tensor& returned_dweights = world.in(DType::fp32, normals(room * group.split, 4));
    Tensor& sum = world.out(group.tokens * width);
    Tensor& dweights = world.out(DType::fp32, sent);
    world.run([&](Kernels& kernels, const Place& at) {
        const auto* const chosen = at.at<std::int32_t>(choice);
        Permute permute{group.tokens, width,       group.chosen, group.experts, at(x),
                        chosen,       at(weights), at(y),        at(permuted)};
        Unpermute back{group.tokens, width,  group.chosen,          group.places(0, nullptr),
                       at(returned), chosen, at(returned_dweights), at(sum),
                       at(dweights)};
        if (pads) permute.capacity = back.capacity = group.tokens;
        kernels.permute(permute);
        kernels.unpermute(back);
    });
    world.expect_same("y", y);
    world.expect_same("permuted weights", permuted);
    world.expect_close("sum", sum, roundings_of_sum(group.chosen * group.split));
    world.expect_close("dweights", dweights, roundings_of_sum(group.split));
}

void check_group_rows(World& world, const Group& group, std::int64_t member) {
    world.begin("group_rows", group.text() + ", member " + std::to_string(member));
    const std::int64_t width = 6, rows = group.received(member) + 3;
    Tensor& counts = world.tokens(group.counts());
    Tensor& x = world.in(normals(rows * width, 1));
    Tensor& y = world.out(rows * width);
    Tensor& back = world.out(rows * width);
    world.run([&](Kernels& kernels, const Place& at) {
        const ExpertPlaces places = group.places(member, at.at<std::int32_t>(counts));
        kernels.group_rows({width, places, false, at(x), at(y)});
        kernels.group_rows({width, places, true, at(y), at(back)});
    });
    world.expect_same("y", y);
    world.expect_same("back", back);
}

// All ranks' rows have come.
void check_spread(World& world, const Group& group, std::int64_t member) {
    world.begin("spread_rows", group.text() + ", member " + std::to_string(member));
    std::vector<std::int32_t> choices;
    for (std::int64_t rank = 0; rank < group.ranks; ++rank) {
        const std::vector<std::int32_t> own = group.choices(static_cast<std::uint32_t>(rank));
        choices.insert(choices.end(), own.begin(), own.end());
    }
    const std::int64_t copies = group.ranks * group.tokens, width = 5;
    const std::int64_t rows = group.received(member), all = copies * group.chosen;
    Tensor& choice = world.tokens(choices);
    Tensor& counts = world.tokens(group.counts());
    Tensor& x = world.in(normals(copies * width, 1));
    Tensor& weights = world.in(DType::fp32, normals(all, 2));
    Tensor& y = world.out(rows * width);
    Tensor& of_rows = world.out(DType::fp32, rows);
    Tensor& made = world.in(normals(rows * width, 3));
    Tensor& sums = world.out(copies * width);
    Tensor& back = world.out(DType::fp32, all);
    const std::int64_t most = std::min(group.chosen, group.ranks / group.split);
    Tensor& sets = world.out(DType::i32, copies * most);
    Tensor& set_counts = world.out(DType::i32, group.ranks / group.split);
    world.run([&](Kernels& kernels, const Place& at) {
        const ExpertPlaces places = group.places(member, at.at<std::int32_t>(counts));
        const auto* const chosen = at.at<std::int32_t>(choice);
        kernels.spread_rows({width, group.chosen, copies, places, false, chosen, at(x), at(y)});
        kernels.spread_weights(
            {group.chosen, copies, places, false, chosen, at(weights), at(of_rows)});
        kernels.spread_rows(
            {width, group.chosen, copies, places, true, chosen, at(made), at(sums)});
        kernels.spread_weights({group.chosen, copies, places, true, chosen, at(of_rows), at(back)});
        kernels.choose_ranks({copies, group.chosen, group.local(), group.ranks / group.split,
                              chosen, at.at<std::int32_t>(sets), at.at<std::int32_t>(set_counts)});
    });
    world.expect_same("y", y);
    world.expect_same("weights", of_rows);
    world.expect_close("sums", sums, roundings_of_sum(group.chosen));
    world.expect_same("weights back", back);
    world.expect_same("sets", sets);
    world.expect_same("counts of sets", set_counts);
}

void check_grouped_gemm(World& world, const Group& group, std::int64_t member, GemmForm form,
                        bool accumulate, bool by_source = false) {
    world.begin("grouped_gemm", group.text() + ", form " + std::to_string(static_cast<int>(form)) +
                                    (accumulate ? ", added" : "") +
                                    (by_source ? ", by source" : ""));
    const std::int64_t rows = group.received(member), n = 24, k = 40,
                       local = group.local() * (by_source ? group.ranks : 1);
    const bool sums = form == GemmForm::weight_gradient;
    Tensor& counts = world.tokens(group.counts());
    Tensor& a = world.in(normals(rows * (sums ? n : k), 1));
    Tensor& b = world.in(normals(sums ? rows * k : local * n * k, 2));
    Tensor& c =
        world.in(sums ? DType::fp32 : world.dtype(), normals(sums ? local * n * k : rows * n, 3));
    world.run([&](Kernels& kernels, const Place& at) {
        GroupedGemm op;
        op.form = form;
        op.m = sums ? n : 0;
        op.n = sums ? k : n;
        op.k = sums ? 0 : k;
        op.places = group.places(member, at.at<std::int32_t>(counts));
        op.a = at(a);
        op.b = at(b);
        op.c = at(c);
        op.accumulate = accumulate;
        op.by_source = by_source;
        kernels.grouped_gemm(op);
    });
    world.expect_close("c", c, roundings_of_sum(sums ? rows : k));
}

void check_expert_vectors(World& world, const Group& group, std::int64_t member,
                          ActivationForm form, bool weighs, std::int64_t width) {
    world.begin("expert_activation", group.text() + ", form " +
                                         std::to_string(static_cast<int>(form)) +
                                         (weighs ? ", weighed" : ""));
    const std::int64_t rows = group.received(member), n = rows * width;
    const bool gated = form != ActivationForm::squared_relu;
    const double limit = form == ActivationForm::clamped_swiglu ? 0.7 : 0;
    const std::int64_t read = gated ? 2 * n : n;
    Tensor& counts = world.tokens(group.counts());
    Tensor& x = world.in(normals(read, 1));
    Tensor& weights = world.in(DType::fp32, normals(rows, 2));
    Tensor& dy = world.in(normals(n, 3));
    Tensor& biases = world.in(normals(group.local() * width, 4));
    Tensor& y = world.out(n);
    Tensor& dx = world.out(read);
    Tensor& dweights = world.out(DType::fp32, rows);
    Tensor& biased = world.out(n);
    Tensor& dbiases = world.in(DType::fp32, normals(group.local() * width, 5));
    Tensor& dbiases_by_source =
        world.in(DType::fp32, normals(group.ranks * group.local() * width, 6));
    Tensor& dweights_of_biases = world.out(DType::fp32, rows);
    Tensor& weighed = world.out(n);
    Tensor& dweighed = world.out(n);
    Tensor& dweights_of_rows = world.out(DType::fp32, rows);
    world.run([&](Kernels& kernels, const Place& at) {
        ExpertPlaces places = group.places(member, at.at<std::int32_t>(counts));
        places.room = rows + 1;
        const Buffer by = weighs ? at(weights) : Buffer{};
        kernels.expert_activation({form, width, limit, places, at(x), by, at(y)});
        kernels.expert_activation_backward(
            {form, width, limit, places, at(dy), at(x), by, at(dx), at(dweights)});
        kernels.expert_bias({width, places, at(dy), at(biases), by, at(biased)});
        ExpertBiasBackward back{width, places, at(dy), by, at(biases), at(dbiases), {}};
        if (weighs) back.dweights = at(dweights_of_biases);
        back.accumulate = weighs;
        kernels.expert_bias_backward(back);
        back.dbiases = at(dbiases_by_source);
        back.by_source = true;
        kernels.expert_bias_backward(back);
        kernels.weigh_rows({width, places, at(dy), at(weights), at(weighed)});
        kernels.weigh_rows_backward(
            {width, places, at(dy), at(y), at(weights), at(dweighed), at(dweights_of_rows)});
    });
    constexpr double kFunctionRoundings = 32;
    world.expect_close("y", y, kFunctionRoundings);
    world.expect_close("dx", dx, kFunctionRoundings);
    world.expect_close("dweights", dweights, kFunctionRoundings + roundings_of_sum(width));
    world.expect_close("biased", biased, 2);
    world.expect_close("dbiases", dbiases, roundings_of_sum(rows));
    world.expect_close("dbiases by source", dbiases_by_source, roundings_of_sum(rows));
    world.expect_close("dweights of biases", dweights_of_biases, roundings_of_sum(width));
    world.expect_close("weighed", weighed, 2);
    world.expect_close("dweighed", dweighed, 2);
    // Of y, which in 16 bits may be a rounding off.
    world.expect_close(
        "dweights of rows", dweights_of_rows,
        kFunctionRoundings + roundings_of_sum(width) + (world.dtype() == DType::fp32 ? 0 : 0x1p17));
}

// In the order of the CPU, so that not a bit differs.
void check_sum_sources(World& world, std::int64_t sources, std::int64_t elements) {
    world.begin("sum_sources", std::to_string(sources) + " of " + std::to_string(elements));
    Tensor& x = world.in(DType::fp32, normals(sources * elements, 1));
    Tensor& y = world.out(DType::fp32, elements);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.sum_sources({elements, sources, at(x), at(y)});
    });
    world.expect_same("y", y);
}

void check_gate_rows(World& world, std::int64_t rows, std::int64_t width) {
    world.begin("gate_rows", std::to_string(rows) + "x" + std::to_string(width));
    Tensor& x = world.in(normals(rows * width, 1));
    Tensor& logits = world.in(DType::fp32, normals(rows, 2));
    Tensor& dy = world.in(normals(rows * width, 3));
    Tensor& y = world.out(rows * width);
    Tensor& dx = world.out(rows * width);
    Tensor& dlogits = world.out(DType::fp32, rows);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gate_rows({rows, width, at(x), at(logits), at(y)});
        kernels.gate_rows_backward({rows, width, at(dy), at(x), at(logits), at(dx), at(dlogits)});
    });
    world.expect_close("y", y, 16);
    world.expect_close("dx", dx, 16);
    world.expect_close("dlogits", dlogits, 32 + roundings_of_sum(width));
}

// Of sequences on several ranks, whose choices have been gathered.
void check_drop_rows(World& world, const SequencePart& part, std::int64_t tensor,
                     std::int64_t capacity, bool by_position, bool pads) {
    world.begin("drop_rows", std::to_string(part.ranks) + " x " + std::to_string(tensor) +
                                 " ranks, capacity " + std::to_string(capacity) +
                                 (by_position ? ", by position" : "") +
                                 (pads ? ", filled up" : ""));
    constexpr std::int64_t kRows = 32, kUnits = 2;
    const std::int64_t all = part.ranks * tensor * kRows;
    const Group group{6, 1, 1, 2, all};
    // Weights of few values, so that many are alike.
    std::mt19937 random(7);
    Values few(static_cast<std::size_t>(all * 2));
    for (double& weight : few)
        weight = static_cast<double>(random() % 4) / 4;
    few[5] = std::nan("");
    Tensor& choice = world.tokens(group.choices(1));
    Tensor& weights = world.in(DType::fp32, few);
    Tensor& kept = world.out(DType::i32, kRows * 2);
    Tensor& counts = world.out(DType::i32, 6);
    world.run([&](Kernels& kernels, const Place& at) {
        DropRows op;
        op.rows = kRows;
        op.chosen = 2;
        op.experts = 6;
        op.capacity = capacity;
        op.units = kUnits;
        op.tensor_ranks = tensor;
        op.tensor_rank = tensor - 1;
        op.run = tensor * kRows / kUnits;
        op.part = part;
        op.by_position = by_position;
        op.pads = pads;
        op.choice = at.at<std::int32_t>(choice);
        op.weights = at(weights);
        op.kept = at.at<std::int32_t>(kept);
        op.counts = at.at<std::int32_t>(counts);
        kernels.drop_rows(op);
    });
    world.expect_same("kept", kept);
    world.expect_same("counts", counts);
}

void check_balance(World& world, bool sigmoid, bool scaled) {
    constexpr std::int64_t kRows = 21, kExperts = 40, kChosen = 3, kUnits = 4, kRun = 6;
    world.begin("balance_gradient",
                std::string(sigmoid ? "sigmoid" : "softmax") + (scaled ? ", scaled" : ""));
    const Group group{kExperts, 1, 1, kChosen, kRows};
    Values shares = normals(kRows * kExperts, 1);
    for (double& share : shares)
        share = 1 / (1 + std::exp(-share));
    Tensor& scores = world.in(DType::fp32, shares);
    Tensor& logits = world.in(DType::fp32, normals(kRows * kExperts, 2));
    Tensor& choice = world.tokens(group.choices(0));
    Tensor& choices = world.out(DType::fp32, kUnits * kExperts);
    Tensor& dlogits = world.in(normals(kRows * kExperts, 3));
    Tensor& scale = world.in(DType::fp32, {64});
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.count_choices(
            {kRows, kChosen, kExperts, kUnits, 2, kRun, at.at<std::int32_t>(choice), at(choices)});
        BalanceGradient balance;
        balance.rows = kRows;
        balance.experts = kExperts;
        balance.first = 2;
        balance.run = kRun;
        balance.sigmoid = sigmoid;
        balance.factor = 0.25;
        if (scaled) balance.scale = at.at<float>(scale);
        balance.scores = at(scores);
        balance.choices = at(choices);
        balance.dlogits = at(dlogits);
        kernels.balance_gradient(balance);
        RouterZGradient z;
        z.rows = kRows;
        z.experts = kExperts;
        z.factor = 0.5;
        if (scaled) z.scale = at.at<float>(scale);
        z.logits = at(logits);
        z.dlogits = at(dlogits);
        kernels.router_z_gradient(z);
    });
    world.expect_same("choices", choices);
    // Two sums are rounded to the type of dlogits, one after the other.
    world.expect_close("dlogits", dlogits,
                       roundings_of_sum(kExperts) + (world.dtype() == DType::fp32 ? 0 : 0x1p16));
}

}  // namespace

void check_routers(World& world) {
    for (const Router& router : routers())
        for (const std::int64_t rows : {1, 9})
            check_route(world, router, rows);
    if (world.large()) check_route(world, routers()[2], 8192);
    for (const bool sigmoid : {false, true})
        for (const bool scaled : {false, true})
            check_balance(world, sigmoid, scaled);
    for (const SequencePart& part :
         {SequencePart{}, SequencePart{2, 1, false}, SequencePart{2, 0, true}})
        for (const std::int64_t tensor : {1, 2})
            for (const std::int64_t capacity : {1, 9, 100})
                check_drop_rows(world, part, tensor, capacity, capacity == 9, tensor == 2);
}

void check_expert_rows(World& world) {
    for (const Group& group : groups()) {
        check_permute(world, group, 33, false, false);
        check_permute(world, group, 16, true, false);
        check_permute(world, group, 5, true, true);
        check_group_rows(world, group, 0);
        check_group_rows(world, group, group.ranks - 1);
        check_spread(world, group, group.ranks - 1);
    }
    if (world.large()) check_permute(world, {64, 8, 1, 6, 2048}, 1024, false, false);
}

void check_experts(World& world) {
    for (const Group& group : groups()) {
        const std::int64_t member = group.ranks - 1;
        for (const GemmForm form :
             {GemmForm::forward, GemmForm::input_gradient, GemmForm::weight_gradient})
            check_grouped_gemm(world, group, member, form, false);
        check_grouped_gemm(world, group, member, GemmForm::weight_gradient, true);
        for (const bool accumulate : {false, true})
            check_grouped_gemm(world, group, member, GemmForm::weight_gradient, accumulate, true);
    }
    check_expert_vectors(world, groups()[1], 3, ActivationForm::swiglu, true, 35);
    check_expert_vectors(world, groups()[0], 0, ActivationForm::geglu_tanh, false, 40);
    for (const std::int64_t sources : {1, 2, 8, 64})
        check_sum_sources(world, sources, 1003);
    check_expert_vectors(world, groups()[1], 1, ActivationForm::squared_relu, true, 35);
    check_expert_vectors(world, groups()[2], 1, ActivationForm::clamped_swiglu, true, 48);
    check_gate_rows(world, 5, 37);
    check_gate_rows(world, 3, 300);
}

}  // namespace orrery::runtime::gpu_check
