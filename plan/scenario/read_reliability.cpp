// The keys of a run that are for when something fails.
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr double kMostHours = 1e9;
constexpr double kMostSeconds = 1e6;

// A number of steps, or "auto".
void read_interval(Reading& reading, Section& checkpoint, Run& run) {
    const Json* value = checkpoint.find("every_steps");
    const bool measured = value != nullptr && *value == "auto";
    if (measured) {
        checkpoint.known("every_steps");
    } else if (value == nullptr || value->is_number()) {
        checkpoint.integer("every_steps", run.checkpoint_every_steps, {}, Presence::required);
    } else {
        checkpoint.known("every_steps");
        checkpoint.wrong_type("every_steps", "a whole number or \"auto\"");
    }
    if (!checkpoint.number("mean_time_between_failures_h", run.mean_time_between_failures_h,
                           {0, kMostHours, true, false}) ||
        measured || !reading.good_at(checkpoint.pointer("every_steps")))
        return;
    reading
        .report("S070", checkpoint.pointer("mean_time_between_failures_h"),
                "a mean time between failures decides nothing where the interval is given")
        .help.push_back("\"every_steps\": \"auto\", or leave this key out");
}

void read_checkpoint(Reading& reading, Run& run) {
    Section checkpoint(reading, "/run/checkpoint", "run.checkpoint");
    checkpoint.text("path", run.checkpoint_path, Presence::required);
    read_interval(reading, checkpoint, run);
    checkpoint.integer("keep", run.checkpoint_keep, {1, 1'000'000});
    checkpoint.finish();
}

void read_health(Reading& reading, Health& health) {
    Section section(reading, "/run/health", "run.health");
    section.number("diverging_above", health.diverging_above, {1, kLargestNumber, true, false});
    section.integer("diverging_window", health.diverging_window, {1, 1'000'000});
    section.number("stalled_after_s", health.stalled_after_s, {0, kMostSeconds, true, false});
    section.number("starts_within_s", health.starts_within_s, {0, kMostSeconds, true, false});
    section.finish();
}

}  // namespace

void read_reliability(Reading& reading, Section& keys, Run& run) {
    keys.integer("verify_replicas_every_steps", run.verify_replicas_every_steps,
                 {0, kLargestCount});
    keys.known("checkpoint");
    keys.known("health");
    read_checkpoint(reading, run);
    read_health(reading, run.health);
}

}  // namespace orrery::plan
