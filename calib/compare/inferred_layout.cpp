#include "calib/compare/inferred_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace orrery::compare {
namespace {

using Json = nlohmann::ordered_json;
using plan::Phase;

bool is_near(double a, double b) {
    return std::fabs(a - b) <= 0.01 * std::max(std::fabs(a), std::fabs(b));
}

std::string counted(std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Messages of one purpose.
struct Volume {
    double elements = 0;
    std::int64_t count = 0;
    std::map<std::int64_t, double> by_group;  // of a known number of members
    std::set<std::int64_t> early;             // groups that have some before the last forward work

    void add(double more, std::int64_t members, bool is_early = false) {
        if (is_early) early.insert(members);
        elements += more;
        ++count;
        if (members > 0) by_group[members] += more;
    }
    // Through which most goes; 0: not known.
    std::int64_t group() const {
        const auto most = std::max_element(
            by_group.begin(), by_group.end(),
            [](const auto& one, const auto& other) { return one.second < other.second; });
        return most == by_group.end() ? 0 : most->first;
    }
};

// What a rank's messages are of.
struct Traffic {
    Volume hidden_sums;     // forward: of hidden states, among tensor-parallel ranks
    Volume hidden_gathers;  // … where each has a share of the tokens
    Volume hidden_scatters;
    std::int64_t hidden_gathers_back = 0;  // backward: of gradients, or of inputs once more
    std::int64_t token_sums = 0;  // forward: one value a token, as a loss over shares of words has
    std::int64_t transfers = 0;
    Volume reduced, scattered;                                  // of gradients
    Volume gathered_forward, gathered_backward, gathered_late;  // of parameters
    std::int64_t word_sums = 0;  // of a matrix of the vocabulary, between two ranks
};

class LayoutReader {
  public:
    LayoutReader(const std::vector<RankLayers>& ranks, double element_bytes)
        : ranks_(ranks), element_bytes_(element_bytes) {}

    InferredLayout run() {
        for (const RankLayers& rank : ranks_)
            traffic_.push_back(traffic_of(rank));
        infer_world();
        infer_tensor();
        infer_micro_batches();
        infer_pipeline_and_data();
        infer_layers();
        infer_parameters();
        say_schedule();
        say_zero();
        say_recompute();
        say_batch();
        return std::move(out_);
    }

  private:
    void say(std::string key, Json value, Certainty certainty, std::string evidence,
             std::vector<Json> alternatives = {}) {
        out_.keys.push_back({"layout." + key, std::move(value), certainty, std::move(evidence),
                             std::move(alternatives)});
    }

    double elements_of(const MessageFact& message) const {
        if (message.elements >= 0) return message.elements;
        return message.bytes >= 0 ? message.bytes / element_bytes_ : -1;
    }

    Traffic traffic_of(const RankLayers& rank) const {
        Traffic traffic;
        const double hidden = static_cast<double>(rank.tokens) * static_cast<double>(rank.hidden);
        const double words = static_cast<double>(std::max(rank.word_rows, rank.head_width)) *
                             static_cast<double>(rank.hidden);
        // Behind the last product nothing is of hidden states.
        trace::Picoseconds last_product = 0, last_forward = 0;
        for (const StepFact& fact : rank.facts->facts)
            if (std::holds_alternative<ProductFact>(fact.what)) {
                last_product = fact.at;
                if (fact.phase == Phase::forward) last_forward = fact.at;
            }
        bool late = false;
        for (const StepFact& fact : rank.facts->facts) {
            const auto* message = std::get_if<MessageFact>(&fact.what);
            if (message == nullptr) continue;
            late = late || fact.at > last_product;
            if (message->kind == WorkKind::send_receive) {
                ++traffic.transfers;
                continue;
            }
            const double elements = elements_of(*message);
            const bool of_hidden = elements > 0 && is_near(elements, hidden) &&
                                   !(late && message->kind == WorkKind::all_reduce && words > 0 &&
                                     is_near(elements, words));
            const bool forward = fact.phase == Phase::forward;
            if (of_hidden && forward) {
                Volume& volume = message->kind == WorkKind::all_reduce ? traffic.hidden_sums
                                 : message->kind == WorkKind::reduce_scatter
                                     ? traffic.hidden_scatters
                                     : traffic.hidden_gathers;
                volume.add(elements, message->group);
                continue;
            }
            if (of_hidden) {
                if (message->kind == WorkKind::all_gather && fact.phase == Phase::backward)
                    ++traffic.hidden_gathers_back;
                continue;
            }
            if (forward && message->kind == WorkKind::all_reduce && elements > 0 &&
                elements <= 2.0 * static_cast<double>(rank.tokens)) {
                traffic.token_sums += elements >= static_cast<double>(rank.tokens) / 2 ? 1 : 0;
                continue;
            }
            // Norms of gradients, and flags.
            if (elements >= 0 && elements < static_cast<double>(rank.hidden)) continue;
            if (message->kind == WorkKind::all_reduce && message->group == 2 && words > 0 &&
                (is_near(elements, words) ||
                 (message->bytes >= 0 && is_near(message->bytes / 4, words))))
                ++traffic.word_sums;
            const double known = std::max(0.0, elements);
            if (message->kind == WorkKind::all_reduce)
                traffic.reduced.add(known, message->group, fact.at < last_forward);
            else if (message->kind == WorkKind::reduce_scatter)
                traffic.scattered.add(known, message->group, fact.at < last_forward);
            else if (message->kind == WorkKind::all_gather)
                (forward ? traffic.gathered_forward
                 : fact.phase == Phase::backward || fact.phase == Phase::recompute
                     ? traffic.gathered_backward
                     : traffic.gathered_late)
                    .add(known, message->group);
        }
        return traffic;
    }

    void infer_world() {
        std::int64_t highest = 0;
        for (const RankLayers& rank : ranks_) {
            world_ = std::max(world_, rank.facts->world_size);
            highest = std::max(highest, rank.facts->rank + 1);
        }
        world_is_told_ = world_ > 0;
        if (!world_is_told_) world_ = std::max(highest, static_cast<std::int64_t>(ranks_.size()));
    }

    const RankLayers& any() const { return ranks_.front(); }

    // Each layer's attention and feed-forward network end with a sum over tensor-parallel ranks.
    void infer_tensor() {
        const RankLayers& rank = any();
        const Traffic& traffic = traffic_.front();
        const std::int64_t sums = traffic.hidden_sums.count + traffic.hidden_scatters.count;
        if (sums < rank.calls) {
            say("tensor_parallel", 1, Certainty::certain,
                "no sum of hidden states among ranks within layers");
            return;
        }
        std::int64_t group = std::max(traffic.hidden_sums.group(), traffic.hidden_scatters.group());
        const bool scatters = traffic.hidden_scatters.count > traffic.hidden_sums.count;
        std::string by = fmt::format("{} of {} x {} forward",
                                     counted(sums, scatters ? "reduce-scatter" : "all-reduce"),
                                     rank.tokens, rank.hidden);
        out_.tensor_certainty = Certainty::certain;
        const std::int64_t ratio = rank.query_width > 0 && rank.hidden % rank.query_width == 0
                                       ? rank.hidden / rank.query_width
                                       : 0;
        if (group > 0) {
            by += fmt::format(" among {} ranks", group);
        } else if (ratio > 1) {
            group = ratio;
            by += fmt::format("; queries are {} of {} columns", rank.query_width, rank.hidden);
            out_.tensor_certainty = Certainty::likely;
        } else {
            group = std::max<std::int64_t>(2, smallest_group());
            by += "; the group's size is not recorded";
            out_.tensor_certainty = Certainty::assumed;
        }
        out_.tensor = group;
        say("tensor_parallel", group, out_.tensor_certainty, by);
        std::int64_t norm_rows = 0;
        each<NormFact>(*rank.facts, Phase::forward, [&](const NormFact& norm) {
            if (norm.width == rank.hidden) norm_rows = std::max(norm_rows, norm.rows);
        });
        if (scatters)
            say("sequence_parallel", true, Certainty::certain,
                norm_rows > 0 && norm_rows < rank.tokens
                    ? fmt::format("norms over {} of {} tokens", norm_rows, rank.tokens)
                    : "hidden states are gathered and scattered within layers");
        if (scatters) say_gathered_inputs();
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            const std::int64_t of_layers = 2 * ranks_[r].calls;
            const std::int64_t all =
                traffic_[r].hidden_sums.count + traffic_[r].hidden_scatters.count;
            if (ranks_[r].has_embedding() && all > of_layers) out_.words_are_cut = true;
            if (ranks_[r].has_head() && traffic_[r].token_sums > 0) out_.words_are_cut = true;
        }
    }
    // Backward gathers the gradients of what attention and feed-forward network gave, and where
    // their inputs were not kept whole these too.
    void say_gathered_inputs() {
        const std::int64_t gathers = traffic_.front().hidden_gathers_back;
        const std::int64_t calls = any().calls;
        if (gathers == 0) return;
        const bool kept = gathers < 3 * calls;
        out_.keys.push_back({"training.gathered_inputs",
                             kept ? "kept" : "again",
                             Certainty::certain,
                             fmt::format("{} of hidden states backward, for {} of a layer",
                                         counted(gathers, "gather"), counted(calls, "run")),
                             {}});
    }
    std::int64_t smallest_group() const {
        std::int64_t smallest = 0;
        for (const std::int64_t size : any().facts->group_sizes)
            if (size > 1 && (smallest == 0 || size < smallest)) smallest = size;
        return smallest;
    }

    // How often each parameter's gradient came: once a micro-batch.
    static std::int64_t by_gradients(const RankLayers& rank) {
        std::map<Dims, std::int64_t> counts;
        for (const StepFact& fact : rank.facts->facts)
            if (const auto* parameter = std::get_if<ParameterFact>(&fact.what))
                if (fact.phase == Phase::backward) ++counts[parameter->dims];
        std::int64_t common = rank.calls;
        for (const auto& [dims, count] : counts)
            common = std::gcd(common, count);
        return counts.empty() ? 0 : common;
    }

    void infer_micro_batches() {
        for (const RankLayers& rank : ranks_)
            if (rank.micro_batches > 0 && micro_batches_by_.empty()) {
                out_.micro_batches = rank.micro_batches;
                micro_batches_by_ = rank.micro_batches_by;
                micro_batches_certainty_ = Certainty::certain;
            }
        if (!micro_batches_by_.empty()) return;
        // Of stages that have neither embedding nor head: their layers run behind each other.
        const RankLayers& rank = any();
        if (const std::int64_t gradients = by_gradients(rank); gradients > 0) {
            out_.micro_batches = gradients;
            micro_batches_by_ = fmt::format("each gradient comes {} times", gradients);
            micro_batches_certainty_ = Certainty::likely;
            return;
        }
        out_.micro_batches = rank.run > 0 ? rank.calls / rank.run : 1;
        micro_batches_by_ = fmt::format("{} runs of layers behind each other", out_.micro_batches);
        micro_batches_certainty_ = Certainty::likely;
    }

    void infer_pipeline_and_data() {
        const Traffic& traffic = traffic_.front();
        const bool transfers = std::any_of(traffic_.begin(), traffic_.end(),
                                           [](const Traffic& one) { return one.transfers > 0; });
        const bool split = !any().has_embedding() || !any().has_head();
        const std::int64_t group = std::max(traffic.reduced.group(), traffic.scattered.group());
        const bool syncs = traffic.reduced.count + traffic.scattered.count > 0;
        // What is scattered within a group is summed up among groups: its share of all.
        hybrid_ =
            traffic.scattered.group() > 1 && traffic.reduced.group() > 1 &&
            is_near(traffic.reduced.elements,
                    traffic.scattered.elements / static_cast<double>(traffic.scattered.group()));
        const std::int64_t rest = std::max<std::int64_t>(1, world_ / out_.tensor);
        std::string data_by, pipeline_by;
        Certainty data_certainty = Certainty::certain, pipeline_certainty = Certainty::certain;
        if (!transfers && !split) {
            pipeline_by = "no transfers, and each rank has embedding and head";
            out_.data = syncs ? rest : 1;
            if (hybrid_ && !world_is_told_)
                out_.data = traffic.reduced.group() * traffic.scattered.group();
            else if (syncs && !world_is_told_)
                out_.data = std::max(rest, group);
            data_by = syncs ? sync_text(traffic, group) : "no message of gradients";
            if (syncs && !world_is_told_ && group == 0) data_certainty = Certainty::assumed;
        } else {
            const std::int64_t embeds =
                std::count_if(ranks_.begin(), ranks_.end(),
                              [](const RankLayers& one) { return one.has_embedding(); });
            const bool all_given = static_cast<std::int64_t>(ranks_.size()) == world_;
            pipeline_by = counted(traffic.transfers, "transfer") + " of hidden states";
            if (!syncs) {
                out_.data = 1;
                data_by = "no message of gradients";
            } else if (group > 1) {
                out_.data = hybrid_ ? traffic.reduced.group() * traffic.scattered.group() : group;
                data_by = sync_text(traffic, group);
            } else if (all_given && embeds > 0) {
                out_.data = std::max<std::int64_t>(1, embeds / out_.tensor);
                data_by = fmt::format("{} of {} ranks have the embedding", embeds, world_);
            } else {
                out_.data = 1;
                data_by = "gradients are summed, among how many ranks is not recorded";
                data_certainty = Certainty::assumed;
            }
            out_.pipeline = std::max<std::int64_t>(1, rest / out_.data);
            if (all_given && embeds > 0 && embeds == out_.tensor * out_.data)
                pipeline_by += fmt::format("; {} of {} ranks have the embedding", embeds, world_);
            else
                pipeline_by += fmt::format("; {} ranks / {} tensor- and data-parallel", world_,
                                           out_.tensor * out_.data);
            if (!world_is_told_ && !all_given) pipeline_certainty = Certainty::assumed;
            if (data_certainty == Certainty::assumed) pipeline_certainty = Certainty::assumed;
        }
        if (world_is_told_ && out_.ranks() != world_)
            data_by += fmt::format("; {} ranks in the job", world_);
        say("pipeline_parallel", out_.pipeline, pipeline_certainty, pipeline_by);
        say("data_parallel", out_.data, data_certainty, data_by);
        out_.nothing_is_reduced = std::all_of(
            traffic_.begin(), traffic_.end(),
            [](const Traffic& one) { return one.reduced.count + one.scattered.count == 0; });
        if (out_.pipeline > 1)
            for (std::size_t r = 0; r < ranks_.size(); ++r)
                out_.embedding_group_reduces =
                    out_.embedding_group_reduces || sums_words_twice(ranks_[r], traffic_[r]);
    }

    // Matrices of a rank's layers, its tables and its head.
    double matrices_of(const RankLayers& rank) const {
        const auto size = [](const Width& one) {
            return static_cast<double>(one.out) * static_cast<double>(one.in);
        };
        double layer = size(rank.projection) + size(rank.down);
        for (const auto* widths : {&rank.lead, &rank.ups})
            for (const Width& one : *widths)
                layer += size(one);
        const double layers = static_cast<double>(rank.calls / out_.micro_batches);
        return layers * layer + static_cast<double>(rank.position_rows * rank.hidden);
    }

    // Whether gradients of the vocabulary's matrix are summed up once more than by data-parallel
    // ranks: beside all of the rank's own parameters there is as much again as the matrix has.
    bool sums_words_twice(const RankLayers& rank, const Traffic& traffic) const {
        const double words = static_cast<double>(std::max(rank.word_rows, rank.head_width)) *
                             static_cast<double>(rank.hidden);
        if (words <= 0 || traffic.word_sums == 0) return false;
        if (out_.data == 1 || traffic.scattered.count > 0) return true;
        const double own = matrices_of(rank) + words;
        // Gradients may be summed in four bytes whatever activations have.
        for (const double wider : {1.0, 4 / element_bytes_}) {
            const double seen = traffic.reduced.elements / wider;
            if (seen > 0.95 * own && seen < 1.1 * own + words) return seen > own + words / 2;
        }
        return false;
    }

    std::string sync_text(const Traffic& traffic, std::int64_t group) const {
        const Volume& volume = traffic.scattered.count > 0 ? traffic.scattered : traffic.reduced;
        return fmt::format(
            "{} of {:.3g} million elements{}",
            counted(volume.count, traffic.scattered.count > 0 ? "reduce-scatter" : "all-reduce"),
            volume.elements / 1e6, group > 0 ? fmt::format(" among {} ranks", group) : "");
    }

    // Ranks of a stage are in a row: pipeline ranks are the slowest to vary.
    std::int64_t stage_of(const RankLayers& rank) const {
        const std::int64_t per_stage = out_.tensor * out_.data;
        return std::clamp<std::int64_t>(rank.facts->rank / per_stage, 0, out_.pipeline - 1);
    }

    void infer_layers() {
        std::map<std::int64_t, std::int64_t> of_stage;
        for (const RankLayers& rank : ranks_)
            of_stage[stage_of(rank)] = rank.calls / out_.micro_batches;
        const std::int64_t seen =
            std::accumulate(of_stage.begin(), of_stage.end(), std::int64_t{0},
                            [](std::int64_t sum, const auto& one) { return sum + one.second; });
        const std::int64_t unseen = out_.pipeline - static_cast<std::int64_t>(of_stage.size());
        out_.total_layers = seen + unseen * of_stage.begin()->second;
        out_.layers_certainty = unseen > 0 ? Certainty::likely : Certainty::certain;
        out_.layers_evidence =
            fmt::format("{} of attention / {} micro-batch{}", counted(any().calls, "call"),
                        out_.micro_batches, out_.micro_batches == 1 ? "" : "es");
        if (out_.pipeline > 1)
            out_.layers_evidence += fmt::format(" on a rank, {} of {} pipeline ranks seen",
                                                of_stage.size(), out_.pipeline);
        const bool uneven = std::any_of(of_stage.begin(), of_stage.end(), [&](const auto& one) {
            return one.second != of_stage.begin()->second;
        });
        // Layers that are run without a break are those of one stage.
        const RankLayers& rank = any();
        if (out_.pipeline > 1 && rank.run > 0 && out_.micro_batches > 0)
            out_.virtual_stages =
                std::max<std::int64_t>(1, rank.calls / out_.micro_batches / rank.run);
        if (uneven && unseen == 0 && out_.virtual_stages == 1) {
            Json list = Json::array();
            for (const auto& [stage, layers] : of_stage)
                list.push_back(layers);
            say("layers_per_stage", std::move(list), Certainty::certain,
                "calls of attention on each pipeline rank");
        }
    }

    void infer_parameters() {
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            const RankLayers& rank = ranks_[r];
            if (!rank.has_embedding() || !rank.has_head()) continue;
            out_.parameters_of_layers = matrices_of(rank);
            double stepped = 0;
            each<SignFact>(*rank.facts, Phase::optimizer, [&](const SignFact& sign) {
                if (sign.sign == Sign::parameter_step) stepped += static_cast<double>(sign.width);
            });
            const Traffic& traffic = traffic_[r];
            const Volume& volume =
                traffic.scattered.count > 0 ? traffic.scattered : traffic.reduced;
            if (volume.elements > 0) {
                // Once a step, or once a micro-batch; in the type of gradients.
                const double words =
                    static_cast<double>(std::max(rank.word_rows, rank.head_width) * rank.hidden);
                const double least = out_.parameters_of_layers + words;
                out_.parameters_seen = volume.elements;
                syncs_ = volume.early.contains(volume.group()) && out_.pipeline == 1
                             ? out_.micro_batches
                             : 1;
                for (const double wider : {1.0, 4 / element_bytes_}) {
                    const double once = volume.elements / wider / static_cast<double>(syncs_);
                    if (once > 0.99 * least && once < 1.1 * least + words)
                        out_.parameters_seen = once;
                }
            } else if (stepped > 0) {
                out_.parameters_seen = stepped;
            }
            return;
        }
    }

