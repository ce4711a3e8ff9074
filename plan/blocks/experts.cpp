// The MLP of a layer of experts, on the tokens that a tensor rank has between tensor-parallel
// regions: Megatron Core's "alltoall" dispatcher (megatron/core/transformer/moe). Where each expert
// is cut among `split` ranks, a row is sent to all of them and their parts are summed where it
// comes back: as many bytes as an exchange among experts and a gather among these. Or,
// deduplicated, DeepEP's: one copy of a row to each rank that has any of its experts. Or, gathered,
// all rows to every rank, and their results summed by a reduce-scatter.
#include "plan/blocks/layer_parts.hpp"

namespace orrery::plan {
namespace {

class ExpertWriter {
  public:
    ExpertWriter(ForwardWriter& w, const ExpertMlp& mlp)
        : w_(w), d_(w.dims()), mlp_(mlp), places_(d_.places), spread_(places_.ranks > 1) {}

    // Rows on their way to experts, with what they are weighed by.
    struct Rows {
        TensorId rows = -1;
        TensorId weights = -1;
    };

    // Chooses experts for each token and sends rows to them.
    Rows dispatch(TensorId x) {
        const Routing& routing = mlp_.routing;
        const std::int64_t tokens = d_.sharded_tokens, experts = routing.experts;
        const TensorId router = w_.parameter(
            "router.weight", {{experts, d_.hidden}, Cut::whole, {}, Start::normal, true});
        const TensorId logits = wide("router_logits", {tokens, experts});
        std::vector<TensorId> multiplied = {x, router};
        if (mlp_.router_bias)
            multiplied.push_back(
                w_.parameter("router.logit_bias", {{experts}, Cut::whole, {}, Start::zero}));
        w_.op(Gemm{tokens, experts, d_.hidden}, "router", std::move(multiplied), {logits});
        const TensorId scores = wide("router_scores", {tokens, experts});
        choice_ = numbers("choice", {tokens, routing.chosen});
        const TensorId weights = wide("expert_weights", {tokens, routing.chosen});
        counts_ = numbers("counts", {1, experts});
        std::vector<TensorId> judged = {logits};
        if (routing.biased) {
            ParameterSpec bias{{experts}, Cut::whole, {}, Start::zero};
            bias.sign_rate = d_.bias_rate;
            judged.push_back(w_.parameter("router.bias", std::move(bias)));
        }
        w_.op(Route{routing, tokens}, "route", std::move(judged),
              {scores, choice_, weights, counts_})
            .dtype = d_.wide_dtype;
        if (d_.balance_loss > 0) count_choices();
        if (d_.z_loss > 0) w_.router_z_loss(d_.z_loss);
        if (d_.capacity > 0) drop_rows(weights);
        if (spread_) counts_ = gathered("counts", counts_, places_.experts);
        if (deduplicates()) return send_copies(x, weights);
        if (gathers()) return gather_rows(x, weights);
        const Permute permute{tokens,  d_.hidden,   routing.chosen,
                              experts, kept_rows(), d_.padded_rows};
        Rows sent{w_.activation("permuted", permute.copy_room(), d_.hidden),
                  wide("permuted_weights", {permute.copy_room(), 1})};
        w_.op(permute, "permute", {x, choice_, weights}, {sent.rows, sent.weights});
        if (!spread_) return sent;
        const Rows received{w_.activation("received", d_.expert_rows, d_.hidden),
                            wide("received_weights", {d_.expert_rows, 1})};
        exchange("dispatch", sent.rows, received.rows, false);
        exchange("dispatch weights", sent.weights, received.weights, false);
        return received;
    }

