// The section "training": its keys, and those of the objects in it.
#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr NumberRange kBelowOne = {0, 1, false, true};

// A state is written where it is not kept as the optimizer computes.
template <StateType Optimizer::*state>
bool is_rounded(const Optimizer& optimizer) {
    return optimizer.*state != StateType::same;
}

const Keys<Optimizer>& optimizer_keys() {
    static const Keys<Optimizer> keys = {
        word<&Optimizer::kind>("kind", "What steps the parameters", {"adamw"}),
        number<&Optimizer::learning_rate>("learning_rate", "At its highest, after warm-up",
                                          kPositive)
            .also({"lr"}),
        number<&Optimizer::beta1>("beta1", "Share of the first moment that stays", kBelowOne)
            .also({"adam_beta1"}),
        number<&Optimizer::beta2>("beta2", "Share of the second moment that stays", kBelowOne)
            .also({"adam_beta2"}),
        number<&Optimizer::epsilon>("epsilon", "Beside the root of the second moment", kPositive)
            .also({"eps"}),
        number<&Optimizer::weight_decay>("weight_decay",
                                         "Of matrices, as a multiple of the learning rate"),
        number<&Optimizer::clip_norm>("clip_norm",
                                      "Gradients are shortened to this norm; 0: not, and no norm "
                                      "is made")
            .also({"clip_grad", "gradient_clipping"}),
        choice<&Optimizer::first_moment>("exp_avg_dtype", "What the first moment is kept in",
                                         {"fp32", "bf16", "fp16", "fp8"})
            .written_if(is_rounded<&Optimizer::first_moment>),
        choice<&Optimizer::second_moment>("exp_avg_sq_dtype", "What the second moment is kept in",
                                          {"fp32", "bf16", "fp16", "fp8"})
            .written_if(is_rounded<&Optimizer::second_moment>),
        choice<&Optimizer::main_parameters>(
            "main_params_dtype",
            "What main parameters are kept in; \"none\": the weights themselves are stepped",
            {"fp32", "fp16", "none"})
            .written_if(is_rounded<&Optimizer::main_parameters>),
    };
    return keys;
}

const Keys<LearningRateSchedule>& rate_keys() {
    static const Keys<LearningRateSchedule> keys = {
        count<&LearningRateSchedule::warmup_steps>(
            "warmup_steps", "Steps in which the learning rate grows from 0", {0, kLargestCount})
            .in("steps"),
        choice<&LearningRateSchedule::decay>("decay", "How it goes on after warm-up"),
        number<&LearningRateSchedule::min_learning_rate>("min_learning_rate",
                                                         "Where it ends at the run's last step")
            .also({"min_lr"}),
    };
    return keys;
}

const Keys<DynamicLossScale>& loss_scale_keys() {
    static const Keys<DynamicLossScale> keys = {
        number<&DynamicLossScale::initial>("initial", "Scale of the first step", kPositive),
        count<&DynamicLossScale::growth_interval>("growth_interval",
                                                  "Steps without overflow after which it doubles")
            .in("steps"),
        count<&DynamicLossScale::hysteresis>("hysteresis",
                                             "Steps that overflow before it is halved")
            .in("steps"),
        number<&DynamicLossScale::minimum>("minimum", "It is not halved below this", kPositive),
    };
    return keys;
}

const Keys<LossSpike>& loss_spike_keys() {
    static const Keys<LossSpike> keys = {
        number<&LossSpike::skip_above>("skip_above",
                                       "A step whose loss is more than so many times the mean of "
                                       "the last ones is not taken",
                                       kAboveOne)
            .required(),
        count<&LossSpike::window>("window", "Accepted steps that the mean is of")
            .in("steps")
            .required(),
    };
    return keys;
}

const Keys<BatchRamp>& batch_ramp_keys() {
    static const Keys<BatchRamp> keys = {
        count<&BatchRamp::start_batch_size>("start_batch_size", "Global batch of the first step")
            .in("sequences")
            .required(),
        count<&BatchRamp::increment>("increment", "By how much it grows each time")
            .in("sequences")
            .required(),
        count<&BatchRamp::over_samples>("over_samples",
                                        "Samples after which it is layout.global_batch_size")
            .in("samples")
            .required(),
    };
    return keys;
}

