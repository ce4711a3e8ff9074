// Mixtures of experts (Shazeer et al. 2017, arXiv 1701.06538; Lepikhin et al. 2020, arXiv
// 2006.16668): the router chooses experts for each token, rows go to the ranks that hold these, are
// multiplied there expert by expert, come back and are summed.
//
// How many rows go where is data: route counts what its rank sends to each expert, and all members
// of the expert group gather these counts, [ranks, experts] integers, which every further op reads.
// Buffers of rows that have come in have room for a bound; the first so many are in use. What is
// priced are the rows that come when all experts are chosen alike often (`expected`).
#pragma once

#include <algorithm>

#include "plan/ops/matrix.hpp"
#include "plan/ops/rows.hpp"

namespace orrery::plan {

enum class RouterScore : std::uint8_t {
    softmax,  // over all experts
    sigmoid   // each by itself (DeepSeek-AI 2024, arXiv 2412.19437, section 2.1.2)
};
template <>
struct Spelling<RouterScore> {
    static constexpr std::array<std::string_view, 2> names = {"softmax", "sigmoid"};
};

// How a token's experts are chosen of its scores, and what their results are weighed by.
struct Routing {
    std::int64_t experts = 0, chosen = 0;
    RouterScore score = RouterScore::softmax;
    bool normalizes = false;  // weights of a token's experts add up to 1 before the factor
    double factor = 1;
    // Experts are in so many groups of a row; those of the best `kept_groups` may be chosen, by the
    // sum of a group's `group_best` best scores. 0: all may.
    std::int64_t groups = 0, kept_groups = 0, group_best = 0;
    bool biased = false;  // an operand is added to scores to choose by, and not to weigh by

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.extent("experts", &Op::experts);
        v.extent("chosen", &Op::chosen);
        v.number("score", &Op::score);
        v.number("normalizes", &Op::normalizes);
        v.number("factor", &Op::factor);
        v.number("groups", &Op::groups);
        v.number("kept_groups", &Op::kept_groups);
        v.number("group_best", &Op::group_best);
        v.number("biased", &Op::biased);
    }
    bool operator==(const Routing&) const = default;
};

struct Route : Routing {
    static constexpr std::string_view kDoc =
        "the experts of each token by its scores, ties to the lower number; weighs and counts them";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Route::rows);
        Routing::fields<Route>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("logits", rows, experts);
        if (biased) v.reads("bias", experts);
        v.writes("scores", rows * experts);
        v.writes("choice", rows * chosen);
        v.writes("weights", rows * chosen);
        v.writes("counts", experts);
    }
    bool operator==(const Route&) const = default;
};

struct RouteBackward : Routing {
    static constexpr std::string_view kDoc = "the gradient of its logits, from that of its weights";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &RouteBackward::rows);
        Routing::fields<RouteBackward>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dweights", rows * chosen);
        v.reads("scores", rows, experts);
        v.reads("choice", rows * chosen);
        v.writes("dlogits", rows * experts);
    }
    bool operator==(const RouteBackward&) const = default;
};

// Which of an expert's tokens it takes where its capacity is not enough for all.
enum class DropPolicy : std::uint8_t {
    probs,    // those by which it is weighed most, ties to the earlier one
    position  // the first ones
};
template <>
struct Spelling<DropPolicy> {
    static constexpr std::array<std::string_view, 2> names = {"probs", "position"};
};

