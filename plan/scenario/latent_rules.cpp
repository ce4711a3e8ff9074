// Rules of latent attention: what is not computed beside it, and what is said of it without it.
#include <fmt/format.h>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {

void check_latents(Reading& reading, const Scenario& scenario) {
    if (!reading.good({"model"})) return;
    const Layout& layout = scenario.layout;
    if (!scenario.model.attention().latents.on()) {
        if (layout.recompute == Recompute::selective && layout.recompute_modules.latent_up &&
            reading.good({"layout.recompute_modules"}))
            reading
                .report_field("S034", "layout.recompute_modules",
                              "the module mla_up_proj is one of latent attention, and the model "
                              "has none")
                .help.push_back("leave it out of recompute_modules");
        return;
    }
    const auto refuse = [&](const char* field, bool is_there, const char* what, const char* help) {
        if (!is_there || !reading.good({field})) return;
        reading
            .report_field("S020", field,
                          fmt::format("{} beside latent attention: not supported yet", what))
            .help.emplace_back(help);
    };
    refuse("training.lora", scenario.training.lora.on(), "adapters", "leave lora out");
}

}  // namespace orrery::plan
