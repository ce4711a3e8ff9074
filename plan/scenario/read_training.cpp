#include <fmt/format.h>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kLargestSeed = 9'007'199'254'740'991;  // as a double of JSON still exact
constexpr NumberRange kBelowOne = {0, 1, false, true};

void read_state_types(Section& section, Optimizer& optimizer) {
    for (const auto& [key, moment] : {std::pair{"exp_avg_dtype", &Optimizer::first_moment},
                                      std::pair{"exp_avg_sq_dtype", &Optimizer::second_moment}})
        section.choice<StateType>(key, optimizer.*moment,
                                  {{"fp32", StateType::same},
                                   {"bf16", StateType::bf16},
                                   {"fp16", StateType::fp16},
                                   {"fp8", StateType::fp8}});
    section.choice<StateType>(
        "main_params_dtype", optimizer.main_parameters,
        {{"fp32", StateType::same}, {"fp16", StateType::fp16}, {"none", StateType::none}});
}

void read_optimizer(Reading& reading, Optimizer& optimizer) {
    Section section(reading, "/training/optimizer", "training.optimizer");
    section.word_of("kind", optimizer.kind, {"adamw"}, optimizer.kind);
    section.number("learning_rate", optimizer.learning_rate, kPositive);
    section.number("beta1", optimizer.beta1, kBelowOne);
    section.number("beta2", optimizer.beta2, kBelowOne);
    section.number("epsilon", optimizer.epsilon, kPositive);
    section.number("weight_decay", optimizer.weight_decay);
    section.number("clip_norm", optimizer.clip_norm);
    read_state_types(section, optimizer);
    section.finish();
}