    // What local experts make of rows.
    TensorId compute(Rows received) {
        const DenseMlp& expert = mlp_.expert;
        const std::int64_t local = places_.local(), inputs = expert.gated() ? 2 : 1;
        if (spread_ && local > 1 && !copies()) {
            received.rows = group("grouped", received.rows, d_.hidden, false);
            received.weights = group("grouped_weights", received.weights, 1, false);
        }
        if (mlp_.weighs_inputs) {
            const TensorId weighed = w_.activation("weighed", d_.expert_rows, d_.hidden);
            w_.op(WeighRows{rows(), d_.expert_rows, d_.hidden}, "weigh",
                  {received.rows, received.weights, counts_}, {weighed});
            received.rows = weighed;
        }
        const std::int64_t room = d_.expert_rows, ffn = d_.expert_ffn;
        ParameterSpec up{
            {mlp_.routing.experts * inputs * expert.ffn_hidden, d_.hidden}, Cut::rows, {}};
        up.sections.assign(static_cast<std::size_t>(inputs), expert.ffn_hidden);
        ParameterSpec down{{mlp_.routing.experts * d_.hidden, expert.ffn_hidden}, Cut::columns, {}};
        down.start = Start::residual_normal;
        up.experts = down.experts = mlp_.routing.experts;
        up.decays = down.decays = true;
        const ParameterSpec up_bias = bias_of(up), down_bias = bias_of(down);
        const CountedRows counted{rows(), counts_};
        const TensorId first = w_.matrix("experts.fc1", std::move(up));
        TensorId f1 =
            w_.grouped_product("experts fc1", "experts_fc1", received.rows, first, counted);
        if (expert.bias) f1 = biased("experts.fc1", "experts_fc1_biased", f1, up_bias, -1);
        TensorId f2 = w_.activation("experts_activated", room, ffn);
        const LayerModule around = w_.begin_module(LayerModule::mlp_activation);
        const bool weighs_apart = d_.split_experts && !expert.gated() && !mlp_.weighs_inputs;
        const bool weighs = !mlp_.weighs_inputs && !weighs_apart;
        std::vector<TensorId> activated = {f1, counts_};
        if (weighs) activated.insert(activated.begin() + 1, received.weights);
        w_.op(ExpertActivate{rows(), room, ffn, function_of(expert), expert.limit, weighs},
              name_of(expert.activation), std::move(activated), {f2});
        if (weighs_apart) {
            const TensorId weighed = w_.activation("experts_weighed", room, ffn);
            w_.op(WeighRows{rows(), room, ffn}, "weigh", {f2, received.weights, counts_},
                  {weighed});
            f2 = weighed;
        }
        w_.end_module(around);
        const TensorId second = w_.matrix("experts.fc2", std::move(down));
        TensorId made = w_.grouped_product("experts fc2", "experts_fc2", f2, second, counted);
        if (expert.bias)
            made = biased("experts.fc2", "experts_fc2_biased", made, down_bias,
                          mlp_.weighs_inputs ? -1 : received.weights);
        if (copies())
            return spread<SpreadRows>("summed", made, d_.hidden, {d_.copy_rows, d_.hidden}, true);
        return spread_ && local > 1 ? group("apart", made, d_.hidden, true) : made;
    }

    // Brings rows back and sums those of each token.
    TensorId combine(TensorId made) {
        const std::int64_t tokens = d_.sharded_tokens;
        const auto result = [&] { return w_.activation("experts", tokens, d_.hidden); };
        if (gathers()) {
            const TensorId y = result();
            over_experts(w_.op(ReduceScatter{d_.copy_rows * d_.hidden}, "combine", {made}, {y}));
            return y;
        }
        Unpermute sum{
            places_,       tokens, d_.hidden, mlp_.routing.chosen, kept_rows() * places_.split,
            d_.padded_rows};
        TensorId choice = choice_, returned = made;
        if (deduplicates()) {
            sum = {sets(), tokens, d_.hidden, chosen_sets().most(), d_.copies};
            choice = sets_;
        }
        if (spread_) {
            returned = w_.activation("returned", sum.copy_room(), d_.hidden);
            exchange("combine", made, returned, true);
        }
        const TensorId y = result();
        w_.op(sum, "unpermute", {returned, choice}, {y});
        return y;
    }

