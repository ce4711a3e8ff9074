#include "plan/scenario/rules.hpp"

#include "plan/scenario/rule_check.hpp"

namespace orrery::plan {
namespace {

using Rule = void (*)(Reading&, const LayoutChoices&, Scenario&);

template <void (*check)(Reading&, const Scenario&)>
void as_rule(Reading& reading, const LayoutChoices& /*choices*/, Scenario& scenario) {
    check(reading, scenario);
}

struct Row {
    Rule check;
    // Whether it asks for nothing but the model's layers, how many stages there are, and the
    // schedule.
    bool of_stages = false;
    bool of_zero_groups = false;  // whether it asks for zero_group_size
};

// In order: what the model excludes comes first, so that the rules after it skip that degree; sizes
// come last.
constexpr Row kRules[] = {
    {as_rule<check_tensor>},
    {check_stages, true},
    {as_rule<check_groups_of_layers>},
    {check_ranks},
    {[](Reading& reading, const LayoutChoices& choices, Scenario& scenario) {
        check_batch(reading, choices, scenario);
    }},
    {as_rule<check_experts>, false, true},
    {as_rule<check_latents>},
    {as_rule<check_attention_chunks>},
    {as_rule<check_multi_token>},
    {as_rule<check_batch_ramp>},
    {as_rule<check_zero>, false, true},
    {as_rule<check_offload>},
    {as_rule<check_data_cache>},
    {[](Reading& reading, const LayoutChoices& /*choices*/, Scenario& scenario) {
         check_fp8(reading, scenario);
     },
     false, true},
    {as_rule<check_optimizer_states>},
    {as_rule<check_lora>},
    {as_rule<check_post_validation>},
    {as_rule<check_staleness>},
    {as_rule<check_chunks>, true},
    {as_rule<check_schedule>},
    {as_rule<check_vocabulary>},
    {as_rule<check_norms>},
    {as_rule<check_activation>},
    {as_rule<check_residuals>},
    {as_rule<check_bias_gradients>},
    {as_rule<check_context>},
    {as_rule<check_sequence>},
    {as_rule<check_sizes>},
};

}  // namespace

void check_rules(Reading& reading, const LayoutChoices& choices, Scenario& scenario) {
    for (const Row& rule : kRules)
        rule.check(reading, choices, scenario);
}

namespace {

// Where what is given stands; rules ask whether it is there, and never what it is.
Json places_of(const std::vector<std::string>& given) {
    Json root = Json::object();
    for (const std::string& pointer : given)
        if (pointer.starts_with("/training/") && pointer.find('/', 10) == std::string::npos)
            root["training"][pointer.substr(10)] = true;
    return root;
}

}  // namespace

struct RuleCheck::State {
    Reading reading;
    std::string message;
};

RuleCheck::RuleCheck(const std::vector<std::string>& given)
    : state_(std::make_unique<State>(State{Reading(Document(places_of(given), "", "")), ""})) {
    state_->reading.explains = false;
}
RuleCheck::~RuleCheck() = default;

const std::string& RuleCheck::message() const {
    return state_->message;
}

std::string RuleCheck::first_broken(Scenario& scenario, LeftToSettle left, Asked asked) {
    Reading& reading = state_->reading;
    const LayoutChoices choices{left.data_parallel, left.layers_per_stage};
    for (const Row& rule : kRules) {
        if (asked == Asked::of_stages && !rule.of_stages) continue;
        if (asked == Asked::of_zero_groups && !rule.of_zero_groups) continue;
        rule.check(reading, choices, scenario);
        if (reading.errors().empty()) continue;
        std::string code = reading.errors().front().code;
        state_->message = std::move(reading.errors().front().message);
        reading.forget_errors();
        return code;
    }
    return "";
}

}  // namespace orrery::plan