const Keys<GraphCapture>& graph_keys() {
    static const Keys<GraphCapture> keys = {
        choice<&GraphCapture::scope>("scope", "What the host launches at once").required(),
        number<&GraphCapture::node_us>(
            "node_us", "Between two kernels of a graph, beyond what is between two of a stream",
            {0, 1000})
            .in("µs"),
        number<&GraphCapture::node_kb>("node_kb", "Memory of a kernel of a graph (1e3 bytes)",
                                       {0, 1e6})
            .in("kB"),
    };
    return keys;
}

void check_decay(Reading& reading, const Optimizer& optimizer,
                 const LearningRateSchedule& schedule) {
    const bool judged =
        reading.good({"training.schedule.min_learning_rate", "training.optimizer.learning_rate"});
    if (!judged || schedule.min_learning_rate <= optimizer.learning_rate) return;
    Diagnostic& fault =
        reading.report("S025", "/training/schedule/min_learning_rate",
                       "the learning rate cannot decay to more than it starts from");
    fault.arithmetic = fmt::format("min_learning_rate = {}, training.optimizer.learning_rate = {}",
                                   schedule.min_learning_rate, optimizer.learning_rate);
    fault.help.push_back(fmt::format("min_learning_rate of at most {}", optimizer.learning_rate));
}

void read_dropout(Section& section, Model& model) {
    double dropout = 0;
    if (!section.number("dropout", dropout, kBelowOne)) return;
    model.hidden_dropout = dropout;
    for (LayerSpec& kind : model.kinds)
        kind.attention().dropout = dropout;
}

void read_dynamic_scale(Reading& reading, DynamicLossScale& scale) {
    read_object(reading, "/training/loss_scale", "training.loss_scale", loss_scale_keys(), scale);
    if (!reading.good({"training.loss_scale.initial", "training.loss_scale.minimum"}) ||
        scale.initial >= scale.minimum)
        return;
    reading
        .report("S031", "/training/loss_scale/initial", "the loss scale starts below its minimum")
        .arithmetic = fmt::format("initial = {}, minimum = {}", scale.initial, scale.minimum);
}

// A number that stays, or "dynamic", or an object that says how.
void read_loss_scale(Reading& reading, Section& section, Training& training) {
    const Json* value = section.find("loss_scale");
    if (value == nullptr) return;
    if (value->is_number()) {
        section.number("loss_scale", training.loss_scale, kPositive);
    } else if (value->is_object()) {
        read_dynamic_scale(reading, training.dynamic_loss_scale);
    } else if (*value != "dynamic") {
        section.wrong_type("loss_scale", "a number, \"dynamic\" or an object");
        return;
    }
    if (!reading.good({"training.precision"}) || training.precision == Precision::fp16) return;
    Diagnostic& fault = reading.report("S028", section.pointer("loss_scale"),
                                       "only gradients in fp16 need their loss scaled");
    fault.arithmetic = fmt::format("training.precision = {}", name(training.precision));
    fault.help.push_back("leave loss_scale out, or \"precision\": \"fp16\"");
}

// A scope alone, or an object that says more.
bool read_cuda_graphs(Section& training, const std::string& at, const KeySpec& spec, Presence,
                      Training& out) {
    const Json* value = training.find(at);
    if (value == nullptr || !value->is_object())
        return choice<&Training::cuda_graphs, &GraphCapture::scope>(spec.name, "")
            .read(training, at, spec, Presence::optional, out);
    training.known(at);
    return read_object(training.reading(), training.pointer(at), "training.cuda_graphs",
                       graph_keys(), out.cuda_graphs);
}

bool with_fp8(const Training& training) {
    return training.fp8.on();
}

constexpr std::string_view kWithFp8 = "with \"precision\": \"fp8\"";