  private:
    TensorId wide(std::string name, std::vector<std::int64_t> dims) {
        return w_.tensor(std::move(name), Role::scratch, d_.wide_dtype, std::move(dims));
    }
    TensorId numbers(std::string name, std::vector<std::int64_t> dims) {
        return w_.tensor(std::move(name), Role::scratch, DType::i32, std::move(dims));
    }

    ExpertRows rows() const { return {places_, d_.expected_rows}; }

    // That this rank sends, where it is to be expected that some are dropped; else 0.
    std::int64_t kept_rows() const {
        const std::int64_t kept = d_.expected_rows / places_.split;
        return kept < d_.sharded_tokens * mlp_.routing.chosen ? kept : 0;
    }

    // All of a sequence's ranks judge all of it.
    void drop_rows(TensorId weights) {
        TensorId choices = choice_, weighed = weights;
        DropRows drop{d_.sharded_tokens, mlp_.routing.chosen, places_.experts, d_.capacity,
                      d_.units};
        drop.policy = d_.drop_policy;
        drop.pads = d_.padded_rows > 0;
        const auto gather_over = [&](Stream stream, GroupKind group, std::int64_t ranks) {
            drop.parts *= ranks;
            for (TensorId* each : {&choices, &weighed}) {
                const std::int64_t rows = drop.parts * drop.rows, width = w_.width(*each);
                const TensorId all = w_.tensor("all_" + w_.name(*each), Role::scratch,
                                               w_.dtype(*each), {rows, width});
                Op& gather = w_.op(AllGather{rows * width}, "choices", {*each}, {all});
                gather.dtype = w_.dtype(*each);
                gather.stream = stream;
                gather.group = group;
                *each = all;
            }
        };
        if (d_.unit_tokens > d_.sharded_tokens / d_.units) {
            if (d_.sequence_parallel)
                gather_over(Stream::tensor_comm, GroupKind::tensor, d_.tensor);
            if (d_.context > 1) gather_over(Stream::context_comm, GroupKind::context, d_.context);
        }
        const TensorId kept = numbers("kept_choice", {drop.rows, drop.chosen});
        counts_ = numbers("kept_counts", {1, drop.experts});
        w_.op(drop, "drop rows", {choices, weighed}, {kept, counts_}).dtype = d_.wide_dtype;
        choice_ = kept;
    }

    static ParameterSpec bias_of(const ParameterSpec& matrix) {
        const std::int64_t each = matrix.dims[0] / matrix.experts;
        ParameterSpec bias{{matrix.dims[0]}, Cut::rows, matrix.sections, Start::zero};
        if (bias.sections.empty()) bias.sections = {each};
        bias.experts = matrix.experts;
        return bias;
    }

    // Rows plus their experts' biases, times the rows' weights where there are such.
    TensorId biased(const std::string& linear, const char* name, TensorId from, ParameterSpec spec,
                    TensorId weights) {
        const TensorId bias = w_.parameter(linear + ".bias", std::move(spec));
        const std::int64_t width = w_.width(from);
        const TensorId sum = w_.activation(name, d_.expert_rows, width);
        std::vector<TensorId> reads = {from, bias, counts_};
        if (weights >= 0) reads.push_back(weights);
        w_.op(ExpertBias{rows(), d_.expert_rows, width, weights >= 0}, name, std::move(reads),
              {sum});
        return sum;
    }

    // Of whole units, which tensor and context ranks have parts of.
    void count_choices() {
        const std::int64_t units = d_.balanced_units;
        const TensorId choices = wide("choices", {units, places_.experts});
        w_.op(CountChoices{d_.sharded_tokens, mlp_.routing.chosen, places_.experts, units},
              "choices", {choice_}, {choices})
            .dtype = d_.wide_dtype;
        const auto sum_over = [&](Stream stream, GroupKind group) {
            Op& sum = w_.op(AllReduce{units * places_.experts}, "choices", {choices}, {choices});
            sum.dtype = d_.wide_dtype;
            sum.stream = stream;
            sum.group = group;
        };
        if (d_.tensor > 1) sum_over(Stream::tensor_comm, GroupKind::tensor);
        if (d_.context > 1) sum_over(Stream::context_comm, GroupKind::context);
        w_.balance_by(choices, d_.balance_loss, d_.tokens / units * d_.context);
    }