// Lepikhin et al. 2020, section 2.2; Megatron Core's names. Of the tokens of a unit, a sequence or
// what a rank has of a micro-batch, each expert takes up to its capacity. A sequence's are on
// several ranks: `parts` of these have gathered choices and weights, by context rank, then by
// tensor rank.
struct DropRows {
    static constexpr std::string_view kDoc =
        "the choices for which their experts have capacity, -1 for others; counts them";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;
    std::int64_t chosen = 0, experts = 0;
    std::int64_t capacity = 0;  // of an expert, of a unit's tokens
    std::int64_t units = 1;
    std::int64_t parts = 1;
    DropPolicy policy = DropPolicy::probs;
    bool pads = false;  // counts are the capacity: experts' rows are filled up

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &DropRows::rows);
        v.extent("chosen", &DropRows::chosen);
        v.extent("experts", &DropRows::experts);
        v.extent("capacity", &DropRows::capacity);
        v.extent("units", &DropRows::units);
        v.extent("parts", &DropRows::parts);
        v.number("policy", &DropRows::policy);
        v.number("pads", &DropRows::pads);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("choice", parts * rows * chosen);
        v.reads("weights", parts * rows * chosen);
        v.writes("kept choice", rows * chosen);
        v.writes("counts", experts);
    }
    bool operator==(const DropRows&) const = default;
};

// Balance within each unit of S tokens: a sequence (DeepSeek-AI 2024, arXiv 2412.19437, equations
// 17 to 20; Megatron Core's seq_aux_loss), or a micro-batch (Fedus et al. 2021, arXiv 2101.03961,
// section 2.2; its aux_loss). To the loss comes, in the mean over units, coefficient · Σ f_i·P_i
// over experts: f_i = E/(k·S) times the tokens that chose i, P_i the mean over tokens of its share
// of a token's scores. No gradient passes f.
struct CountChoices {
    static constexpr std::string_view kDoc =
        "how many of this rank's tokens of each unit have chosen each expert";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;
    std::int64_t chosen = 0, experts = 0, units = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CountChoices::rows);
        v.extent("chosen", &CountChoices::chosen);
        v.extent("experts", &CountChoices::experts);
        v.extent("units", &CountChoices::units);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("choice", rows * chosen);
        v.writes("choices", units * experts);
    }
    bool operator==(const CountChoices&) const = default;
};

struct BalanceGradient {
    static constexpr std::string_view kDoc =
        "adds the gradient of the balance within units to that of the router's logits";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;
    std::int64_t chosen = 0, experts = 0, units = 0;
    std::int64_t unit = 0;  // its tokens, over all ranks
    RouterScore score = RouterScore::softmax;
    double coefficient = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &BalanceGradient::rows);
        v.extent("chosen", &BalanceGradient::chosen);
        v.extent("experts", &BalanceGradient::experts);
        v.extent("units", &BalanceGradient::units);
        v.number("unit", &BalanceGradient::unit);
        v.number("score", &BalanceGradient::score);
        v.number("coefficient", &BalanceGradient::coefficient);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dlogits", rows * experts);
        v.reads("scores", rows, experts);
        v.reads("choices", units * experts);
        v.may_read("loss scale", 1);
        v.writes("dlogits", rows * experts);
    }
    bool operator==(const BalanceGradient&) const = default;
};

// Balance by a bias instead of a loss (Wang et al. 2024, arXiv 2408.15664): what the bias is
// stepped by, against the sign of its sum over a step.
struct LoadGradient {
    static constexpr std::string_view kDoc =
        "adds to the gradient of the router's bias how many rows more than the mean chose each "
        "expert";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;
    std::int64_t chosen = 0, experts = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &LoadGradient::rows);
        v.extent("chosen", &LoadGradient::chosen);
        v.extent("experts", &LoadGradient::experts);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("counts", experts);
        v.writes("dbias", experts);
    }
    bool operator==(const LoadGradient&) const = default;
};

// Zoph et al. 2022, arXiv 2202.08906, section 3.2: to the loss comes, in the mean over tokens,
// coefficient · (log Σ exp logits)².
struct RouterZGradient {
    static constexpr std::string_view kDoc =
        "adds the gradient of the square of the logits' logarithm of sums to that of the logits";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;
    std::int64_t experts = 0;
    double coefficient = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &RouterZGradient::rows);
        v.extent("experts", &RouterZGradient::experts);
        v.number("coefficient", &RouterZGradient::coefficient);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dlogits", rows * experts);
        v.reads("logits", rows, experts);
        v.may_read("loss scale", 1);
        v.writes("dlogits", rows * experts);
    }
    bool operator==(const RouterZGradient&) const = default;
};

