// What a step is predicted to take follows from what its ops say: labels change nothing, nor do
// names of tensors change a price; sizes and windows do.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/cost/kernel_cost.hpp"
#include "sim/machine.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/h100-sxm.json");
    return loaded;
}

std::string random_name() {
    return *rc::gen::container<std::string>(8, rc::gen::inRange('a', 'z'));
}

// Prices of all ops, then begin and end of the step.
std::vector<Picoseconds> times_of(const plan::Plan& plan, const plan::Scenario& scenario) {
    const Machine machine = build_machine(plan, scenario, profile(), false);
    std::vector<Picoseconds> times;
    for (const auto& table : machine.tables)
        times.insert(times.end(), table->durations.begin(), table->durations.end());
    const StepWindow window = step_window(machine, run_engine(machine.input));
    times.push_back(window.start);
    times.push_back(window.end);
    return times;
}

RC_GTEST_PROP(ClosedPlan, LabelsTakeNoTime, ()) {
    const plan::Scenario scenario = theory::scenario(random_sets());
    plan::Plan plan = plan::build_plan(scenario);
    const std::vector<Picoseconds> expected = times_of(plan, scenario);
    for (plan::Block& block : plan.blocks)
        for (plan::Op& op : block.ops)
            op.label = random_name();
    RC_ASSERT(times_of(plan, scenario) == expected);
}

// Neither of ops and tensors nor of what a program is made of: where a tensor lies its slot says.
RC_GTEST_PROP(ClosedPlan, NamesTakeNoTime, ()) {
    const plan::Scenario scenario = theory::scenario(random_sets());
    plan::Plan plan = plan::build_plan(scenario);
    const std::vector<Picoseconds> expected = times_of(plan, scenario);
    for (plan::Block& block : plan.blocks) {
        block.name = random_name();
        for (plan::Tensor& tensor : block.tensors)
            tensor.name = random_name();
        for (plan::Op& op : block.ops)
            op.label = random_name();
    }
    for (plan::Program& program : plan.programs) {
        for (plan::Procedure& procedure : program.procedures)
            procedure.name = random_name();
        for (plan::Resident& resident : program.residents)
            resident.name = random_name();
    }
    RC_ASSERT(times_of(plan, scenario) == expected);
}

RC_GTEST_PROP(ClosedPlan, NamesOfTensorsCostNothing, ()) {
    const plan::Scenario scenario = theory::scenario(random_sets());
    const KernelCost cost(profile(), scenario.training.framework, 8);
    const plan::Plan plan = plan::build_plan(scenario);
    for (const plan::Block& block : plan.blocks) {
        plan::Block scrambled = block;
        for (plan::Tensor& tensor : scrambled.tensors)
            tensor.name = random_name();
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const plan::OpKind kind = block.ops[i].kind();
            if (plan::is_communication(kind) || plan::is_copy(kind)) continue;
            const Price named = cost.price(block, block.ops[i]);
            const Price price = cost.price(scrambled, scrambled.ops[i]);
            RC_ASSERT(named.seconds == price.seconds);
            RC_ASSERT(named.relative_sd == price.relative_sd);
        }
    }
}

// Fewer keys, less time: what is priced is the op's window, not the model's.
TEST(ClosedPlan, AttentionCostsWhatItsOpSays) {
    const plan::Scenario scenario = theory::scenario({});
    plan::Plan plan = plan::build_plan(scenario);
    const std::vector<Picoseconds> whole = times_of(plan, scenario);
    for (plan::Block& block : plan.blocks)
        for (plan::Op& op : block.ops)
            if (op.is<plan::Attention>()) op.as<plan::Attention>().window = 1;
    EXPECT_LT(times_of(plan, scenario).back(), whole.back());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
