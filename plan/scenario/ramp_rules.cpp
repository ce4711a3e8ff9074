// Rules of training.batch_ramp: every batch on the way is one that the layout can split, and the
// last increment ends at the whole batch.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

constexpr std::size_t kFewBatches = 4;

// What every batch is a multiple of, and how a message writes it.
struct Unit {
    std::int64_t sequences = 1;
    std::string text;
};

Unit unit_of(const Layout& layout) {
    Unit unit;
    unit.sequences = layout.data_parallel * layout.micro_batch_size;
    unit.text = fmt::format("data_parallel × micro_batch_size = {} × {}", layout.data_parallel,
                            layout.micro_batch_size);
    const ScheduleKind* kind = find_schedule(layout.schedule);
    // S018: its micro-batches come in rounds of a pipeline
    if (kind != nullptr && kind->micro_batches == MicroBatches::groups_of_p) {
        unit.sequences *= layout.pipeline_parallel;
        unit.text =
            fmt::format("data_parallel × micro_batch_size × pipeline_parallel = {} × {} × {}",
                        layout.data_parallel, layout.micro_batch_size, layout.pipeline_parallel);
    }
    return unit;
}

// Multiples of `unit` that divide `number`.
std::vector<std::int64_t> splits(std::int64_t number, std::int64_t unit) {
    std::vector<std::int64_t> out = divisors(number / unit, number / unit);
    for (std::int64_t& divisor : out)
        divisor *= unit;
    return out;
}

void check_start(Reading& reading, const Unit& unit, std::int64_t start, std::int64_t whole) {
    if (start % unit.sequences == 0 && start < whole) return;
    const bool above = start >= whole;
    Diagnostic& fault =
        reading.report_field("S032", "training.batch_ramp.start_batch_size",
                             above ? "a batch that grows starts below the whole batch"
                                   : "the first batch does not split into whole micro-batches on "
                                     "every data-parallel rank");
    fault.arithmetic =
        above ? fmt::format("start_batch_size = {}, layout.global_batch_size = {}", start, whole)
              : fmt::format("start_batch_size = {}, {}", start, unit.text);
    std::vector<std::int64_t> choices;
    const std::int64_t below = std::min(start, whole - 1) / unit.sequences * unit.sequences;
    for (const std::int64_t choice : {below, below + unit.sequences})
        if (choice > 0 && choice < whole) choices.push_back(choice);
    fault.help.push_back(choices.empty()
                             ? "leave batch_ramp out: no smaller batch can be split"
                             : "start_batch_size: " + choices_near(start, choices, kFewBatches));
}

// S018: the schedule needs two micro-batches for each pipeline rank from the first batch on.
void check_filled(Reading& reading, const Layout& layout, std::int64_t start) {
    const ScheduleKind* kind = find_schedule(layout.schedule);
    const std::int64_t least =
        2 * layout.pipeline_parallel * layout.data_parallel * layout.micro_batch_size;
    if (kind == nullptr || kind->micro_batches != MicroBatches::at_least_2p || start >= least)
        return;
    Diagnostic& fault = reading.report_field("S032", "training.batch_ramp.start_batch_size",
                                             "the first batch does not fill the pipeline");
    fault.arithmetic = fmt::format(
        "start_batch_size = {}, 2 × pipeline_parallel × data_parallel × micro_batch_size = "
        "2 × {} × {} × {} = {}",
        start, layout.pipeline_parallel, layout.data_parallel, layout.micro_batch_size, least);
    fault.help.push_back(fmt::format("start_batch_size of at least {}", least));
}

void check_increment(Reading& reading, const Unit& unit, const BatchRamp& ramp,
                     std::int64_t whole) {
    const std::int64_t growth = whole - ramp.start_batch_size;
    if (ramp.increment % unit.sequences == 0 && growth % ramp.increment == 0) return;
    Diagnostic& fault = reading.report_field(
        "S032", "training.batch_ramp.increment",
        "the increments do not lead from batch to batch that the layout can split");
    fault.arithmetic = fmt::format(
        "(global_batch_size - start_batch_size) / increment = ({} - {}) / {} = {}\n"
        "increment / ({}) = {} / {} = {}",
        whole, ramp.start_batch_size, ramp.increment, quotient(growth, ramp.increment),
        unit.text.substr(0, unit.text.find(" =")), ramp.increment, unit.sequences,
        quotient(ramp.increment, unit.sequences));
    fault.help.push_back("increment: " +
                         choices_near(ramp.increment, splits(growth, unit.sequences), kFewBatches));
}

}  // namespace

void check_batch_ramp(Reading& reading, const Scenario& scenario) {
    const BatchRamp& ramp = scenario.training.batch_ramp;
    const std::int64_t whole = scenario.layout.global_batch_size;
    if (!reading.good({"layout.data_parallel", "layout.micro_batch_size",
                       "layout.global_batch_size", "layout.schedule", "layout.pipeline_parallel",
                       "training.batch_ramp.start_batch_size"}) ||
        ramp.start_batch_size == 0)
        return;
    if (!scenario.layout.imported.schedule.grid.empty()) {
        reading
            .report_field("S032", "training.batch_ramp.start_batch_size",
                          "a schedule from a file runs one number of micro-batches")
            .help.push_back("leave batch_ramp out, or \"schedule\": \"1f1b\"");
        return;
    }
    const Unit unit = unit_of(scenario.layout);
    check_filled(reading, scenario.layout, ramp.start_batch_size);
    check_start(reading, unit, ramp.start_batch_size, whole);
    if (reading.good({"training.batch_ramp.start_batch_size", "training.batch_ramp.increment"}))
        check_increment(reading, unit, ramp, whole);
}

}  // namespace orrery::plan