// Which rows are whose: `ranks` members of an expert group, `split` of which in a row have shares
// of the same experts' matrices; each such row of members holds as many experts, in order.
struct ExpertPlaces {
    std::int64_t experts = 0;
    std::int64_t ranks = 1;
    std::int64_t split = 1;

    std::int64_t local() const { return ranks > 0 ? experts * split / ranks : 0; }

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.extent("experts", &Op::experts);
        v.extent("ranks", &Op::ranks);
        v.extent("split", &Op::split);
    }
    bool operator==(const ExpertPlaces&) const = default;
};

// Of rows for local experts: how many come when all are chosen alike often, of the `rows` for which
// there is room.
struct ExpertRows : ExpertPlaces {
    std::int64_t expected = 0;

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.extent("expected", &Op::expected);
        ExpertPlaces::fields<Op>(v);
    }
    bool operator==(const ExpertRows&) const = default;
};

// Instead of one row for each expert of a token, one may go to each rank that has any of them
// (DeepEP, github.com/deepseek-ai/DeepEP, of the training in DeepSeek-AI 2024, arXiv 2412.19437,
// section 3.2.2). Ranks with shares of the same experts are a set; to the ops that send and sum
// rows a set is what an expert is else, and a token has as many as it happens to: the rest of its
// choices are -1. With a row go its token's experts and their weights.
struct ChooseRanks {
    static constexpr std::string_view kDoc =
        "the sets of ranks that have experts of a token, each once, then -1; counts tokens for "
        "each";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0;
    std::int64_t chosen = 0, experts = 0, sets = 0;

    std::int64_t most() const { return std::min(chosen, sets); }

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ChooseRanks::rows);
        v.extent("chosen", &ChooseRanks::chosen);
        v.extent("experts", &ChooseRanks::experts);
        v.extent("sets", &ChooseRanks::sets);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("choice", rows * chosen);
        v.writes("sets", rows * most());
        v.writes("counts", sets);
    }
    bool operator==(const ChooseRanks&) const = default;
};

// How many tokens are drawn, of which each chooses `drawn` of `from` experts, all alike often, of
// those in `kept_groups` of `groups` groups where there are such.
struct TokenDraws {
    std::int64_t tokens = 0;
    std::int64_t drawn = 0, from = 0, groups = 0, kept_groups = 0;

    // Of so many sets of experts in order, how many a token's are in, in the mean; times tokens.
    double copies(std::int64_t sets) const;

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.extent("tokens", &Op::tokens);
        v.extent("drawn", &Op::drawn);
        v.extent("from", &Op::from);
        v.extent("groups", &Op::groups);
        v.extent("kept_groups", &Op::kept_groups);
    }
    bool operator==(const TokenDraws&) const = default;
};

// Choices of -1 have no row.
struct Permute {
    static constexpr std::string_view kDoc =
        "a copy of each token's row for each of its experts, by expert, then by token";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t chosen = 0, experts = 0;
    std::int64_t copies = 0;    // expected; 0: all for which there is room
    std::int64_t capacity = 0;  // to which each expert's rows are filled up with zeros; 0: are not

    std::int64_t copy_room() const { return capacity > 0 ? experts * capacity : rows * chosen; }

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Permute::rows);
        v.size("width", &Permute::width);
        v.extent("chosen", &Permute::chosen);
        v.extent("experts", &Permute::experts);
        v.extent("copies", &Permute::copies);
        v.extent("capacity", &Permute::capacity);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("choice", rows * chosen);
        v.may_read("weights", rows * chosen);
        v.writes("permuted", copy_room() * width);
        v.may_write("permuted weights", copy_room());
    }
    bool operator==(const Permute&) const = default;
};