    void say_schedule() {
        if (out_.pipeline == 1) return;
        const RankLayers& rank = any();
        const std::int64_t stage = stage_of(rank);
        const std::int64_t first = rank.first_runs;
        if (out_.virtual_stages > 1) {
            say("virtual_pipeline", out_.virtual_stages, Certainty::certain,
                fmt::format("{} run behind each other, {} on a rank", counted(rank.run, "layer"),
                            rank.calls / out_.micro_batches));
            say("schedule", "interleaved", Certainty::likely,
                fmt::format("{} forward before the first backward", counted(first, "stage")));
            return;
        }
        const std::int64_t ahead = std::min(out_.micro_batches, out_.pipeline - stage);
        const bool may_be_gpipe = first == out_.micro_batches;
        const bool may_be_1f1b = first == ahead;
        const std::string by =
            fmt::format("{} of {} micro-batches forward before the first backward on stage {}",
                        first, out_.micro_batches, stage);
        if (may_be_gpipe && !may_be_1f1b)
            say("schedule", "gpipe", Certainty::certain, by);
        else if (may_be_1f1b && !may_be_gpipe)
            say("schedule", "1f1b", Certainty::likely, by);
        else if (may_be_1f1b)
            say("schedule", "1f1b", Certainty::likely, by + ", as with gpipe");
        else
            say("schedule", "1f1b", Certainty::assumed, by);
    }

