// Rules between the model and the layout: what tensor and sequence parallelism must divide, and
// what a kernel that fuses several ops must find.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

struct Divided {
    const char* field;
    std::int64_t value;
};

// What tensor parallelism shards whole: columns of attention are heads, of an MLP that every token
// goes through ffn units.
std::vector<Divided> sharded(const Model& model) {
    const SoftmaxAttention& attention = model.attention();
    std::vector<Divided> out = {{"model.heads", attention.heads}};
    if (attention.kv_heads != attention.heads)
        out.push_back({"model.kv_heads", attention.kv_heads});
    for (const LayerSpec& kind : model.kinds)
        if (kind.experts() == nullptr) {
            out.push_back({"model.ffn_hidden", kind.dense().ffn_hidden});
            break;
        }
    const ExpertMlp* experts = model.experts();
    if (experts != nullptr && experts->shared_ffn > 0)
        out.push_back({"model.shared_expert_ffn", experts->shared_ffn});
    return out;
}

// x + mixer(…) is what the norm before the MLP reads.
bool adds_before_norm(const LayerSpec& layer) {
    return !layer.parallel_block && layer.norm_before;
}

// GELU by its tanh, of one product: plan/ops/epilogues.hpp says which functions products take
// along.
bool has_gelu_of_product(const LayerSpec& layer) {
    const ExpertMlp* const experts = layer.experts();
    if (experts != nullptr && experts->shared_ffn == 0) return false;
    const DenseMlp& mlp = experts != nullptr ? experts->expert : layer.dense();
    return mlp.activation == Activation::gelu && mlp.gelu == Gelu::tanh;
}

// A linear with a bias whose gradient is of rows that its weight's product reads.
bool has_summed_bias(const LayerSpec& layer, bool shares) {
    const ExpertMlp* const experts = layer.experts();
    const bool mlp =
        experts == nullptr ? layer.dense().bias : experts->shared_ffn > 0 && experts->expert.bias;
    const SoftmaxAttention& attention = layer.attention();
    const bool qkv = attention.qkv_bias && !attention.latents.on();
    return qkv || mlp || (attention.projection_bias && !shares);
}

// x + product, twice or, where experts make the second sum, once.
bool adds_to_product(const LayerSpec& layer) {
    return !layer.parallel_block && !layer.norm_after;
}

// Whether adapters add to all products that a residual is added to.
bool adapts_branches(const Lora& lora, const LayerSpec& layer) {
    return lora.adapts("projection") && (layer.experts() != nullptr || lora.adapts("fc2"));
}

}  // namespace

void check_tensor(Reading& reading, const Scenario& scenario) {
    const std::int64_t tensor = scenario.layout.tensor_parallel;
    if (!reading.good({"layout.tensor_parallel"})) return;
    std::string arithmetic;
    std::int64_t common = 0;
    for (const Divided& entry : sharded(scenario.model)) {
        // hidden stands behind the default of ffn_hidden
        if (!reading.good({entry.field, "model.hidden", "model.heads"})) continue;
        common = std::gcd(common, entry.value);
        if (entry.value % tensor == 0) continue;
        arithmetic += fmt::format("{}{} / tensor_parallel = {} / {} = {}",
                                  arithmetic.empty() ? "" : "\n", reading.shown(entry.field),
                                  entry.value, tensor, quotient(entry.value, tensor));
    }
    if (arithmetic.empty()) return;
    Diagnostic& fault = reading.report_field("S014", "layout.tensor_parallel",
                                             "tensor_parallel does not divide the model");
    fault.arithmetic = arithmetic;
    const SoftmaxAttention& attention = scenario.model.attention();
    if (attention.kv_heads < tensor && attention.kv_heads < attention.heads)
        fault.note =
            "not modelled: heads of keys and values that several tensor-parallel ranks hold";
    const bool known = reading.good({"cluster.nodes", "cluster.devices_per_node"});
    const std::int64_t most = known ? scenario.cluster.devices() : common;
    fault.help.push_back("tensor_parallel: " + choices_near(tensor, divisors(common, most)));
}

// What one kernel is to do has to follow one another in some layer.
void check_norms(Reading& reading, const Scenario& scenario) {
    const Training& training = scenario.training;
    if (training.framework.norm_kernel != NormKernel::fused_add) return;
    const std::vector<LayerSpec>& kinds = scenario.model.kinds;
    if (std::any_of(kinds.begin(), kinds.end(), adds_before_norm)) return;
    Diagnostic& fault =
        reading.report_field("S065", "training.norm_kernel",
                             "no norm within the model's layers reads what a residual adds");
    fault.arithmetic = kinds.front().parallel_block
                           ? "y = x + attention(norm(x)) + mlp(norm(x))"
                           : "m = x + norm(attention(x)), y = m + norm(mlp(m))";
    fault.help.push_back("norm_kernel: \"fused\"");
}