// Rows come back as all_to_all_v brings them: from member after member of the group.
struct Unpermute : ExpertPlaces {
    static constexpr std::string_view kDoc =
        "each token's sum of what came of its rows, in the order of experts; gradients of weights";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t chosen = 0;
    std::int64_t copies = 0;    // as of Permute, from each of a split
    std::int64_t capacity = 0;  // as of Permute

    std::int64_t copy_room() const {
        return (capacity > 0 ? experts * capacity : rows * chosen) * split;
    }

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Unpermute::rows);
        v.size("width", &Unpermute::width);
        v.extent("chosen", &Unpermute::chosen);
        v.extent("copies", &Unpermute::copies);
        v.extent("capacity", &Unpermute::capacity);
        ExpertPlaces::fields<Unpermute>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("returned", copy_room(), width);
        v.reads("choice", rows * chosen);
        v.may_read("returned dweights", copy_room());
        v.writes("output", rows * width);
        v.may_write("dweights", rows * chosen);
    }
    bool operator==(const Unpermute&) const = default;
};

// As MPI_Alltoallv, with counts on the device. Elements are those of a member when all experts are
// chosen alike often, what stays included. Out, every member of a row of `split` gets the rows of
// its experts, from member after member, each by expert; back, each member gets what it had sent,
// from member after member. Where rows are copies to sets of ranks, sets stand for experts, and how
// tokens draw their experts says how many copies leave a node.
struct AllToAllV : ExpertPlaces, TokenDraws {
    static constexpr std::string_view kDoc =
        "every member sends each other the rows that counts say: out to experts, or back";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0, width = 0;
    bool back = false;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &AllToAllV::elements);
        v.extent("width", &AllToAllV::width);
        ExpertPlaces::fields<AllToAllV>(v);
        v.number("back", &AllToAllV::back);
        TokenDraws::fields<AllToAllV>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("sent", width);
        v.reads("counts", ranks * experts);
        v.writes("received", width);
    }
    bool operator==(const AllToAllV&) const = default;
};

struct GroupRows : ExpertRows {
    static constexpr std::string_view kDoc =
        "rows in the order of members to that of experts, each in the order of members; or back";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    bool apart = false;  // back to the order of members

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &GroupRows::rows);
        v.size("width", &GroupRows::width);
        ExpertRows::fields<GroupRows>(v);
        v.number("apart", &GroupRows::apart);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("counts", ranks * experts);
        v.writes("output", rows * width);
    }
    template <typename Writer, typename Op>
    void gradient(Writer& w, const Op& op) const {
        GroupRows undone = *this;
        undone.apart = !apart;
        const auto dx = w.fresh_gradient(op.reads[0]);
        const auto dy = w.gradient_of(op.writes[0]);
        w.emit(undone, op.label, {dy, w.need(op.reads[1])}, {dx}).dtype = op.dtype;
        w.contribute(op.reads[0], dx);
    }
    bool operator==(const GroupRows&) const = default;
};

// Of copies that have come in, with the experts of their tokens: a row for each that is local, in
// the order of experts, then of copies; or back, where what a token's experts made is summed.
struct SpreadFields : ExpertRows {
    std::int64_t rows = 0, width = 0;
    std::int64_t chosen = 0;
    std::int64_t room = 0, copies = 0;  // of copies, and which are expected
    bool apart = false;                 // back to copies

    std::int64_t sets() const { return split > 0 ? ranks / split : 0; }
    std::int64_t copy_room() const { return room; }

    template <typename Op, typename V>
    static void fields(V&& v) {
        v.size("rows", &Op::rows);
        v.size("width", &Op::width);
        v.extent("chosen", &Op::chosen);
        v.extent("room", &Op::room);
        v.extent("copies", &Op::copies);
        ExpertRows::fields<Op>(v);
        v.number("apart", &Op::apart);
    }
    template <typename V>
    void routing(V&& v) const {
        v.reads("choice", room * chosen);
        v.reads("counts", ranks * experts);
        v.may_read("copy counts", ranks * sets());  // else all for which there is room are in use
    }
    bool operator==(const SpreadFields&) const = default;
};