void read_schedule(Reading& reading, const Optimizer& optimizer, LearningRateSchedule& schedule) {
    Section section(reading, "/training/schedule", "training.schedule");
    section.integer("warmup_steps", schedule.warmup_steps, {0, kLargestCount});
    section.choice<Decay>("decay", schedule.decay,
                          {{"cosine", Decay::cosine}, {"constant", Decay::constant}});
    section.number("min_learning_rate", schedule.min_learning_rate);
    section.finish();
    const bool judged =
        reading.good({"training.schedule.min_learning_rate", "training.optimizer.learning_rate"});
    if (!judged || schedule.min_learning_rate <= optimizer.learning_rate) return;
    Diagnostic& fault =
        reading.report("S025", section.pointer("min_learning_rate"),
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
    Section section(reading, "/training/loss_scale", "training.loss_scale");
    section.number("initial", scale.initial, kPositive);
    section.integer("growth_interval", scale.growth_interval);
    section.integer("hysteresis", scale.hysteresis);
    section.number("minimum", scale.minimum, kPositive);
    section.finish();
    if (!reading.good({"training.loss_scale.initial", "training.loss_scale.minimum"}) ||
        scale.initial >= scale.minimum)
        return;
    reading.report("S031", section.pointer("initial"), "the loss scale starts below its minimum")
        .arithmetic = fmt::format("initial = {}, minimum = {}", scale.initial, scale.minimum);
}

// A number that stays, or "dynamic", or an object that says how.
void read_loss_scale(Reading& reading, Section& section, Training& training) {
    section.known("loss_scale");
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

void read_fp8(Section& section, Fp8& fp8) {
    section.choice<Fp8Recipe>("fp8_recipe", fp8.recipe,
                              {{"delayed", Fp8Recipe::delayed},
                               {"tensorwise", Fp8Recipe::tensorwise},
                               {"rowwise", Fp8Recipe::rowwise},
                               {"blockwise", Fp8Recipe::blockwise},
                               {"mxfp8", Fp8Recipe::mxfp8}});
    section.choice<bool>("fp8_weights", fp8.weights_per_step, {{"step", true}, {"use", false}});
    section.choice<bool>("fp8_stash", fp8.packed_stash, {{"fp8", true}, {"bf16", false}});
    section.boolean("fp8_transposes", fp8.transposes);
    section.boolean("fp8_param_gather", fp8.parameters);
}

void read_loss_spike(Reading& reading, LossSpike& spike) {
    Section section(reading, "/training/loss_spike", "training.loss_spike");
    section.number("skip_above", spike.skip_above, {1, kLargestNumber, true, false},
                   Presence::required);
    section.integer("window", spike.window, {}, Presence::required);
    section.finish();
}

// A scope alone, or an object that says more.
void read_cuda_graphs(Reading& reading, Section& training, GraphCapture& capture) {
    const std::vector<std::pair<std::string, CudaGraphs>> scopes = {
        {"none", CudaGraphs::none},
        {"per_layer", CudaGraphs::per_layer},
        {"full_iteration", CudaGraphs::full_iteration}};
    const Json* value = training.find("cuda_graphs");
    if (value == nullptr || !value->is_object()) {
        training.choice<CudaGraphs>("cuda_graphs", capture.scope, scopes);
        return;
    }
    training.known("cuda_graphs");
    Section section(reading, "/training/cuda_graphs", "training.cuda_graphs");
    section.choice<CudaGraphs>("scope", capture.scope, scopes, Presence::required);
    section.number("node_us", capture.node_us, {0, 1000});
    section.number("node_kb", capture.node_kb, {0, 1e6});
    section.finish();
}

void read_batch_ramp(Reading& reading, BatchRamp& ramp) {
    Section section(reading, "/training/batch_ramp", "training.batch_ramp");
    section.integer("start_batch_size", ramp.start_batch_size, {}, Presence::required);
    section.integer("increment", ramp.increment, {}, Presence::required);
    section.integer("over_samples", ramp.over_samples, {}, Presence::required);
    section.finish();
}

// What NCCL 2.28 takes; limits of the two counts are those of InfiniBand's packets.
void read_nccl(Reading& reading, NcclSettings& nccl) {
    Section section(reading, "/run/nccl", "run.nccl");
    section.integer("ib_timeout", nccl.ib_timeout, {1, 31});
    section.integer("ib_retry_cnt", nccl.ib_retry_cnt, {0, 7});
    const auto text = [&](const char* key, std::string& out) {
        section.known(key);  // where it is there, it must not be empty
        if (section.has(key)) section.text(key, out, Presence::required);
    };
    text("ib_hca", nccl.ib_hca);
    text("socket_interface", nccl.socket_interface);
    section.word_of("algorithm", nccl.algorithm,
                    {"Ring", "Tree", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT"},
                    "");
    section.word_of("protocol", nccl.protocol, {"LL", "LL128", "Simple"}, "");
    section.word_of("debug", nccl.debug, {"VERSION", "WARN", "INFO", "TRACE"}, "");
    section.finish();
}

// A folder is known by the file that every one of Hugging Face has.
void read_first_weights(Reading& reading, Section& section, const Folders& folders, Run& run) {
    if (!section.text("init_from", run.init_from) || run.init_from.empty()) return;
    const Source& source = reading.document().source(section.pointer("init_from"));
    const std::string config = find_file(run.init_from + "/config.json", source, folders);
    if (!config.empty()) run.init_path = config.substr(0, config.rfind('/'));
}

}  // namespace

void read_training(Reading& reading, Training& training, Model& model, Verbatim& verbatim) {
    Section section(reading, "/training", "training");
    if (!section.exists()) return;
    section.integer("sequence_length", training.sequence_length, {}, Presence::required);
    section.choice<Precision>("precision", training.precision,
                              {{"fp32", Precision::fp32},
                               {"bf16", Precision::bf16},
                               {"fp16", Precision::fp16},
                               {"fp64", Precision::fp64},
                               {"fp8", Precision::fp8}});
    read_fp8(section, training.fp8);
    read_loss_scale(reading, section, training);
    section.number("tokens", training.tokens);
    section.integer("seed", training.seed, {0, kLargestSeed});
    for (const char* part : {"optimizer", "schedule", "framework", "loss_spike", "batch_ramp"})
        section.known(part);
    read_dropout(section, model);
    read_framework(reading, section, training.precision, training.framework, verbatim);
    section.integer("loss_chunks", training.loss_chunks, {1, 1'000'000});
    read_cuda_graphs(reading, section, training.cuda_graphs);
    read_lora(reading, section, training.lora);
    section.finish();
    read_optimizer(reading, training.optimizer);
    read_schedule(reading, training.optimizer, training.schedule);
    read_loss_spike(reading, training.loss_spike);
    read_batch_ramp(reading, training.batch_ramp);
}

void read_run(Reading& reading, const Folders& folders, Run& run) {
    Section section(reading, "/run", "run");
    if (section.text("data", run.data) && !run.data.empty()) {
        const Source& source = reading.document().source(section.pointer("data"));
        run.data_path = find_file(run.data, source, folders);
        // Megatron-LM's files are called without their endings.
        if (run.data_path.empty()) run.data_path = find_file(run.data + ".bin", source, folders);
    }
    section.choice<DataFormat>("format", run.format,
                               {{"auto", DataFormat::automatic},
                                {"text", DataFormat::text},
                                {"nanogpt", DataFormat::nanogpt},
                                {"llmc", DataFormat::llmc},
                                {"megatron", DataFormat::megatron}});
    read_first_weights(reading, section, folders, run);
    section.integer("threads_per_rank", run.threads_per_rank, {0, 4096});
    section.integer("steps", run.steps);
    section.text("offload_path", run.offload_path);
    section.known("nccl");
    section.known("elastic_layouts");  // elastic_layouts.cpp
    read_reliability(reading, section, run);
    section.finish();
    read_nccl(reading, run.nccl);
}

}  // namespace orrery::plan