// Nor is there an epilogue without a function that it can be.
void check_activation(Reading& reading, const Scenario& scenario) {
    const Training& training = scenario.training;
    if (training.framework.activation_kernel != ActivationKernel::epilogue) return;
    const std::vector<LayerSpec>& kinds = scenario.model.kinds;
    const bool has_gelu = std::any_of(kinds.begin(), kinds.end(), has_gelu_of_product);
    const bool in_parts = training.framework.tensor_overlap_parts > 1 &&
                          scenario.layout.sequence_parallel && scenario.layout.tensor_parallel > 1;
    const char* why = nullptr;
    if (!has_gelu)
        why = "no product of the model's layers has an activation that it can take along";
    else if (training.precision == Precision::fp8)
        why = "products of eight bits take no activation along";
    else if (in_parts)
        why = "products that go in parts (tensor_overlap_parts) take no activation along";
    else if (training.lora.adapts("fc1") && training.lora.adapts("fc2"))
        why = "what adapters add (lora) comes between the products and the activation";
    if (why == nullptr) return;
    Diagnostic& fault = reading.report_field("S066", "training.activation_kernel", why);
    fault.note = "products take GELU by its tanh along, in 16 and 32 bits, which one product feeds";
    fault.help.push_back("activation_kernel: \"own\"");
}

// Nor does a product add a residual where something comes between.
void check_residuals(Reading& reading, const Scenario& scenario) {
    const Training& training = scenario.training;
    if (training.framework.residual_kernel != ResidualKernel::epilogue) return;
    const std::vector<LayerSpec>& kinds = scenario.model.kinds;
    const bool adapted = std::all_of(kinds.begin(), kinds.end(), [&](const LayerSpec& layer) {
        return adapts_branches(training.lora, layer);
    });
    const char* why = nullptr;
    if (std::none_of(kinds.begin(), kinds.end(), adds_to_product))
        why = "no product of the model's layers is what a residual is added to";
    else if (scenario.model.hidden_dropout > 0)
        why = "dropout comes between products and the residual";
    else if (scenario.layout.tensor_parallel > 1)
        why = "products of tensor-parallel ranks are summed before a residual is added";
    else if (training.precision == Precision::fp8)
        why = "products of eight bits add no residual";
    else if (adapted)
        why = "what adapters add (lora) comes between products and the residual";
    if (why == nullptr) return;
    Diagnostic& fault = reading.report_field("S068", "training.residual_kernel", why);
    fault.note = "a product in 16 or 32 bits adds the residual that follows it at once";
    fault.help.push_back("residual_kernel: \"own\"");
}

// Nor does a product sum a bias's gradient that nobody asks for, or that is of other rows than it
// reads: behind sums over sequence-parallel ranks biases are added to a share of the rows.
void check_bias_gradients(Reading& reading, const Scenario& scenario) {
    const Training& training = scenario.training;
    if (training.framework.bias_gradient_kernel != BiasGradientKernel::epilogue) return;
    const bool shares = scenario.layout.sequence_parallel && scenario.layout.tensor_parallel > 1;
    const std::vector<LayerSpec>& kinds = scenario.model.kinds;
    const bool any = std::any_of(kinds.begin(), kinds.end(), [&](const LayerSpec& layer) {
        return has_summed_bias(layer, shares);
    });
    const char* why = nullptr;
    if (!any)
        why = "no product of the model's layers has a bias whose gradient it can sum";
    else if (training.precision == Precision::fp8)
        why = "products of eight bits sum no gradients of biases";
    else if (training.lora.on())
        why = "biases beside adapters (lora) are not trained";
    if (why == nullptr) return;
    Diagnostic& fault = reading.report_field("S067", "training.bias_gradient_kernel", why);
    fault.note =
        "a product in 16 or 32 bits that makes a weight's gradient sums the columns of what it "
        "reads";
    fault.help.push_back("bias_gradient_kernel: \"own\"");
}

