// The whole run: days, what is paid for, energy.
#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"

namespace orrery::cli {
namespace {

// "2.00 USD per GPU-hour", and of a price list which one.
std::string price_text(const plan::Cluster& cluster, const char* device) {
    return fmt::format(
        "{:.2f} USD per {}-hour{}",
        cluster.usd_per_hour(cluster.devices()) / static_cast<double>(cluster.devices()), device,
        cluster.other_nodes.empty() ? "" : " in the mean");
}

// What is rented is the cluster as the scenario has it; of a part of it the nodes are whole.
std::string cost_text(const ReportInput& input) {
    const sim::RunPrediction& run = input.prediction.run;
    const plan::Cluster& cluster = input.scenario.cluster;
    if (!run.cost_usd)
        return "unknown: the cluster has no price_usd_per_gpu_hour, and no list has its device";
    std::string text = fmt::format("{} USD at {}", counted_text(*run.cost_usd),
                                   price_text(cluster, input.device_word()));
    if (run.idle_gpus == 0) return text;
    text += fmt::format(" for all {} {}s of the cluster, idle ones too",
                        whole_text(cluster.devices()), input.device_word());
    if (*run.cost_nodes_used_usd < *run.cost_usd)
        text += fmt::format(
            "; {} USD for the {} nodes in use alone", counted_text(*run.cost_nodes_used_usd),
            whole_text((run.gpus + cluster.devices_per_node - 1) / cluster.devices_per_node));
    return text;
}

// Where nobody gave a price: whose it is, of which day, and how far lists differ.
std::string list_text(const ReportInput& input) {
    const std::optional<plan::ListPrice>& list = input.scenario.cluster.list_price;
    const bool alike = input.scenario.cluster.other_nodes.empty();
    if (!list || !input.prediction.run.cost_usd || !alike) return "";
    std::string range;
    if (list->low_usd < list->high_usd) {
        const double per_usd = *input.prediction.run.cost_usd / list->usd;
        range = fmt::format("; lists go from {:.2f} to {:.2f}, the run from {} to {} USD",
                            list->low_usd, list->high_usd, counted_text(list->low_usd * per_usd),
                            counted_text(list->high_usd * per_usd));
    }
    return labelled("",
                    fmt::format("price assumed: {:.2f} USD per {}-hour, {}: {}{}; your own: "
                                "--set cluster.price_usd_per_gpu_hour=N",
                                list->usd, input.device_word(), list->date, list->source, range));
}

std::string energy_text(const ReportInput& input) {
    const sim::RunPrediction& run = input.prediction.run;
    const plan::Cluster& cluster = input.scenario.cluster;
    if (!run.energy_mwh) return "unknown: the cluster has no power_w_per_gpu";
    return fmt::format(
        "{} MWh at {} W per {}{}, PUE {}", digits_text(*run.energy_mwh),
        digits_text(cluster.site_power_w(run.gpus) / cluster.pue / static_cast<double>(run.gpus)),
        input.device_word(), run.idle_gpus > 0 ? " in use" : "", cluster.pue);
}

}  // namespace

std::string run_text(const ReportInput& input, const Console& console) {
    const sim::RunPrediction& run = input.prediction.run;
    const sim::StepPrediction& step = input.prediction.step;
    if (!run.days)
        return heading("the run", console) +
               labelled("", "unknown: the scenario has no training.tokens");
    const bool short_run = *run.days < 1;
    const double time = short_run ? *run.days * 24 : *run.days;
    return heading(fmt::format("the run of {} tokens, without failures and checkpoints",
                               counted_text(input.scenario.training.tokens)),
                   console) +
           labelled("time", fmt::format("{} {} ({} to {}), {} {}-hours", digits_text(time),
                                        short_run ? "hours" : "days",
                                        digits_text(time * step.low_s / step.time_s),
                                        digits_text(time * step.high_s / step.time_s),
                                        counted_text(*run.gpu_hours), input.device_word())) +
           labelled("cost", cost_text(input)) + list_text(input) +
           labelled("energy", energy_text(input));
}

}  // namespace orrery::cli
