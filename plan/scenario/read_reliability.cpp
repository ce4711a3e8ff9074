// The keys of a run that are for when something fails.
#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr double kMostHours = 1e9;
constexpr NumberRange kSeconds = {0, 1e6, true, false};

void read_checkpoint(Reading& reading, Run& run) {
    const std::string pointer = "/run/checkpoint";
    if (!read_object(reading, pointer, "run.checkpoint", checkpoint_keys(), run)) return;
    const std::string failures = pointer + "/mean_time_between_failures_h";
    if (run.mean_time_between_failures_h == 0 || run.checkpoint_every_steps == 0 ||
        !reading.good_at(failures) || !reading.good_at(pointer + "/every_steps"))
        return;
    reading
        .report("S070", failures,
                "a mean time between failures decides nothing where the interval is given")
        .help.push_back("\"every_steps\": \"auto\", or leave this key out");
}

}  // namespace

const Keys<Run>& checkpoint_keys() {
    static const Keys<Run> keys = {
        text<&Run::checkpoint_path>("path", "Folder of the checkpoints").required(),
        count<&Run::checkpoint_every_steps>(
            "every_steps",
            "Between two checkpoints; \"auto\": by what saving costs and how often runs fail")
            .in("steps")
            .or_word("auto")
            .required(),
        count<&Run::checkpoint_keep>("keep", "Newest ones that stay; all unless given",
                                     {1, 1'000'000})
            .unset()
            .written_if([](const Run& from) { return from.checkpoint_keep > 0; }),
        number<&Run::mean_time_between_failures_h>(
            "mean_time_between_failures_h",
            "Of the whole run; by the number of its ranks unless given",
            {0, kMostHours, true, false})
            .in("h")
            .unset()
            .where("with \"every_steps\": \"auto\"")
            .written_if([](const Run& from) { return from.mean_time_between_failures_h > 0; }),
    };
    return keys;
}

const Keys<Health>& health_keys() {
    static const Keys<Health> keys = {
        number<&Health::diverging_above>(
            "diverging_above",
            "Mean loss of some steps over the least mean of as many before, from which on it "
            "diverges",
            kAboveOne),
        count<&Health::diverging_window>("diverging_window", "Steps that those means are of",
                                         {1, 1'000'000})
            .in("steps"),
        number<&Health::stalled_after_s>(
            "stalled_after_s", "The least time without a step that counts as a stall", kSeconds)
            .in("s"),
        number<&Health::starts_within_s>("starts_within_s", "The same, to the first step", kSeconds)
            .in("s"),
    };
    return keys;
}

void read_reliability(Reading& reading, Run& run) {
    read_checkpoint(reading, run);
    read_object(reading, "/run/health", "run.health", health_keys(), run.health);
}

}  // namespace orrery::plan