struct SpreadRows : SpreadFields {
    static constexpr std::string_view kDoc =
        "a row for each local expert of each copy, by expert; or back, summed";
    static constexpr OpFamily kFamily = OpFamily::memory;

    template <typename V>
    static void fields(V&& v) {
        SpreadFields::fields<SpreadRows>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", apart ? rows : room, width);
        routing(v);
        v.writes("output", (apart ? room : rows) * width);
    }
    bool operator==(const SpreadRows&) const = default;
};

// width 1.
struct SpreadWeights : SpreadFields {
    static constexpr std::string_view kDoc =
        "the weight of each such row, of those that came with copies; or back, zero for others";
    static constexpr OpFamily kFamily = OpFamily::memory;

    template <typename V>
    static void fields(V&& v) {
        SpreadFields::fields<SpreadWeights>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", apart ? rows : room * chosen);
        routing(v);
        v.writes("output", apart ? room * chosen : rows);
    }
    bool operator==(const SpreadWeights&) const = default;
};

struct WeighRowsBackward : ExpertRows {
    static constexpr std::string_view kDoc = "its gradients: of the rows, of their weights";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &WeighRowsBackward::rows);
        v.size("width", &WeighRowsBackward::width);
        ExpertRows::fields<WeighRowsBackward>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows, width);
        v.reads("input", rows, width);
        v.reads("weights", rows);
        v.reads("counts", ranks * experts);
        v.writes("dinput", rows * width);
        v.writes("dweights", rows);
    }
    bool operator==(const WeighRowsBackward&) const = default;
};

// Where experts read weighed rows, in place of their results being weighed (Llama 4).
struct WeighRows : ExpertRows {
    static constexpr std::string_view kDoc = "each row times its weight";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &WeighRows::rows);
        v.size("width", &WeighRows::width);
        ExpertRows::fields<WeighRows>(v);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("weights", rows);
        v.reads("counts", ranks * experts);
        v.writes("output", rows * width);
    }
    template <typename Writer, typename Op>
    void gradient(Writer& w, const Op& op) const {
        const auto dx = w.fresh_gradient(op.reads[0]), dweights = w.fresh_gradient(op.reads[1]);
        const auto dy = w.gradient_of(op.writes[0]);
        w.emit(WeighRowsBackward{*this, rows, width}, op.label,
               {dy, w.need(op.reads[0]), w.need(op.reads[1]), w.need(op.reads[2])}, {dx, dweights});
        w.contribute(op.reads[0], dx);
        w.contribute(op.reads[1], dweights);
    }
    bool operator==(const WeighRows&) const = default;
};

// A gemm (plan/ops/matrix.hpp) per local expert over its rows; matrices of experts lie one after
// another. Gradients of weights may be by source: those of the rows of each rank of the group
// apart, one rank's after another's (SumSources).
struct GroupedGemm : ExpertRows {
    static constexpr std::string_view kDoc =
        "a linear's product for each expert, over the rows that came to it";
    static constexpr OpFamily kFamily = OpFamily::matrix;
    std::int64_t m = 0, n = 0, k = 0;
    GemmProduct product = GemmProduct::forward;
    bool transposed = false;  // as of a gemm, each matrix by itself; rows of all experts together
    bool by_source = false;