Keys<Training> numbers() {
    return {
        count<&Training::sequence_length>("sequence_length", "Tokens of a sequence")
            .in("tokens")
            .required()
            .also({"seq_length", "seq_len", "sequence", "max_seq_len"}),
        choice<&Training::precision>("precision",
                                     "Of weights and activations; fp8: of the layers' products")
            .also({"dtype", "fp16", "bf16", "mixed_precision"}),
        choice<&Training::fp8, &Fp8::recipe>(
            "fp8_recipe", "How the operands of eight-bit products are scaled",
            {"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"})
            .where(kWithFp8)
            .written_if(with_fp8)
            .also({"fp8_format", "float8_recipe_name"}),
        choice<&Training::fp8, &Fp8::weights_per_step>(
            "fp8_weights", "When weights are cast: for each use, or once per step", {"use", "step"})
            .where(kWithFp8)
            .written_if(with_fp8)
            .unset(),
        choice<&Training::fp8, &Fp8::packed_stash>(
            "fp8_stash", "In what the inputs of products wait for backward", {"bf16", "fp8"})
            .where(kWithFp8)
            .written_if(with_fp8)
            .unset(),
        flag<&Training::fp8, &Fp8::transposes>(
            "fp8_transposes", "Products read rows alone, so that columns are made rows of")
            .where(kWithFp8)
            .written_if(with_fp8)
            .unset(),
        flag<&Training::fp8, &Fp8::parameters>(
            "fp8_param_gather", "The layers' matrices are held and gathered in eight bits")
            .where(kWithFp8)
            .written_if([](const Training& from) { return with_fp8(from) && from.fp8.parameters; }),
        own<Training>("loss_scale", KeyType::number,
                      "Factor on the loss: one that stays, \"dynamic\", or how it moves",
                      specs(loss_scale_keys()))
            .or_word("dynamic")
            .of_numbers(kPositive)
            .initially("\"dynamic\"")
            .where("with \"precision\": \"fp16\"")
            .written_by([](const KeySpec&, const Training& from) {
                return from.loss_scale > 0 ? plain(from.loss_scale)
                                           : written(loss_scale_keys(), from.dynamic_loss_scale);
            })
            .written_if([](const Training& from) { return from.precision == Precision::fp16; }),
    };
}

