// Rules across the parts of a scenario, checked once each part has been read: that the layout fits
// the model, the cluster and the batch. Also settles what was left to "auto" and "even". A rule
// whose inputs are in error is skipped. Internal to plan/scenario.
#pragma once

#include "plan/scenario/parts.hpp"

namespace orrery::plan {

// All of them, in order.
void check_rules(Reading& reading, const LayoutChoices& choices, Scenario& scenario);

void check_ranks(Reading& reading, const LayoutChoices& choices, Scenario& scenario);
void check_batch(Reading& reading, const LayoutChoices& choices, const Scenario& scenario);
void check_attention_chunks(Reading& reading, const Scenario& scenario);
void check_experts(Reading& reading, const Scenario& scenario);
void check_latents(Reading& reading, const Scenario& scenario);
void check_multi_token(Reading& reading, const Scenario& scenario);
void check_batch_ramp(Reading& reading, const Scenario& scenario);
void check_stages(Reading& reading, const LayoutChoices& choices, Scenario& scenario);
void check_zero(Reading& reading, const Scenario& scenario);
void check_offload(Reading& reading, const Scenario& scenario);
void check_data_cache(Reading& reading, const Scenario& scenario);
void check_fp8(Reading& reading, Scenario& scenario);
void check_lora(Reading& reading, const Scenario& scenario);
void check_groups_of_layers(Reading& reading, const Scenario& scenario);
void check_optimizer_states(Reading& reading, const Scenario& scenario);
void check_post_validation(Reading& reading, const Scenario& scenario);
void check_vocabulary(Reading& reading, const Scenario& scenario);
void check_staleness(Reading& reading, const Scenario& scenario);
void check_chunks(Reading& reading, const Scenario& scenario);
void check_schedule(Reading& reading, const Scenario& scenario);
void check_tensor(Reading& reading, const Scenario& scenario);
void check_norms(Reading& reading, const Scenario& scenario);
void check_activation(Reading& reading, const Scenario& scenario);
void check_residuals(Reading& reading, const Scenario& scenario);
void check_bias_gradients(Reading& reading, const Scenario& scenario);
void check_context(Reading& reading, const Scenario& scenario);
void check_sequence(Reading& reading, const Scenario& scenario);
void check_sizes(Reading& reading, const Scenario& scenario);  // last

}  // namespace orrery::plan
