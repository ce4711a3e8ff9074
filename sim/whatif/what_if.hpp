// What the step would take if one thing were better: twice the bandwidth, no bubble, free
// optimizer. Each question changes the inputs of a simulation or its priced ops, and the step is
// simulated again; nothing is estimated. Answers do not add up: what one change gains another may
// have gained already. Where measured times price the step, they price what is asked, too: each op
// has the mean of its like, since what one of them took once is nobody's price in another world.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "sim/machine.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

struct WhatIf {
    std::string_view name;      // in JSON; never changes its meaning
    std::string_view sentence;  // "links between nodes twice as fast"
    // Whether the question means anything: a cluster of one node has no links between nodes.
    bool (*applies)(const plan::Scenario& scenario, const Prediction& prediction);
    // Either may be null. The plan stays as it is: it does not depend on what is changed.
    void (*change_inputs)(plan::Scenario& scenario, Profile& profile);
    void (*change_machine)(const plan::Plan& plan, const Profile& profile, Machine& machine);
};

// In the order of the output for equal gains.
const std::vector<WhatIf>& what_ifs();

// The step of `plan`, which is that of `scenario`, if `what` were so; null: as it is, which is
// simulate()'s step to the picosecond.
Picoseconds step_if(const WhatIf* what, const plan::Plan& plan, const plan::Scenario& scenario,
                    const Profile& profile, const MeasuredCosts* costs = nullptr);

struct Answer {
    const WhatIf* what = nullptr;
    double step_time_s = 0;
    double gain_s = 0;  // below 0 where the step would take longer
};

// All that apply, largest gain first. `prediction` is that of `scenario`, not stuck. `asking` is
// told of each before it is simulated. `costs`: what priced the prediction, by means
// (MeasuredCosts::price_by_means); gains are those of a step that has these prices, and are taken
// from the predicted step.
std::vector<Answer> ask_what_ifs(
    const plan::Scenario& scenario, const Profile& profile, const Prediction& prediction,
    const std::function<void()>& asking = [] {}, const MeasuredCosts* costs = nullptr);

}  // namespace orrery::sim
