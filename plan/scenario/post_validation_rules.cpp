// Rules of layout.optimizer_post_validation: there must be something to validate, by ranks that can
// go back.
#include <fmt/format.h>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr char kKey[] = "layout.optimizer_post_validation";

void refuse(Reading& reading, const char* message, std::string arithmetic, std::string help) {
    Diagnostic& fault = reading.report_field("S047", kKey, message);
    fault.arithmetic = std::move(arithmetic);
    fault.help.push_back(std::move(help));
}

}  // namespace

void check_post_validation(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const Training& training = scenario.training;
    if (!layout.optimizer_post_validation || !reading.good({kKey})) return;
    if (reading.good({"layout.pipeline_parallel"}) && layout.pipeline_parallel == 1)
        refuse(reading, "without a pipeline no stage waits for another's gradients",
               "pipeline_parallel = 1",
               "pipeline_parallel of at least 2, or optimizer_post_validation false");
    if (reading.good({"training.optimizer.clip_norm", "training.precision"}) &&
        training.optimizer.clip_norm == 0 && training.precision != Precision::fp16)
        refuse(reading, "no stage waits for another's gradients: there is nothing to validate",
               fmt::format("training.optimizer.clip_norm = 0: no global norm, precision = {}: "
                           "nothing overflows",
                           name(training.precision)),
               "optimizer_post_validation false, or a clip_norm");
    if (reading.good({"training.loss_spike"}) && training.loss_spike.skips())
        refuse(reading, "a step that is taken before its loss is judged cannot be skipped for it",
               "training.loss_spike skips steps",
               "optimizer_post_validation false, or no training.loss_spike");
    if (reading.good({"layout.offload"}) && layout.offload.any())
        refuse(reading, "what is kept off the device cannot be put back yet",
               "layout.offload keeps states or activations on another tier",
               "optimizer_post_validation false, or nothing offloaded");
}

}  // namespace orrery::plan