    // Rows come to a rank, and not to experts.
    bool copies() const { return d_.copies > 0; }
    bool deduplicates() const {
        return copies() && d_.dispatcher == ExpertDispatcher::deduplicated;
    }
    bool gathers() const { return copies() && d_.dispatcher == ExpertDispatcher::allgather; }
    // Sets of ranks with shares of the same experts, as what rows go to.
    ExpertPlaces sets() const {
        return {places_.ranks / places_.split, places_.ranks, places_.split};
    }
    ChooseRanks chosen_sets() const {
        return {d_.sharded_tokens, mlp_.routing.chosen, places_.experts, sets().experts};
    }

    // A row, its experts and their weights to each set of ranks that has any of these.
    Rows send_copies(TensorId x, TensorId weights) {
        const ChooseRanks choose = chosen_sets();
        sets_ = numbers("sets", {choose.rows, choose.most()});
        const TensorId counts = numbers("set_counts", {1, choose.sets});
        w_.op(choose, "choose ranks", {choice_}, {sets_, counts}).dtype = DType::i32;
        copy_counts_ = gathered("copies", counts, choose.sets);
        const TensorId rows = copied("copied", x), choices = copied("copied_choice", choice_),
                       weighed = copied("copied_weights", weights);
        const TensorId received = arrived("dispatch", rows);
        copy_choice_ = arrived("dispatch choice", choices);
        const TensorId by = arrived("dispatch weights", weighed);
        return spread_to_experts(received, by);
    }

    Rows gather_rows(TensorId x, TensorId weights) {
        const TensorId rows = of_all_members("gathered", x);
        copy_choice_ = of_all_members("gathered_choice", choice_);
        return spread_to_experts(rows, of_all_members("gathered_weights", weights));
    }
    TensorId of_all_members(const char* name, TensorId rows) {
        const TensorId all = copies_of(rows, name, d_.copy_rows);
        Op& gather = w_.op(AllGather{d_.copy_rows * w_.width(rows)}, name, {rows}, {all});
        gather.dtype = w_.dtype(rows);
        over_experts(gather);
        return all;
    }

    Rows spread_to_experts(TensorId rows, TensorId weights) {
        return {spread<SpreadRows>("grouped", rows, d_.hidden, {d_.expert_rows, d_.hidden}, false),
                spread<SpreadWeights>("grouped_weights", weights, 1, {d_.expert_rows, 1}, false)};
    }

    TensorId copies_of(TensorId rows, std::string name, std::int64_t room) {
        return w_.tensor(std::move(name), Role::scratch, w_.dtype(rows), {room, w_.width(rows)});
    }
    TensorId copied(const std::string& name, TensorId rows) {
        const ChooseRanks choose = chosen_sets();
        const TensorId out = copies_of(rows, name, choose.rows * choose.most());
        w_.op(Permute{choose.rows, w_.width(rows), choose.most(), choose.sets,
                      d_.copies / places_.split},
              name, {rows, sets_}, {out})
            .dtype = w_.dtype(rows);
        return out;
    }
    TensorId arrived(const char* label, TensorId copies) {
        const TensorId received = copies_of(copies, std::string("received ") + label, d_.copy_rows);
        exchange(label, copies, received, false);
        return received;
    }

    template <typename Spread>
    TensorId spread(const char* name, TensorId from, std::int64_t width,
                    std::vector<std::int64_t> dims, bool apart) {
        const TensorId to = w_.tensor(name, Role::scratch, w_.dtype(from), std::move(dims));
        const SpreadFields fields{rows(),       d_.expert_rows, width, mlp_.routing.chosen,
                                  d_.copy_rows, d_.copies,      apart};
        std::vector<TensorId> reads = {from, copy_choice_, counts_};
        if (copy_counts_ >= 0) reads.push_back(copy_counts_);
        w_.op(Spread{fields}, name, std::move(reads), {to}).dtype = w_.dtype(from);
        return to;
    }