    // Who holds what: gathers of parameters within the passes say that they are shared out, a
    // scatter of gradients that the optimizer's states are.
    void say_zero() {
        const Traffic& traffic = traffic_.front();
        if (out_.data == 1) return;
        if (traffic.scattered.count == 0 && traffic.gathered_late.count == 0 &&
            traffic.gathered_backward.count == 0) {
            say("zero_stage", 0, Certainty::certain,
                "gradients are summed up whole, and no parameters gathered");
            return;
        }
        if (hybrid_)
            say("zero_group_size", traffic.scattered.group(), Certainty::certain,
                fmt::format("scattered among {} ranks, summed up among {}",
                            traffic.scattered.group(), traffic.reduced.group()));
        const std::string gathers =
            fmt::format("parameters are gathered {} times forward, {} backward, {} else",
                        traffic.gathered_forward.count, traffic.gathered_backward.count,
                        traffic.gathered_late.count);
        if (traffic.gathered_backward.count > 0) {
            say("zero_stage", 3, Certainty::certain, gathers);
            return;
        }
        const double ratio = traffic.scattered.elements > 0
                                 ? traffic.gathered_forward.elements / traffic.scattered.elements
                                 : 0;
        const std::int64_t layers = any().calls / out_.micro_batches;
        if (out_.micro_batches > 1 && ratio > 0 && traffic.gathered_late.count == 0 &&
            traffic.gathered_forward.count >= layers * out_.micro_batches) {
            say("zero_stage", 3, Certainty::likely, gathers);
            say("reshard_after_forward", false, Certainty::certain, "none is gathered in backward");
            return;
        }
        if (syncs_ > 1)
            say("zero_stage", 2, Certainty::likely,
                fmt::format("gradients are scattered {} times a step; {}", syncs_, gathers), {1});
        else
            say("zero_stage", 1, Certainty::likely, "gradients are scattered; " + gathers, {2});
    }

