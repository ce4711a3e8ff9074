#include "plan/scenario/training_facts.hpp"

namespace orrery::plan {

TrainingFacts training_facts(const Scenario& scenario) {
    const Training& training = scenario.training;
    const LearningRateSchedule& schedule = training.schedule;
    const BatchRamp& ramp = training.batch_ramp;
    TrainingFacts facts;
    facts.rates = {training.optimizer.learning_rate, schedule.min_learning_rate,
                   schedule.warmup_steps, schedule.decay == Decay::cosine, scenario.run.steps};
    facts.batch = {scenario.layout.global_batch_size, ramp.start_batch_size, ramp.increment,
                   ramp.over_samples};
    facts.initializer_deviation = scenario.model.initializer_range;
    facts.loss_scale =
        training.loss_scale > 0 ? training.loss_scale : training.dynamic_loss_scale.initial;
    return facts;
}

std::int64_t global_batch_at(const Scenario& scenario, std::int64_t consumed_samples) {
    return training_facts(scenario).batch.at(consumed_samples);
}

}  // namespace orrery::plan
