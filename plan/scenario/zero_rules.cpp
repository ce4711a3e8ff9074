// Rules of ZeRO: who shares out states, and what stays gathered.
#include <fmt/format.h>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr std::size_t kFewStages = 2;

void check_group(Reading& reading, const Layout& layout) {
    if (!reading.good({"layout.zero_group_size", "layout.zero_stage", "layout.data_parallel",
                       "layout.context_parallel"}) ||
        layout.zero_group_size == 0)
        return;
    const std::int64_t group = layout.zero_group_size;
    const std::int64_t all = layout.data_ranks();
    const auto report = [&](const char* message) -> Diagnostic& {
        return reading.report_field("S027", "layout.zero_group_size", message);
    };
    if (layout.zero_stage == 0) {
        Diagnostic& fault = report("zero_group_size has nothing to shard");
        fault.arithmetic = "zero_stage = 0: every rank holds all states of its parameters";
        fault.help.push_back("zero_stage 1, 2 or 3, or zero_group_size \"all\"");
        return;
    }
    if (all % group == 0) return;
    Diagnostic& fault =
        report(group > all ? "zero_group_size is larger than the group of data-parallel ranks"
                           : "zero_group_size does not divide the data-parallel ranks");
    fault.arithmetic = fmt::format("data_parallel × context_parallel = {} × {} = {} ranks",
                                   layout.data_parallel, layout.context_parallel, all);
    if (group < all)
        fault.arithmetic += fmt::format("\n{} / zero_group_size = {} / {} = {} groups", all, all,
                                        group, quotient(all, group));
    fault.help.push_back("zero_group_size: " + choices_near(group, divisors(all, all), kFewStages) +
                         ", or \"all\"");
}

}  // namespace

void check_zero(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    check_group(reading, layout);
    if (!reading.good({"layout.reshard_after_forward", "layout.zero_stage"}) ||
        layout.reshard_after_forward || layout.zero_stage == 3)
        return;
    Diagnostic& fault =
        reading.report_field("S027", "layout.reshard_after_forward",
                             "parameters that are not sharded have nothing to keep after forward");
    fault.arithmetic =
        fmt::format("zero_stage = {}: every rank holds its parameters whole", layout.zero_stage);
    fault.help.push_back("zero_stage 3, or reshard_after_forward true");
}

}  // namespace orrery::plan
