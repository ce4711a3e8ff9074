#include "calib/compare/inferred_scenario.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "calib/compare/inferred_layers.hpp"
#include "calib/compare/inferred_layout.hpp"

namespace orrery::compare {
namespace {

using Json = nlohmann::ordered_json;
using plan::Phase;

constexpr std::int64_t kUsualWords = 32'000;  // Llama 2's, where no file has embedding or head

struct TypeName {
    std::string_view text;
    std::string_view precision;
};
// As PyTorch and plans spell them.
constexpr std::array kTypes = {TypeName{"BFloat16", "bf16"}, TypeName{"bf16", "bf16"},
                               TypeName{"Half", "fp16"},     TypeName{"fp16", "fp16"},
                               TypeName{"Float8", "fp8"},    TypeName{"fp8", "fp8"},
                               TypeName{"double", "fp64"},   TypeName{"fp64", "fp64"},
                               TypeName{"float", "fp32"},    TypeName{"fp32", "fp32"}};

std::string_view precision_of(std::string_view type) {
    for (const TypeName& one : kTypes)
        if (type.find(one.text) != std::string_view::npos) return one.precision;
    return "";
}

std::string shape_text(std::int64_t m, const Width& width) {
    return fmt::format("{} x {} x {}", m, width.out, width.in);
}

std::string plural(std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

template <typename Fact>
std::int64_t count_of(const StepFacts& facts, Phase phase) {
    std::int64_t count = 0;
    each<Fact>(facts, phase, [&](const Fact&) { ++count; });
    return count;
}

class Inferrer {
  public:
    explicit Inferrer(const std::vector<StepFacts>& ranks) : ranks_(ranks) {}

    Inference run() {
        if (!read_ranks()) return std::move(out_);
        layout_ = infer_layout(layers_, precision_bytes());
        say_model();
        say_layout();
        say_training();
        out_.ranks = layout_.ranks();
        std::stable_sort(out_.keys.begin(), out_.keys.end(),
                         [](const InferredKey& a, const InferredKey& b) {
                             return section_of(a.key) < section_of(b.key);
                         });
        return std::move(out_);
    }

  private:
    static std::size_t section_of(std::string_view key) {
        return key.starts_with("model.") ? 0 : key.starts_with("layout.") ? 1 : 2;
    }

    void say(std::string key, Json value, Certainty certainty, std::string evidence,
             std::vector<Json> alternatives = {}) {
        out_.keys.push_back({std::move(key), std::move(value), certainty, std::move(evidence),
                             std::move(alternatives)});
    }

    bool read_ranks() {
        bool any_backward = false, any_shapes = false;
        for (const StepFacts& facts : ranks_) {
            any_backward = any_backward || facts.has_backward;
            any_shapes = any_shapes || facts.has_shapes;
        }
        const std::string& file = ranks_.front().file;
        if (!any_backward)
            out_.missing.emplace_back(file +
                                      ": no backward pass is in it: inference, or a step that is "
                                      "not of training; record a "
                                      "training step");
        if (!any_shapes) {
            out_.missing.emplace_back(
                file +
                ": the sizes of products are not recorded: record again with record_shapes=True "
                "(torch.profiler), or emit_nvtx(record_shapes=True) under Nsight Systems");
            say_what_names_say();
        }
        if (!out_.missing.empty()) return false;
        std::vector<std::string> missing;
        for (const StepFacts& facts : ranks_) {
            for (const Phase phase : {Phase::forward, Phase::backward, Phase::recompute})
                each<SignFact>(facts, phase, [&](const SignFact& sign) {
                    experts_ = experts_ || sign.sign == Sign::experts;
                    ring_ = ring_ || sign.sign == Sign::context_ring;
                });
            LayersRead read = layers_of(facts);
            for (const std::string& what : read.missing)
                missing.push_back(facts.file + ": " + what);
            if (read.missing.empty()) layers_.push_back(std::move(read.layers));
        }
        if (experts_)
            out_.missing.emplace_back(
                "rows are routed to experts: mixtures of experts are not inferred; say the "
                "scenario (--scenario)");
        if (ring_)
            out_.missing.emplace_back(
                "keys and values go round a ring: context parallelism is not inferred; say the "
                "scenario (--scenario)");
        if (!out_.missing.empty()) return false;
        for (const RankLayers& one : layers_) {
            const AttentionFact& attention = one.attention;
            const std::int64_t seen = attention.batch * attention.tokens;
            if (attention.tokens > 0 && seen != one.tokens)
                missing.push_back(fmt::format(
                    "{}: attention sees {} x {} tokens, and products have {} rows: sequences are "
                    "packed or cut among ranks, which is not inferred; say the scenario "
                    "(--scenario)",
                    one.facts->file, attention.batch, attention.tokens, one.tokens));
        }
        if (layers_.size() < ranks_.size() || !missing.empty()) {
            out_.missing = std::move(missing);
            return false;
        }
        return true;
    }

    // Of a trace without sizes, or part of one.
    void say_what_names_say() {
        const StepFacts& facts = ranks_.front();
        const std::int64_t calls = count_of<AttentionFact>(facts, Phase::forward);
        if (calls > 0)
            say("layers x micro-batches", calls, Certainty::certain,
                plural(calls, "call") + " of attention forward");
        if (facts.world_size > 0)
            say("ranks", facts.world_size, Certainty::certain, "the file says so");
        std::int64_t transfers = 0;
        std::map<std::string, std::int64_t> collectives;
        for (const StepFact& fact : facts.facts)
            if (const auto* message = std::get_if<MessageFact>(&fact.what)) {
                if (message->kind == WorkKind::send_receive)
                    ++transfers;
                else
                    ++collectives[std::string(name(message->kind))];
            }
        for (const auto& [kind, count] : collectives)
            say(kind, count, Certainty::certain, plural(count, "collective") + " a step");
        if (transfers > 0)
            say("send_receive", transfers, Certainty::certain,
                "transfers a step: pipeline parallel, or a ring");
    }

    double precision_bytes() const {
        const std::string_view precision = precision_of(ranks_.front().dtype);
        if (precision == "fp64") return 8;
        if (precision == "fp32") return 4;
        return 2;
    }

    const RankLayers& any() const { return layers_.front(); }
    const RankLayers* with_embedding() const {
        const auto found = std::find_if(layers_.begin(), layers_.end(),
                                        [](const auto& one) { return one.has_embedding(); });
        return found == layers_.end() ? nullptr : &*found;
    }
    const RankLayers* with_head() const {
        const auto found = std::find_if(layers_.begin(), layers_.end(),
                                        [](const auto& one) { return one.has_head(); });
        return found == layers_.end() ? nullptr : &*found;
    }

    bool has_sign(Sign wanted, std::int64_t width = 0) const {
        bool found = false;
        for (const StepFacts& facts : ranks_)
            for (const StepFact& fact : facts.facts)
                if (const auto* sign = std::get_if<SignFact>(&fact.what))
                    found = found || (sign->sign == wanted && (width == 0 || sign->width == width));
        return found;
    }

    // --- model

    struct Shape {
        std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, inner = 0,
                     words = 0, positions = 0;
        bool rms = false, learned = false, gated = false, tied = false, head_norm = false;
        bool qkv_bias = false, projection_bias = false, up_bias = false;
        ActivationWord activation = ActivationWord::gelu;
        double dropout = 0;
    };

    // What of a value speaks for it, by what it is called; keys of families come after.
    struct Said {
        Certainty certainty;
        std::string evidence;
        std::vector<Json> alternatives;
    };

    void say_model() {
        read_widths();
        read_norm();
        read_activation();
        read_biases();
        read_positions();
        read_words();
        read_tying();
        shape_.dropout = has_sign(Sign::dropout) ? 0.1 : 0;
        said_["dropout"] = {shape_.dropout > 0 ? Certainty::assumed : Certainty::certain,
                            shape_.dropout > 0 ? "dropout is in the step, its share is not"
                                               : "no dropout in the step",
                            {}};
        write_family();
    }

    void read_widths() {
        const RankLayers& rank = any();
        const std::int64_t tp = layout_.tensor;
        shape_.layers = layout_.total_layers;
        said_["layers"] = {layout_.layers_certainty, layout_.layers_evidence, {}};
        shape_.hidden = rank.hidden;
        said_["hidden"] = {Certainty::certain,
                           fmt::format("{} of {} behind attention", plural(rank.calls, "product"),
                                       shape_text(rank.tokens, rank.projection)),
                           {}};
        const AttentionFact& attention = rank.attention;
        const std::string over = tp > 1 ? fmt::format(" x {} tensor-parallel ranks", tp) : "";
        shape_.head_dim = attention.head_dim;
        shape_.heads = attention.heads * tp;
        shape_.kv_heads = attention.kv_heads * tp;
        const bool seen = attention.head_dim > 0;
        if (!seen) {
            // Nobody tells heads from each other: as wide as most are.
            shape_.head_dim = rank.query_width % 128 == 0 && rank.query_width >= 2048 ? 128 : 64;
            shape_.heads = std::max<std::int64_t>(1, rank.query_width / shape_.head_dim) * tp;
            shape_.kv_heads = std::max<std::int64_t>(1, rank.kv_width / shape_.head_dim) * tp;
        }
        said_["heads"] = {seen ? layout_.tensor_certainty : Certainty::assumed,
                          seen ? fmt::format("attention over {} heads of {}{}", attention.heads,
                                             attention.head_dim, over)
                               : fmt::format("queries of {} columns; heads of {} assumed",
                                             rank.query_width, shape_.head_dim),
                          {}};
        std::string lead;
        for (const Width& one : rank.lead)
            lead += (lead.empty() ? "" : ", ") + shape_text(rank.tokens, one);
        said_["kv_heads"] = {
            said_["heads"].certainty, fmt::format("before attention {}{}", lead, over), {}};
        shape_.inner = rank.down.in * tp;
        shape_.gated = rank.layers_end_gated();
        std::string ups;
        for (const Width& up : rank.ups)
            ups += shape_text(rank.tokens, up) + ", ";
        const bool told = rank.layers_end_gated() || rank.up_width() == rank.down.in;
        said_["inner"] = {
            told ? layout_.tensor_certainty : Certainty::likely,
            fmt::format("behind it {}{}{}{}", ups, shape_text(rank.tokens, rank.down), over,
                        rank.odd_layers > 0
                            ? fmt::format("; {} with others", plural(rank.odd_layers, "layer"))
                            : ""),
            {}};
        said_["gated"] = {told ? Certainty::certain : Certainty::assumed,
                          fmt::format("{} columns into the feed-forward network, {} out of it",
                                      rank.up_width(), rank.down.in),
                          {}};
    }

    void read_norm() {
        std::int64_t rms = 0, layer = 0;
        for (const StepFacts& facts : ranks_)
            each<NormFact>(facts, Phase::forward, [&](const NormFact& norm) {
                if (norm.width > 0 && norm.width == any().attention.head_dim &&
                    norm.width != any().hidden)
                    shape_.head_norm = true;
                else
                    ++(norm.rms ? rms : layer);
            });
        shape_.head_norm = shape_.head_norm || has_sign(Sign::head_norm);
        shape_.rms = rms > layer || (rms == 0 && layer == 0 && shape_.gated);
        if (rms == 0 && layer == 0) {
            said_["norm"] = {
                Certainty::assumed,
                fmt::format("no norm is in the step by name; {} MLPs usually have {}",
                            shape_.gated ? "gated" : "plain", shape_.rms ? "RMSNorm" : "LayerNorm"),
                {}};
            return;
        }
        said_["norm"] = {
            Certainty::certain,
            plural(shape_.rms ? rms : layer, shape_.rms ? "RMSNorm" : "LayerNorm") + " forward",
            {}};
    }

    void read_activation() {
        std::map<ActivationWord, std::int64_t> words;
        for (const StepFacts& facts : ranks_)
            each<ActivationFact>(facts, Phase::forward, [&](const ActivationFact& fact) {
                ++words[fact.word];
                if (fact.width_in == 2 * fact.width_out) within_gate_ = true;
            });
        words.erase(ActivationWord::unknown);
        if (words.empty()) {
            shape_.activation = shape_.gated ? ActivationWord::silu : ActivationWord::gelu;
            said_["activation"] = {Certainty::assumed,
                                   "no activation is in the step by name; that of most such models",
                                   {}};
            return;
        }
        const auto most =
            std::max_element(words.begin(), words.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        shape_.activation = most->first;
        said_["activation"] = {
            Certainty::certain,
            fmt::format("{} of {} forward", plural(most->second, "call"), word_of(most->first)),
            {}};
    }
    static std::string_view word_of(ActivationWord word) {
        switch (word) {
            case ActivationWord::gelu:
                return "gelu";
            case ActivationWord::silu:
                return "silu";
            case ActivationWord::relu:
                return "relu";
            default:
                return "unknown";
        }
    }

    // Products that add them, gradients of theirs, or parameters of their widths.
    void read_biases() {
        const RankLayers& rank = any();
        std::set<std::int64_t> vectors;
        for (const StepFacts& facts : ranks_)
            for (const StepFact& fact : facts.facts) {
                if (const auto* parameter = std::get_if<ParameterFact>(&fact.what))
                    if (parameter->dims.size() == 1) vectors.insert(parameter->dims[0]);
                if (const auto* sign = std::get_if<SignFact>(&fact.what))
                    if (sign->sign == Sign::bias_gradient) vectors.insert(sign->width);
            }
        std::int64_t lead_width = 0;
        for (const Width& one : rank.lead)
            lead_width += one.out;
        const auto has = [&](std::int64_t width) { return vectors.contains(width); };
        const bool lead_is_told = rank.lead.front().out != rank.hidden;
        shape_.qkv_bias =
            rank.lead_bias || has(lead_width) || (lead_is_told && has(rank.lead.front().out));
        std::int64_t of_hidden = 0;  // gradients of biases: two of each layer behind its sums
        for (const StepFact& fact : rank.facts->facts)
            if (const auto* sign = std::get_if<SignFact>(&fact.what))
                of_hidden += sign->sign == Sign::bias_gradient && sign->width == rank.hidden;
        const auto has_up = [&](std::int64_t width) {
            return width == rank.hidden ? of_hidden >= 3 * rank.calls : has(width);
        };
        shape_.up_bias = rank.up_bias || has_up(rank.ups.front().out) || has_up(rank.up_width());
        // A row-parallel product leaves its bias to an addition behind the sum.
        shape_.projection_bias =
            rank.projection_bias ||
            (shape_.up_bias && shape_.qkv_bias && (layout_.tensor > 1 || has_bias_gradient()));
        said_["bias"] = {Certainty::certain,
                         shape_.qkv_bias || shape_.up_bias || shape_.projection_bias
                             ? fmt::format("biases are added behind {}{}{}",
                                           shape_.qkv_bias ? "queries, keys and values" : "",
                                           shape_.qkv_bias && shape_.up_bias ? ", and " : "",
                                           shape_.up_bias ? "feed-forward products" : "")
                             : "no product adds a bias",
                         {}};
    }
    bool has_bias_gradient() const { return has_sign(Sign::bias_gradient); }

    void read_positions() {
        const RankLayers* rank = with_embedding();
        const bool turned = has_sign(Sign::rotary);
        if (rank != nullptr && rank->position_rows > 0) {
            shape_.learned = true;
            shape_.positions = rank->position_rows;
            said_["positions"] = {
                Certainty::certain,
                fmt::format("look-ups in a table of {} rows", rank->position_rows),
                {}};
            return;
        }
        shape_.learned = rank == nullptr && !turned && !shape_.rms;
        shape_.positions = any().attention.tokens;
        if (turned)
            said_["positions"] = {rank != nullptr ? Certainty::certain : Certainty::likely,
                                  "queries and keys are turned",
                                  {}};
        else if (rank != nullptr)
            said_["positions"] = {Certainty::likely,
                                  "no table of positions is looked up: rotary, or none at all",
                                  {}};
        else
            said_["positions"] = {
                Certainty::assumed, "no file has the embedding; usual beside such norms", {}};
    }

    void read_words() {
        const RankLayers *embedding = with_embedding(), *head = with_head();
        const std::int64_t tp = layout_.tensor;
        const std::int64_t width = head != nullptr ? head->head_width : 0;
        const std::int64_t rows = embedding != nullptr ? embedding->word_rows : 0;
        const std::int64_t over = head != nullptr ? head->loss_words : 0;
        if (width == 0 && rows == 0 && over == 0) {
            shape_.words = kUsualWords;
            said_["words"] = {
                Certainty::assumed, "no file has the embedding, the head or the loss", {}};
            return;
        }
        const std::string head_text =
            width > 0 ? fmt::format("{} of {} x {} x {}", plural(head->head_calls, "product"),
                                    head->head_rows / std::max<std::int64_t>(1, head->head_calls),
                                    width, head->hidden)
                      : "";
        if (tp == 1) {
            shape_.words = width > 0 ? width : rows > 0 ? rows : over;
            said_["words"] = {
                Certainty::certain,
                width > 0 ? head_text : fmt::format("look-ups in a table of {} rows", shape_.words),
                {}};
            return;
        }
        // Among tensor-parallel ranks: the head's columns or the table's rows may be a share.
        if (over > 0 && width > 0 && over == width * tp)
            shape_.words = over;
        else if (rows > 0 && width > 0 && rows == width * tp)
            shape_.words = rows;
        else if (layout_.words_are_cut)
            shape_.words = (width > 0 ? width : rows > 0 ? rows : over) * tp;
        else
            shape_.words = width > 0 ? width : rows > 0 ? rows : over;
        const bool both = over > 0 && width > 0 && over == width * tp;
        std::vector<Json> others;
        if (!both && !layout_.words_are_cut) {
            const std::int64_t one = width > 0 ? width : rows;
            if (one > 0 && shape_.words != one) others.emplace_back(one);
        }
        said_["words"] = {both || layout_.words_are_cut ? Certainty::certain : Certainty::likely,
                          fmt::format("{}{}{}{}", head_text,
                                      width == 0 ? fmt::format("a table of {} rows", rows) : "",
                                      shape_.words != (width > 0 ? width : rows)
                                          ? fmt::format(" x {} tensor-parallel ranks", tp)
                                          : "",
                                      both ? fmt::format(", a loss over {} words", over) : ""),
                          std::move(others)};
    }

    // Whether embedding and head are one matrix: how often a gradient, or the optimizer, has it.
    void read_tying() {
        const RankLayers *embedding = with_embedding(), *head = with_head();
        shape_.tied = false;
        if (embedding == nullptr || head == nullptr) {
            said_["tied"] = {Certainty::assumed, "no file has both embedding and head", {true}};
            return;
        }
        if (embedding != head) {
            shape_.tied = layout_.embedding_group_reduces;
            // Two copies of one matrix have one gradient.
            if (layout_.nothing_is_reduced)
                said_["tied"] = {Certainty::certain,
                                 "first and last stage sum up no gradient with each other",
                                 {}};
            else
                said_["tied"] = {Certainty::likely,
                                 fmt::format("first and last stage sum up {} of the vocabulary's "
                                             "size",
                                             shape_.tied ? "a matrix" : "nothing"),
                                 {true}};
            return;
        }
        std::int64_t reduced = 0, stepped = 0;
        const double matrix =
            static_cast<double>(embedding->word_rows) * static_cast<double>(embedding->hidden);
        for (const StepFact& fact : embedding->facts->facts)
            if (const auto* parameter = std::get_if<ParameterFact>(&fact.what))
                if (parameter->dims.size() == 2 && parameter->dims[0] == embedding->word_rows &&
                    parameter->dims[1] == embedding->hidden)
                    ++(fact.phase == Phase::optimizer ? stepped : reduced);
        const std::int64_t micro_batches = std::max<std::int64_t>(1, layout_.micro_batches);
        std::int64_t copies = stepped > 0 ? stepped : (reduced + micro_batches / 2) / micro_batches;
        std::string by =
            fmt::format("{} x {} is {} among the parameters", embedding->word_rows,
                        embedding->hidden, copies == 1 ? "once" : fmt::format("{} times", copies));
        Certainty certainty = Certainty::certain;
        if (copies == 0 && layout_.parameters_seen > 0) {
            // What is left of all parameters beside the layers', in such matrices.
            const double left = layout_.parameters_seen - layout_.parameters_of_layers;
            copies = std::llround(left / matrix);
            by = fmt::format("{:.0f} parameters, {:.0f} of them the layers' matrices",
                             layout_.parameters_seen, layout_.parameters_of_layers);
            certainty = Certainty::likely;
        }
        if (copies == 0) {
            said_["tied"] = {Certainty::assumed, "parameters are not listed", {true}};
            return;
        }
        shape_.tied = copies == 1;
        std::vector<Json> others;
        if (certainty != Certainty::certain) others.emplace_back(true);
        said_["tied"] = {certainty, by, std::move(others)};
    }

    void model(const char* key, Json value, const char* of) {
        const Said& said = said_.at(of);
        say(std::string("model.") + key, std::move(value), said.certainty, said.evidence,
            said.alternatives);
    }
    void model_tied(const char* key, bool value) {
        const Said& said = said_.at("tied");
        std::vector<Json> others;
        if (!said.alternatives.empty()) others.emplace_back(!value);
        say(std::string("model.") + key, value, said.certainty, said.evidence, std::move(others));
    }

    void family(const char* type, const std::string& why) {
        say("model.model_type", type, Certainty::likely, why);
    }

    void write_family() {
        const bool silu = shape_.activation == ActivationWord::silu;
        const bool gelu = shape_.activation == ActivationWord::gelu;
        const bool relu = shape_.activation == ActivationWord::relu;
        const bool biases = shape_.qkv_bias && shape_.up_bias;
        const bool none = !shape_.qkv_bias && !shape_.up_bias && !shape_.projection_bias;
        const bool all_heads = shape_.kv_heads == shape_.heads;
        const bool fills = shape_.heads * shape_.head_dim == shape_.hidden;
        if (!shape_.rms && shape_.learned && gelu && !shape_.gated && biases && all_heads && fills)
            return write_gpt2();
        if (shape_.rms && !shape_.learned && silu && shape_.gated && !shape_.up_bias &&
            (none || (shape_.qkv_bias && !shape_.head_norm)))
            return write_llama_like();
        if (!shape_.rms && shape_.learned && relu && !shape_.gated && biases && all_heads && fills)
            return write_opt();
        write_megatron();
    }

    void write_gpt2() {
        family("gpt2", "LayerNorm, a table of positions, GELU, biases");
        model("vocab_size", shape_.words, "words");
        model("n_layer", shape_.layers, "layers");
        model("n_embd", shape_.hidden, "hidden");
        model("n_head", shape_.heads, "heads");
        model("n_positions", shape_.positions, "positions");
        if (shape_.inner != 4 * shape_.hidden) model("n_inner", shape_.inner, "inner");
        model_tied("tie_word_embeddings", shape_.tied);
        for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
            model(key, shape_.dropout, "dropout");
    }

    void write_llama_like() {
        if (shape_.head_norm)
            family("qwen3", "RMSNorm, also of heads, rotary positions, a gated MLP");
        else if (shape_.qkv_bias)
            family("qwen2", "RMSNorm, rotary positions, a gated MLP, biases of queries and keys");
        else
            family("llama", "RMSNorm, rotary positions, a gated MLP, no biases");
        model("vocab_size", shape_.words, "words");
        model("num_hidden_layers", shape_.layers, "layers");
        model("hidden_size", shape_.hidden, "hidden");
        model("intermediate_size", shape_.inner, "inner");
        model("num_attention_heads", shape_.heads, "heads");
        model("num_key_value_heads", shape_.kv_heads, "kv_heads");
        if (shape_.heads * shape_.head_dim != shape_.hidden || shape_.head_norm)
            model("head_dim", shape_.head_dim, "heads");
        model_tied("tie_word_embeddings", shape_.tied);
    }

    void write_opt() {
        family("opt", "LayerNorm, a table of positions, ReLU, biases");
        model("vocab_size", shape_.words, "words");
        model("num_hidden_layers", shape_.layers, "layers");
        model("hidden_size", shape_.hidden, "hidden");
        model("num_attention_heads", shape_.heads, "heads");
        model("ffn_dim", shape_.inner, "inner");
        model("max_position_embeddings", shape_.positions, "positions");
        model_tied("tie_word_embeddings", shape_.tied);
        model("dropout", shape_.dropout, "dropout");
    }

    // Each of its parts by itself: no published family has them all.
    void write_megatron() {
        family("megatron", "no published family has these parts together");
        model("vocab_size", shape_.words, "words");
        model("num_layers", shape_.layers, "layers");
        model("hidden_size", shape_.hidden, "hidden");
        model("ffn_hidden_size", shape_.inner, "inner");
        model("num_attention_heads", shape_.heads, "heads");
        model("num_query_groups", shape_.kv_heads, "kv_heads");
        model("kv_channels", shape_.head_dim, "heads");
        model("normalization", shape_.rms ? "RMSNorm" : "LayerNorm", "norm");
        model("position_embedding_type", shape_.learned ? "learned_absolute" : "rope", "positions");
        if (shape_.learned) model("max_position_embeddings", shape_.positions, "positions");
        if (shape_.gated && shape_.activation != ActivationWord::silu)
            said_["gated"] = {
                Certainty::assumed,
                fmt::format("gated by {}, which is planned as SwiGLU", word_of(shape_.activation)),
                {}};
        model("swiglu", shape_.gated, "gated");
        if (!shape_.gated && shape_.activation != ActivationWord::gelu) {
            said_["activation"].certainty = Certainty::assumed;
            said_["activation"].evidence += ", planned as squared ReLU";
            model("squared_relu", true, "activation");
        }
        model("add_bias_linear", shape_.up_bias, "bias");
        if (shape_.qkv_bias != shape_.up_bias) model("add_qkv_bias", shape_.qkv_bias, "bias");
        if (shape_.head_norm) model("qk_layernorm", true, "norm");
        model_tied("untie_embeddings_and_output_weights", !shape_.tied);
        model("hidden_dropout", shape_.dropout, "dropout");
        model("attention_dropout", shape_.dropout, "dropout");
    }

    // --- layout and training

    void say_layout() {
        for (InferredKey& key : layout_.keys)
            out_.keys.push_back(std::move(key));
    }

    void say_training() {
        const RankLayers& rank = any();
        const std::int64_t length = rank.attention.tokens > 0 ? rank.attention.tokens
                                    : rank.sequences > 0      ? rank.tokens / rank.sequences
                                                              : rank.tokens;
        say("training.sequence_length", length,
            rank.attention.tokens > 0 ? Certainty::certain : Certainty::likely,
            fmt::format("attention over {} x {} tokens", rank.sequences, length));
        const std::string_view precision = precision_of(rank.facts->dtype);
        if (precision.empty())
            say("training.precision", "bf16", Certainty::assumed,
                "types of inputs are not recorded", {"fp32"});
        else
            say("training.precision", std::string(precision), Certainty::certain,
                fmt::format("products of {}", rank.facts->dtype));
        say("training.vocabulary_multiple", 1, Certainty::certain,
            "the vocabulary is as it was run, padding included");
        if (!rank.attention.fused)
            say("training.attention_kernel", "unfused", Certainty::certain,
                "products with a softmax between");
        if (has_sign(Sign::added_norm))
            say("training.norm_kernel", "fused_add", Certainty::certain,
                "norms make the sum that they read");
        if (has_sign(Sign::epilogue))
            say("training.activation_kernel", "epilogue", Certainty::certain,
                "products take the MLP's function along");
        if (has_sign(Sign::residual_epilogue))
            say("training.residual_kernel", "epilogue", Certainty::certain,
                "products add the residual");
        if (has_sign(Sign::bias_epilogue))
            say("training.bias_gradient_kernel", "epilogue", Certainty::certain,
                "products sum the gradients of biases along");
        if (!has_sign(Sign::gradient_norm))
            say("training.optimizer.clip_norm", 0, Certainty::certain,
                "no norm of gradients is made");
        const std::string& optimizer = rank.facts->optimizer;
        const bool adam = optimizer.find("Adam") != std::string::npos;
        if (!optimizer.empty() || has_sign(Sign::parameter_step))
            say("training.optimizer.kind", "adamw",
                optimizer.empty() || adam ? Certainty::certain : Certainty::assumed,
                optimizer.empty() ? "parameters are stepped by it"
                                  : fmt::format("the step of {}{}", optimizer,
                                                adam ? "" : ", which is planned as AdamW"));
        else
            say("training.optimizer.kind", "adamw", Certainty::assumed,
                "no optimizer is in the step by name");
        say("training.framework", "orrery", Certainty::assumed,
            "no trace says its stack; orrery list frameworks");
    }

    const std::vector<StepFacts>& ranks_;
    std::vector<RankLayers> layers_;
    InferredLayout layout_;
    Shape shape_;
    std::map<std::string, Said> said_;
    Inference out_;
    bool experts_ = false, ring_ = false, within_gate_ = false;
};

}  // namespace

std::string_view name(Certainty certainty) {
    constexpr std::array<std::string_view, 3> kNames = {"certain", "likely", "assumed"};
    return kNames[static_cast<std::size_t>(certainty)];
}

const InferredKey* Inference::find(std::string_view key) const {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [&](const auto& one) { return one.key == key; });
    return found == keys.end() ? nullptr : &*found;
}

Inference infer_scenario(const std::vector<StepFacts>& ranks) {
    return Inferrer(ranks).run();
}

Json scenario_of(const std::vector<InferredKey>& keys) {
    Json scenario = {
        {"model", Json::object()}, {"layout", Json::object()}, {"training", Json::object()}};
    for (const InferredKey& key : keys) {
        std::string pointer = "/" + key.key;
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        scenario[Json::json_pointer(pointer)] = key.value;
    }
    return scenario;
}

std::vector<std::vector<InferredKey>> candidates_of(const Inference& inference, std::size_t most) {
    std::vector<std::vector<InferredKey>> all = {inference.keys};
    for (std::size_t i = 0; i < inference.keys.size(); ++i) {
        const std::size_t before = all.size();
        for (const Json& other : inference.keys[i].alternatives)
            for (std::size_t c = 0; c < before && all.size() < most; ++c) {
                all.push_back(all[c]);
                InferredKey& key = all.back()[i];
                std::replace(key.alternatives.begin(), key.alternatives.end(), other, key.value);
                key.value = other;
            }
    }
    return all;
}

}  // namespace orrery::compare