    std::int64_t products() const { return by_source ? local() * ranks : local(); }
    std::int64_t rows() const { return product == GemmProduct::weight_gradient ? k : m; }
    double flops() const {
        const bool weights = product == GemmProduct::weight_gradient;
        return 2.0 * static_cast<double>(weights ? m : expected) * static_cast<double>(n) *
               static_cast<double>(weights ? expected : k);
    }
    template <typename V>
    static void fields(V&& v) {
        v.size("m", &GroupedGemm::m);
        v.size("n", &GroupedGemm::n);
        v.size("k", &GroupedGemm::k);
        ExpertRows::fields<GroupedGemm>(v);
        v.number("product", &GroupedGemm::product);
        v.number("transposed", &GroupedGemm::transposed);
        v.number("by_source", &GroupedGemm::by_source);
    }
    template <typename V>
    void operands(V&& v) const {
        switch (product) {
            case GemmProduct::forward:
                v.reads("input", m, k);
                v.reads("weights", local() * n, k);
                break;
            case GemmProduct::input_gradient:
                v.reads("doutput", m, k);
                v.reads("weights", local() * (transposed ? n : k), transposed ? k : n);
                break;
            case GemmProduct::weight_gradient:
                v.reads("doutput", transposed ? m : k, transposed ? k : m);
                v.reads("input", transposed ? n : k, transposed ? k : n);
                break;
        }
        v.reads("counts", ranks * experts);
        v.may_read("scales", 1);  // of eight bits, of either operand
        v.may_read("scales", 1);
        v.writes("result", product == GemmProduct::weight_gradient ? products() * m * n : m * n);
    }
    bool operator==(const GroupedGemm&) const = default;
};

// What an expert's second product is weighed by, its bias is too.
struct ExpertBias : ExpertRows {
    static constexpr std::string_view kDoc =
        "adds its expert's bias to each row, times the row's weight where there is one";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    bool weighs = false;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ExpertBias::rows);
        v.size("width", &ExpertBias::width);
        ExpertRows::fields<ExpertBias>(v);
        v.number("weighs", &ExpertBias::weighs);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("biases", local() * width);
        v.reads("counts", ranks * experts);
        if (weighs) v.reads("weights", rows);
        v.writes("output", rows * width);
    }
    bool operator==(const ExpertBias&) const = default;
};

struct ExpertBiasBackward : ExpertRows {
    static constexpr std::string_view kDoc =
        "its gradients: of each expert's bias, of the rows' weights";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    bool weighs = false;
    bool by_source = false;  // as of a grouped product

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ExpertBiasBackward::rows);
        v.size("width", &ExpertBiasBackward::width);
        ExpertRows::fields<ExpertBiasBackward>(v);
        v.number("weighs", &ExpertBiasBackward::weighs);
        v.number("by_source", &ExpertBiasBackward::by_source);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows, width);
        v.reads("counts", ranks * experts);
        if (weighs) {
            v.reads("weights", rows);
            v.reads("biases", local() * width);
        }
        v.writes("dbiases", (by_source ? ranks : 1) * local() * width);
        if (weighs) v.writes("dweights", rows);
    }
    bool operator==(const ExpertBiasBackward&) const = default;
};

// Of gradients by source what a rank has of each parameter, summed in pairs in the order of ranks,
// as collectives sum what ranks have (runtime/comm/reduce.hpp): with as many ranks as a power of
// two the bits of a layout in which every rank has all experts.
struct SumSources {
    static constexpr std::string_view kDoc =
        "of each operand in turn the sum of its parts, one for each source, one after another";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;  // of the sum
    std::int64_t sources = 1;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &SumSources::elements);
        v.extent("sources", &SumSources::sources);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_several("gradients by source");
        v.writes("gradients", elements);
    }
    bool operator==(const SumSources&) const = default;
};

struct ExpertActivate : ExpertRows {
    static constexpr std::string_view kDoc =
        "the function between an expert's products, times the row's weight where there is one";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    ActivationFunction function = ActivationFunction::swiglu;
    double limit = 0;    // of clamped_swiglu
    bool weighs = true;  // by the rows' weights

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ExpertActivate::rows);
        v.size("width", &ExpertActivate::width);
        ExpertRows::fields<ExpertActivate>(v);
        v.number("function", &ExpertActivate::function);
        v.number("limit", &ExpertActivate::limit);
        v.number("weighs", &ExpertActivate::weighs);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads(is_gated(function) ? "gate and up" : "input", rows,
                (is_gated(function) ? 2 : 1) * width);
        if (weighs) v.reads("weights", rows);
        v.reads("counts", ranks * experts);
        v.writes("output", rows * width);
    }
    bool operator==(const ExpertActivate&) const = default;
};