    void say_recompute() {
        std::int64_t attention = 0, products = 0, norms = 0, activations = 0, calls = 0;
        for (const RankLayers& rank : ranks_) {
            calls += rank.calls;
            each<AttentionFact>(*rank.facts, Phase::recompute,
                                [&](const AttentionFact&) { ++attention; });
            each<ProductFact>(*rank.facts, Phase::recompute, [&](const ProductFact& product) {
                products += product.shape.batch == 1 ? 1 : 0;
            });
            each<NormFact>(*rank.facts, Phase::recompute, [&](const NormFact&) { ++norms; });
            each<ActivationFact>(*rank.facts, Phase::recompute,
                                 [&](const ActivationFact&) { ++activations; });
        }
        const auto lead = static_cast<std::int64_t>(any().lead.size());
        const std::string by = fmt::format("{} of {} calls of attention again in backward, and {}",
                                           attention, calls, counted(products, "product"));
        if (attention == 0 && products == 0 && norms == 0 && activations == 0) {
            say("recompute", "none", Certainty::certain, "nothing of forward runs in backward");
        } else if (attention == calls && products >= calls * lead) {
            say("recompute", "full", Certainty::certain, by);
        } else if (attention == calls && products == 0) {
            say("recompute", "selective", Certainty::certain, by);
        } else if (attention > 0 && products >= attention * lead && calls % attention == 0) {
            say("recompute", "selective_layer", Certainty::likely, by);
            say("recompute_every", calls / attention, Certainty::likely,
                fmt::format("one of {} layers", calls / attention));
        } else {
            say("recompute", "selective", Certainty::assumed, by);
            Json modules = Json::array();
            if (attention > 0) modules.push_back("core_attn");
            if (products > 0)
                modules.push_back("mlp");
            else if (activations > 0)
                modules.push_back("mlp_act");
            if (norms > 0) modules.push_back("layernorm");
            say("recompute_modules", std::move(modules), Certainty::assumed,
                fmt::format("{} and {} again", counted(norms, "norm"),
                            counted(activations, "activation")));
        }
    }