Keys<Training> course_of_the_run() {
    return {
        own<Training>("loss_spike", KeyType::object, "Steps that are not taken, for their loss",
                      specs(loss_spike_keys()))
            .written_by([](const KeySpec&, const Training& from) {
                return written(loss_spike_keys(), from.loss_spike);
            })
            .written_if([](const Training& from) { return from.loss_spike.skips(); }),
        own<Training>("batch_ramp", KeyType::object,
                      "A global batch that grows, as Megatron-LM's --rampup-batch-size",
                      specs(batch_ramp_keys()))
            .written_by([](const KeySpec&, const Training& from) {
                return written(batch_ramp_keys(), from.batch_ramp);
            })
            .written_if([](const Training& from) { return from.batch_ramp.start_batch_size > 0; })
            .also({"rampup_batch_size"}),
        count<&Training::seed>("seed", "Of first weights, dropout and the order of samples",
                               {0, kLargestSeed}),
        number<&Training::tokens>("tokens", "Of the whole run, for its days and cost; 0: not known")
            .in("tokens"),
        own<Training>("dropout", KeyType::number,
                      "Share of hidden states and of attention's weights that is dropped; the "
                      "model's unless given")
            .of_numbers(kBelowOne),
        own<Training>("optimizer", KeyType::object, "What steps the parameters",
                      specs(optimizer_keys()))
            .written_by([](const KeySpec&, const Training& from) {
                return written(optimizer_keys(), from.optimizer);
            }),
        own<Training>("cuda_graphs", KeyType::word,
                      "What the host launches at once where kernels are captured in CUDA graphs",
                      specs(graph_keys()))
            .of_words({Spelling<CudaGraphs>::names.begin(), Spelling<CudaGraphs>::names.end()})
            .initially("\"none\"")
            .read_by(read_cuda_graphs)
            .written_by([](const KeySpec&, const Training& from) {
                return written(graph_keys(), from.cuda_graphs);
            })
            .written_if(
                [](const Training& from) { return from.cuda_graphs.scope != CudaGraphs::none; })
            .also({"cuda_graph", "enable_cuda_graph", "cuda_graph_impl"}),
        number<&Training::mtp_loss_scaling_factor>(
            "mtp_loss_scaling_factor",
            "What the loss of multi-token prediction counts for beside the model's own", kPositive)
            .where("for a model with multi-token prediction")
            .written_if([](const Training& from) {
                return from.mtp_loss_scaling_factor != Training{}.mtp_loss_scaling_factor;
            }),
        count<&Training::loss_chunks>("loss_chunks",
                                      "Head, loss and its gradient go over the tokens in so many "
                                      "parts",
                                      {1, 1'000'000})
            .written_if([](const Training& from) { return from.loss_chunks > 1; })
            .also({"num_output_chunks"}),
        flag<&Training::deterministic>(
            "deterministic",
            "A run has the same bits each time; false: on GPUs cuDNN may sum attention's gradients "
            "in any order, which is faster and takes memory for the sums")
            .written_if([](const Training& from) { return !from.deterministic; })
            .also({"deterministic_mode"}),
        own<Training>("lora", KeyType::object,
                      "Low-rank adapters are trained, and nothing else (Hu et al. 2021)",
                      specs(lora_keys()))
            .written_by([](const KeySpec&, const Training& from) {
                return written(lora_keys(), from.lora);
            })
            .written_if([](const Training& from) { return from.lora.on(); }),
        own<Training>("routing", KeyType::object, "How often experts are taken to be chosen",
                      specs(routing_keys()))
            .where("for a mixture of experts")
            .written_by([](const KeySpec&, const Training& from) {
                return written(routing_keys(), from.routing);
            })
            .written_if([](const Training& from) { return from.routing != ExpertRouting{}; }),
        own<Training>("schedule", KeyType::object, "Course of the learning rate",
                      specs(rate_keys()))
            .written_by([](const KeySpec&, const Training& from) {
                return written(rate_keys(), from.schedule);
            }),
        own<Training>("framework", KeyType::text,
                      "The training stack: a preset of the library or a file of one, or the object "
                      "that such a file holds",
                      framework_keys())
            .initially('"' + Framework{}.name + '"'),
    };
}

// Constants of the stack stand beside the keys of training.
Keys<Training> constants_of_the_stack() {
    Keys<Training> keys;
    for (const Key<Framework>& constant : framework_constants()) {
        keys.push_back({constant.spec});
        keys.back().spec.initial.clear();  // the preset's
        keys.back().spec.where = "instead of the preset's";
    }
    return keys;
}

}  // namespace

const Keys<Training>& training_keys() {
    static const Keys<Training> keys =
        joined(numbers(), course_of_the_run(), constants_of_the_stack());
    return keys;
}

Json written_training(const Training& training, const Document& document,
                      const Verbatim& verbatim) {
    Json out = Json::object();
    write_keys(training_keys(), training, out, [&](const std::string& name) -> std::optional<Json> {
        if (name == "framework") return written_framework(training.framework, verbatim);
        const Json* dropout = document.find("/training/dropout");
        if (name == "dropout" && dropout != nullptr) return *dropout;
        return std::nullopt;
    });
    return out;
}

void read_training(Reading& reading, Training& training, Model& model, Verbatim& verbatim) {
    Section section(reading, "/training", "training");
    if (!section.exists()) return;
    read_keys(section, training_keys(), training);
    read_loss_scale(reading, section, training);
    read_dropout(section, model);
    read_framework(reading, section, training.precision, training.framework, verbatim);
    read_lora(reading, section, training.lora);
    section.finish();
    read_routing(reading, training.routing);
    read_object(reading, "/training/optimizer", "training.optimizer", optimizer_keys(),
                training.optimizer);
    read_object(reading, "/training/schedule", "training.schedule", rate_keys(), training.schedule);
    check_decay(reading, training.optimizer, training.schedule);
    read_object(reading, "/training/loss_spike", "training.loss_spike", loss_spike_keys(),
                training.loss_spike);
    read_object(reading, "/training/batch_ramp", "training.batch_ramp", batch_ramp_keys(),
                training.batch_ramp);
}

}  // namespace orrery::plan
