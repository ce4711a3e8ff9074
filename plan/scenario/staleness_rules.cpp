// Rules of layout.data_parallel_mode "parameter_server": states have owners, and nothing that a
// step needs is settled by steps that have not ended.
#include <fmt/format.h>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr char kMode[] = "layout.data_parallel_mode";
constexpr char kStaleness[] = "layout.staleness";

void check_owners(Reading& reading, const Layout& layout) {
    if (!reading.good({"layout.zero_stage"}) || layout.zero_stage == 1) return;
    Diagnostic& fault = reading.report_field(
        "S048", kMode,
        layout.zero_stage == 0
            ? "a server steps its own share of the states: they must be shared out"
            : "gradients that every micro-batch sums over all ranks let no rank run ahead");
    fault.arithmetic = fmt::format("zero_stage = {}", layout.zero_stage);
    fault.help.push_back("zero_stage 1, or data_parallel_mode \"synchronous\"");
}

}  // namespace

void check_staleness(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const Training& training = scenario.training;
    if (!reading.good({kMode}) || layout.data_parallel_mode == DataParallelMode::synchronous)
        return;
    check_owners(reading, layout);
    if (!reading.good({kStaleness}) || layout.staleness == 0) return;
    const auto refuse = [&](const char* message, std::string arithmetic, const char* instead) {
        Diagnostic& fault = reading.report_field("S048", kStaleness, message);
        fault.arithmetic = std::move(arithmetic);
        fault.help.push_back(std::string("staleness 0, or ") + instead);
    };
    if (reading.good({"training.precision"}) && training.precision == Precision::fp16)
        refuse("a step begins before it is known whether those before it have overflowed",
               "training.precision = fp16: the loss scale follows from them", "precision bf16");
    if (reading.good({"training.loss_spike"}) && training.loss_spike.skips())
        refuse("a step begins before it is known whether those before it count",
               "training.loss_spike holds its loss against theirs", "no training.loss_spike");
    if (reading.good({"training.fp8_recipe"}) && training.fp8.recipe == Fp8Recipe::delayed)
        refuse("a step begins before the largest magnitudes of those before it are agreed on",
               "training.fp8_recipe = delayed: its scales follow from them",
               "a recipe that scales by what it has");
    if (reading.good({"training.fp8_param_gather"}) && training.fp8.parameters)
        refuse(
            "parameters of eight bits have one copy with scales, and steps under way need theirs",
            "training.fp8_param_gather = true", "fp8_param_gather false");
    if (reading.good({"layout.optimizer_post_validation"}) && layout.optimizer_post_validation)
        refuse("a step that others have gone past cannot be taken back",
               "optimizer_post_validation = true", "optimizer_post_validation false");
    if (reading.good({"run.checkpoint"}) && !scenario.run.checkpoint_path.empty() &&
        scenario.run.checkpoint_every_steps == 0)
        refuse("how far apart checkpoints should be is not measured while steps are under way",
               "run.checkpoint.every_steps = \"auto\"", "a number of steps");
    if (reading.good({"layout.offload"}) && layout.offload.any())
        refuse("what is kept off the device has one copy, and steps under way need theirs",
               "layout.offload keeps states or activations on another tier", "nothing offloaded");
}

}  // namespace orrery::plan