    void say_batch() {
        const RankLayers& rank = any();
        std::int64_t sequences = rank.sequences;
        Certainty certainty = Certainty::certain;
        if (sequences <= 0) {
            sequences = 1;
            certainty = Certainty::assumed;
        }
        const std::string of_sequences = counted(sequences, "sequence");
        say("micro_batch_size", sequences, certainty,
            fmt::format("{} rows of products, {} a sequence", rank.tokens,
                        rank.tokens / sequences));
        say("global_batch_size", sequences * out_.micro_batches * out_.data,
            micro_batches_certainty_,
            fmt::format("{} x {} micro-batch{} ({}) x data {}", of_sequences, out_.micro_batches,
                        out_.micro_batches == 1 ? "" : "es", micro_batches_by_, out_.data));
    }

    const std::vector<RankLayers>& ranks_;
    double element_bytes_;
    std::vector<Traffic> traffic_;
    InferredLayout out_;
    std::int64_t world_ = 0, syncs_ = 1;
    bool world_is_told_ = false, hybrid_ = false;
    std::string micro_batches_by_;
    Certainty micro_batches_certainty_ = Certainty::certain;
};

}  // namespace

InferredLayout infer_layout(const std::vector<RankLayers>& ranks, double element_bytes) {
    return LayoutReader(ranks, element_bytes).run();
}

}  // namespace orrery::compare