struct ExpertActivateBackward : ExpertRows {
    static constexpr std::string_view kDoc = "its gradients: of the input, of the row's weight";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    ActivationFunction function = ActivationFunction::swiglu;
    double limit = 0;    // of clamped_swiglu
    bool weighs = true;  // by the rows' weights

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ExpertActivateBackward::rows);
        v.size("width", &ExpertActivateBackward::width);
        ExpertRows::fields<ExpertActivateBackward>(v);
        v.number("function", &ExpertActivateBackward::function);
        v.number("limit", &ExpertActivateBackward::limit);
        v.number("weighs", &ExpertActivateBackward::weighs);
    }
    template <typename V>
    void operands(V&& v) const {
        const std::int64_t inputs = (is_gated(function) ? 2 : 1) * width;
        v.reads("doutput", rows, width);
        v.reads(is_gated(function) ? "gate and up" : "input", rows, inputs);
        if (weighs) v.reads("weights", rows);
        v.reads("counts", ranks * experts);
        v.writes("dinput", rows * inputs);
        if (weighs) v.writes("dweights", rows);
    }
    bool operator==(const ExpertActivateBackward&) const = default;
};

struct GateRowsBackward {
    static constexpr std::string_view kDoc = "its gradients: of the rows, of their logits";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &GateRowsBackward::rows);
        v.size("width", &GateRowsBackward::width);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows, width);
        v.reads("input", rows, width);
        v.reads("logits", rows);
        v.writes("dinput", rows * width);
        v.writes("dlogits", rows);
    }
    bool operator==(const GateRowsBackward&) const = default;
};

// Of what every token goes through beside its experts, in Qwen2-MoE (Yang et al. 2024, arXiv
// 2407.10671, section 2.2.2).
struct GateRows {
    static constexpr std::string_view kDoc = "each row times the sigmoid of its logit";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &GateRows::rows);
        v.size("width", &GateRows::width);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("logits", rows);
        v.writes("output", rows * width);
    }
    template <typename Writer, typename Op>
    void gradient(Writer& w, const Op& op) const {
        const auto dx = w.fresh_gradient(op.reads[0]), dlogits = w.fresh_gradient(op.reads[1]);
        const auto dy = w.gradient_of(op.writes[0]);
        w.emit(GateRowsBackward{rows, width}, op.label,
               {dy, w.need(op.reads[0]), w.need(op.reads[1])}, {dx, dlogits});
        w.contribute(op.reads[0], dx);
        w.contribute(op.reads[1], dlogits);
    }
    bool operator==(const GateRows&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_EXPERT_OPS(OP)                              \
    OP(route, Route)                                       \
    OP(route_backward, RouteBackward)                      \
    OP(drop_rows, DropRows)                                \
    OP(count_choices, CountChoices)                        \
    OP(balance_gradient, BalanceGradient)                  \
    OP(load_gradient, LoadGradient)                        \
    OP(router_z_gradient, RouterZGradient)                 \
    OP(choose_ranks, ChooseRanks)                          \
    OP(permute, Permute)                                   \
    OP(unpermute, Unpermute)                               \
    OP(group_rows, GroupRows)                              \
    OP(spread_rows, SpreadRows)                            \
    OP(spread_weights, SpreadWeights)                      \
    OP(weigh_rows, WeighRows)                              \
    OP(weigh_rows_backward, WeighRowsBackward)             \
    OP(grouped_gemm, GroupedGemm)                          \
    OP(expert_bias, ExpertBias)                            \
    OP(expert_bias_backward, ExpertBiasBackward)           \
    OP(sum_sources, SumSources)                            \
    OP(expert_activation, ExpertActivate)                  \
    OP(expert_activation_backward, ExpertActivateBackward) \
    OP(gate_rows, GateRows)                                \
    OP(gate_rows_backward, GateRowsBackward)
// clang-format on
