#include "sim/whatif/what_if.hpp"

#include <algorithm>

#include "plan/assemble/build_plan.hpp"
#include "plan/check.hpp"
#include "sim/whatif/machine_changes.hpp"

namespace orrery::sim {
namespace {

using trace::Account;

bool between_nodes(const plan::Scenario& scenario, const Prediction& /*prediction*/) {
    return scenario.cluster.inter_node.kind != plan::InterNodeKind::none &&
           scenario.layout.ranks() > scenario.cluster.devices_per_node;
}

bool within_nodes(const plan::Scenario& scenario, const Prediction& /*prediction*/) {
    return scenario.cluster.devices_per_node > 1 && scenario.layout.ranks() > 1;
}

bool always(const plan::Scenario& /*scenario*/, const Prediction& /*prediction*/) {
    return true;
}

bool with_pipeline(const plan::Scenario& scenario, const Prediction& /*prediction*/) {
    return scenario.layout.pipeline_parallel > 1;
}

bool with_recomputation(const plan::Scenario& scenario, const Prediction& /*prediction*/) {
    return scenario.layout.recompute != plan::Recompute::none;
}

template <Account account>
bool communicates(const plan::Scenario& /*scenario*/, const Prediction& prediction) {
    return prediction.communication[static_cast<std::size_t>(account)].busy_s > 0;
}

bool communicates_at_all(const plan::Scenario& /*scenario*/, const Prediction& prediction) {
    return std::any_of(prediction.communication.begin(), prediction.communication.end(),
                       [](const trace::CommunicationSums& sums) { return sums.busy_s > 0; });
}

void faster_between_nodes(plan::Scenario& scenario, Profile& /*profile*/) {
    scenario.cluster.inter_node.bandwidth_Gbps *= 2;
    for (plan::Cluster& others : scenario.cluster.other_nodes)
        others.inter_node.bandwidth_Gbps *= 2;
}

void faster_within_nodes(plan::Scenario& scenario, Profile& /*profile*/) {
    scenario.cluster.intra_node.bandwidth_GBps *= 2;
    for (plan::Cluster& others : scenario.cluster.other_nodes)
        others.intra_node.bandwidth_GBps *= 2;
}

void faster_links(plan::Scenario& scenario, Profile& profile) {
    faster_between_nodes(scenario, profile);
    faster_within_nodes(scenario, profile);
}

// What was measured has the slow-down, and what devices differ by, in it.
bool slows_compute(const plan::Scenario& scenario, const Prediction& prediction) {
    return !prediction.prices && communicates_at_all(scenario, prediction);
}

void instant_host(plan::Scenario& scenario, Profile& /*profile*/) {
    scenario.training.framework.launch_us = 0;
}

void undisturbed_compute(plan::Scenario& /*scenario*/, Profile& profile) {
    profile.overlap.compute_slowdown.value = 1;
    for (Profile& others : profile.others)
        others.overlap.compute_slowdown.value = 1;
}

bool uneven(const plan::Scenario& scenario, const Prediction& prediction) {
    return !prediction.prices && !scenario.cluster.even();
}

void even_devices(plan::Scenario& scenario, Profile& /*profile*/) {
    scenario.cluster = scenario.cluster.made_even();
}

bool skewed(const plan::Scenario& /*scenario*/, const Prediction& prediction) {
    return prediction.step.routing.has_value();
}

void even_routing(plan::Scenario& scenario, Profile& /*profile*/) {
    scenario.training.routing.distribution = plan::ExpertLoad::uniform;
}

template <Account account>
void free_communication_of(const plan::Plan& plan, const Profile& /*profile*/, Machine& machine) {
    free_communication(plan, machine, account);
}

}  // namespace

const std::vector<WhatIf>& what_ifs() {
    static const std::vector<WhatIf> all = {
        {"inter_node_bandwidth_x2", "links between nodes carry twice as much", between_nodes,
         faster_between_nodes, nullptr},
        {"intra_node_bandwidth_x2", "links within a node carry twice as much", within_nodes,
         faster_within_nodes, nullptr},
        {"all_bandwidth_x2", "all links carry twice as much",
         [](const plan::Scenario& scenario, const Prediction& prediction) {
             return between_nodes(scenario, prediction) && within_nodes(scenario, prediction);
         },
         faster_links, nullptr},
        {"no_bubble", "pipeline ranks never wait for each other", with_pipeline, nullptr,
         never_wait_for_peers},
        {"balanced_stages", "every chunk of layers takes as long as their mean", with_pipeline,
         nullptr, balance_stages},
        {"balanced_routing", "as many rows come to the experts of every rank", skewed, even_routing,
         nullptr},
        {"no_launch_time", "the host issues every op at once", always, instant_host, issue_at_once},
        {"compute_x2", "every kernel takes half as long", always, nullptr, halve_compute},
        {"gemm_at_peak", "every matrix product runs at the datasheet's peak", always, nullptr,
         multiply_at_peak},
        {"free_recompute", "what is computed again takes no time", with_recomputation, nullptr,
         free_recomputation},
        {"free_optimizer", "the optimizer takes no time", always, nullptr, free_optimizer},
        {"free_tensor_communication", "tensor communication takes no time",
         communicates<Account::exposed_tensor>, nullptr,
         free_communication_of<Account::exposed_tensor>},
        {"free_context_communication", "context communication takes no time",
         communicates<Account::exposed_context>, nullptr,
         free_communication_of<Account::exposed_context>},
        {"free_expert_communication", "expert communication takes no time",
         communicates<Account::exposed_expert>, nullptr,
         free_communication_of<Account::exposed_expert>},
        {"free_data_communication", "data communication takes no time",
         communicates<Account::exposed_data>, nullptr,
         free_communication_of<Account::exposed_data>},
        {"free_pipeline_communication", "pipeline transfers take no time",
         communicates<Account::exposed_pipeline>, nullptr,
         free_communication_of<Account::exposed_pipeline>},
        {"even_devices", "every device is as fast as the profile says, every time", uneven,
         even_devices, nullptr},
        {"no_slowdown", "communication does not slow the kernels beside it", slows_compute,
         undisturbed_compute, nullptr},
    };
    return all;
}

Picoseconds step_if(const WhatIf* what, const plan::Plan& plan, const plan::Scenario& scenario,
                    const Profile& profile, const MeasuredCosts* costs) {
    plan::Scenario changed_scenario = scenario;
    Profile changed_profile = profile;
    if (what != nullptr && what->change_inputs != nullptr)
        what->change_inputs(changed_scenario, changed_profile);
    Machine machine = build_machine(plan, changed_scenario, changed_profile, false, costs);
    if (what != nullptr && what->change_machine != nullptr)
        what->change_machine(plan, changed_profile, machine);
    const EngineResult result = run_engine(machine.input);
    ORRERY_CHECK(result.stuck.empty(), "a what-if has made the plan deadlock");
    const StepWindow window = step_window(machine, result);
    return window.end - window.start;
}

std::vector<Answer> ask_what_ifs(const plan::Scenario& scenario, const Profile& profile,
                                 const Prediction& prediction, const std::function<void()>& asking,
                                 const MeasuredCosts* costs) {
    const plan::Plan plan = plan::build_plan(scenario);
    const Picoseconds step = prediction.trace.step_end - prediction.trace.step_start;
    const Picoseconds now =
        costs == nullptr ? step : step_if(nullptr, plan, scenario, profile, costs);
    std::vector<Answer> answers;
    for (const WhatIf& what : what_ifs()) {
        if (!what.applies(scenario, prediction)) continue;
        asking();
        const Picoseconds gain = now - step_if(&what, plan, scenario, profile, costs);
        answers.push_back({&what, to_seconds(step - gain), to_seconds(gain)});
    }
    std::stable_sort(answers.begin(), answers.end(),
                     [](const Answer& a, const Answer& b) { return a.gain_s > b.gain_s; });
    return answers;
}

}  // namespace orrery::sim