    // Of all members.
    TensorId gathered(const char* label, TensorId counts, std::int64_t each) {
        const TensorId all = numbers(std::string("all_") + label, {places_.ranks, each});
        Op& gather = w_.op(AllGather{places_.ranks * each}, label, {counts}, {all});
        gather.dtype = DType::i32;
        over_experts(gather);
        return all;
    }

    void exchange(const char* label, TensorId from, TensorId to, bool back) {
        const std::int64_t width = w_.width(from);
        AllToAllV op{places_, {}, d_.expected_rows * width, width, back};
        if (deduplicates()) op = {sets(), d_.draws, d_.copies * width, width, back};
        Op& exchanged = w_.op(op, label, {from, deduplicates() ? copy_counts_ : counts_}, {to});
        exchanged.dtype = w_.dtype(from);
        over_experts(exchanged);
    }

    static void over_experts(Op& op) {
        op.stream = Stream::expert_comm;
        op.group = GroupKind::expert;
    }

    TensorId group(const char* name, TensorId from, std::int64_t width, bool apart) {
        const TensorId to = w_.tensor(name, Role::scratch, w_.dtype(from), {d_.expert_rows, width});
        w_.op(GroupRows{rows(), d_.expert_rows, width, apart}, name, {from, counts_}, {to}).dtype =
            w_.dtype(from);
        return to;
    }

    ForwardWriter& w_;
    const Dims& d_;
    const ExpertMlp& mlp_;
    ExpertPlaces places_;
    bool spread_;           // over more than one rank
    TensorId choice_ = -1;  // -1 of those that were dropped
    TensorId counts_ = -1;
    // Where copies go to ranks: to which sets, how many from whom, and of those that have come.
    TensorId sets_ = -1, copy_counts_ = -1, copy_choice_ = -1;
};

// Rows times the sigmoid of a product of the token with a vector.
TensorId gated(ForwardWriter& w, TensorId x, TensorId rows) {
    const Dims& d = w.dims();
    const TensorId vector =
        w.parameter("shared_gate.weight", {{1, d.hidden}, Cut::whole, {}, Start::normal, true});
    const TensorId logits =
        w.tensor("shared_gate_logits", Role::scratch, d.wide_dtype, {d.sharded_tokens, 1});
    w.op(Gemm{d.sharded_tokens, 1, d.hidden}, "shared_gate", {x, vector}, {logits});
    const TensorId made = w.activation("shared_gated", d.sharded_tokens, d.hidden);
    w.op(GateRows{d.sharded_tokens, d.hidden}, "shared_gate", {rows, logits}, {made});
    return made;
}

}  // namespace

// What every token goes through runs while rows are on their way to experts.
TensorId expert_branch(ForwardWriter& w, const Scenario& scenario, const ExpertMlp& mlp,
                       TensorId normed) {
    const Dims& d = w.dims();
    ExpertWriter experts(w, mlp);
    const ExpertWriter::Rows sent = experts.dispatch(normed);
    TensorId shared = -1;
    if (mlp.shared_ffn > 0) {
        DenseMlp all = mlp.expert;
        all.ffn_hidden = mlp.shared_ffn;
        const TensorId activated = mlp_branch(w, scenario, all, "shared_", normed);
        shared = w.row_parallel("shared_fc2", activated, mlp.shared_ffn);
        if (mlp.shared_gate) shared = gated(w, normed, shared);
    }
    const TensorId routed = experts.combine(experts.compute(sent));
    if (shared < 0) return routed;
    const TensorId sum = w.activation("experts_and_shared", d.sharded_tokens, d.hidden);
    w.op(Add{d.sharded_tokens, d.hidden}, "shared", {routed, shared}, {sum});
    return sum;
}

}  // namespace orrery::plan
