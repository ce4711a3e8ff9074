#include <fmt/format.h>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr NumberRange kPositive = {0, kLargestNumber, true, false};
constexpr NumberRange kBelowOne = {0, 1, false, true};

void read_optimizer(Reading& reading, Optimizer& optimizer) {
    Section section(reading, "/training/optimizer", "training.optimizer");
    section.word_of("kind", optimizer.kind, {"adamw"}, optimizer.kind);
    section.number("learning_rate", optimizer.learning_rate, kPositive);
    section.number("beta1", optimizer.beta1, kBelowOne);
    section.number("beta2", optimizer.beta2, kBelowOne);
    section.number("epsilon", optimizer.epsilon, kPositive);
    section.number("weight_decay", optimizer.weight_decay);
    section.number("clip_norm", optimizer.clip_norm);
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
    model.attention_dropout = dropout;
}

// "dynamic", or a number that stays.
void read_loss_scale(Reading& reading, Section& section, Training& training) {
    section.known("loss_scale");
    const Json* value = section.find("loss_scale");
    if (value == nullptr) return;
    if (value->is_number()) {
        section.number("loss_scale", training.loss_scale, kPositive);
    } else if (*value != "dynamic") {
        section.wrong_type("loss_scale", "a number or \"dynamic\"");
        return;
    }
    if (!reading.good({"training.precision"}) || training.precision == Precision::fp16) return;
    Diagnostic& fault = reading.report("S028", section.pointer("loss_scale"),
                                       "only gradients in fp16 need their loss scaled");
    fault.arithmetic = fmt::format("training.precision = {}", name(training.precision));
    fault.help.push_back("leave loss_scale out, or \"precision\": \"fp16\"");
}

}  // namespace

void read_training(Reading& reading, Training& training, Model& model, Verbatim& verbatim) {
    Section section(reading, "/training", "training");
    if (!section.exists()) return;
    section.integer("sequence_length", training.sequence_length, {}, Presence::required);
    section.choice<Precision>(
        "precision", training.precision,
        {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}});
    read_loss_scale(reading, section, training);
    section.number("tokens", training.tokens);
    section.known("optimizer");
    section.known("schedule");
    section.known("framework");
    read_dropout(section, model);
    read_framework(reading, section, training.precision, training.framework, verbatim);
    section.finish();
    read_optimizer(reading, training.optimizer);
    read_schedule(reading, training.optimizer, training.schedule);
}

void read_run(Reading& reading, Run& run) {
    Section section(reading, "/run", "run");
    section.text("data", run.data);
    section.integer("steps", run.steps);
    section.known("checkpoint");
    section.finish();
    Section checkpoint(reading, "/run/checkpoint", "run.checkpoint");
    checkpoint.text("path", run.checkpoint_path, Presence::required);
    checkpoint.integer("every_steps", run.checkpoint_every_steps, {}, Presence::required);
    checkpoint.finish();
}

}  // namespace orrery::plan