// A tensor rank's share of the tokens goes in equal parts.
void check_overlap_parts(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const std::int64_t parts = scenario.training.framework.tensor_overlap_parts;
    if (parts == 1 || !layout.sequence_parallel ||
        !reading.good({"layout.tensor_parallel", "layout.context_parallel",
                       "layout.micro_batch_size", "training.sequence_length",
                       "training.tensor_overlap_parts"}))
        return;
    if (layout.tensor_parallel > 1 &&
        scenario.training.framework.gathered_inputs == GatheredInputs::kept)
        reading
            .report_field("S033", "training.gathered_inputs",
                          "what is gathered in parts is gathered again in backward, in parts too")
            .help = {"gathered_inputs: \"again\"", "tensor_overlap_parts: 1"};
    const std::int64_t whole =
        layout.micro_batch_size * scenario.training.sequence_length / layout.context_parallel;
    const std::int64_t share = whole / layout.tensor_parallel;
    if (share % parts == 0) return;
    Diagnostic& fault = reading.report_field(
        "S033", "training.tensor_overlap_parts",
        "the tokens of a tensor-parallel rank do not divide into so many parts");
    fault.arithmetic = fmt::format(
        "tokens = micro_batch_size × sequence_length / (context_parallel × tensor_parallel) = {} × "
        "{} / ({} × {}) = {}\ntokens / tensor_overlap_parts = {} / {} = {}",
        layout.micro_batch_size, scenario.training.sequence_length, layout.context_parallel,
        layout.tensor_parallel, share, share, parts, quotient(share, parts));
    fault.help.push_back("tensor_overlap_parts: " + choices_near(parts, divisors(share, share)));
}

// The loss in chunks takes as many tokens of each tensor rank's share.
void check_loss_chunks(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const std::int64_t chunks = scenario.training.loss_chunks;
    if (chunks == 1 || !reading.good({"layout.tensor_parallel", "layout.context_parallel",
                                      "layout.micro_batch_size", "training.sequence_length",
                                      "training.loss_chunks"}))
        return;
    if (scenario.training.framework.defer_embedding_gradient && layout.pipeline_parallel > 1)
        reading
            .report_field("S035", "training.loss_chunks",
                          "the head's weight gradient cannot wait for logits of which only a chunk "
                          "is kept")
            .help.push_back("loss_chunks 1, or defer_embedding_gradient false");
    const std::int64_t whole =
        layout.micro_batch_size * scenario.training.sequence_length / layout.context_parallel;
    const std::int64_t share = whole / layout.tensor_parallel;
    if (whole % layout.tensor_parallel == 0 && share % chunks == 0) return;
    Diagnostic& fault =
        reading.report_field("S035", "training.loss_chunks",
                             "the tokens of a tensor-parallel rank do not divide into so many");
    fault.arithmetic = fmt::format(
        "tokens = micro_batch_size × sequence_length / (context_parallel × tensor_parallel) = {} × "
        "{} / ({} × {}) = {}\ntokens / loss_chunks = {} / {} = {}",
        layout.micro_batch_size, scenario.training.sequence_length, layout.context_parallel,
        layout.tensor_parallel, quotient(whole, layout.tensor_parallel), share, chunks,
        quotient(share, chunks));
    fault.help.push_back("loss_chunks: " + choices_near(chunks, divisors(share, share)));
}

void check_sequence(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const std::int64_t length = scenario.training.sequence_length;
    if (reading.good({"layout.sequence_parallel", "layout.tensor_parallel"}) &&
        layout.sequence_parallel) {
        const std::int64_t tensor = layout.tensor_parallel;
        if (tensor == 1) {
            Diagnostic& fault = reading.report_field(
                "S019", "layout.sequence_parallel",
                "sequence_parallel shards over the tensor-parallel ranks, and there is only one");
            fault.arithmetic = "tensor_parallel = 1";
            fault.help.push_back("\"sequence_parallel\": false, or tensor_parallel of at least 2");
        } else if (reading.good({"training.sequence_length"}) && length % tensor != 0) {
            Diagnostic& fault =
                reading.report_field("S019", "training.sequence_length",
                                     "sequence_parallel cannot shard the sequence evenly");
            fault.arithmetic = fmt::format("sequence_length / tensor_parallel = {} / {} = {}",
                                           length, tensor, quotient(length, tensor));
            const std::int64_t below = length / tensor * tensor;
            fault.help.push_back("sequence_length: " +
                                 (below > 0 ? fmt::format("{} or {}", below, below + tensor)
                                            : std::to_string(tensor)));
        }
    }
    check_overlap_parts(reading, scenario);
    check_loss_chunks(reading, scenario);
    if (!scenario.model.learned_positions) return;
    if (!reading.good({"training.sequence_length", "model.max_positions"})) return;
    if (length <= scenario.model.max_positions) return;
    Diagnostic& fault =
        reading.report_field("S021", "training.sequence_length",
                             "the sequence is longer than the model's table of positions");
    fault.arithmetic =
        fmt::format("training.sequence_length = {}, {} = {}", length,
                    reading.shown("model.max_positions"), scenario.model.max_positions);
    fault.help.push_back(
        fmt::format("sequence_length of at most {}", scenario.model.max_positions));
}

}  // namespace orrery::plan
