#include "cli/watch/watch_report.hpp"

#include <array>
#include <cmath>
#include <ctime>
#include <functional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"

namespace orrery::cli {
namespace {

using WatchJson = nlohmann::ordered_json;

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;

// "3 h 12 min": two units of what a person waits for.
std::string duration_text(double seconds) {
    if (seconds < kMinute) return fmt::format("{:.0f} s", seconds);
    if (seconds < kHour) return fmt::format("{:.0f} min", seconds / kMinute);
    const bool in_days = seconds >= 2 * kDay;
    const double large = in_days ? kDay : kHour, small = in_days ? kHour : kMinute;
    const double parts = std::round(seconds / small);
    const double whole = std::floor(parts * small / large);
    return fmt::format("{:.0f} {} {:.0f} {}", whole, in_days ? "d" : "h",
                       parts - whole * large / small, in_days ? "h" : "min");
}

std::string moment_text(double unix_s) {
    return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

// The accounts of a run's time, by one list: name, and which.
struct RunAccountOf {
    const char* name;
    const char* words;
    double RunSeconds::*of;
};
constexpr std::array<RunAccountOf, 6> kAccounts = {{
    {"steps", "steps that count", &RunSeconds::steps},
    {"data", "waiting for data", &RunSeconds::data},
    {"skipped", "skipped steps", &RunSeconds::skipped},
    {"lost", "made again", &RunSeconds::lost},
    {"checkpoints", "checkpoints", &RunSeconds::checkpoints},
    {"other", "starting and the rest", &RunSeconds::other},
}};

std::string speed_line(const WatchedRun& watched) {
    std::string text = seconds_text(*watched.run.step_time_s());
    if (!watched.forecast) return text;
    const Forecast& forecast = *watched.forecast;
    text += fmt::format("; predicted {} ({} to {})", seconds_text(forecast.step_s),
                        seconds_text(forecast.low_s), seconds_text(forecast.high_s));
    if (const auto slower = watched.slower())
        text += fmt::format(", {} {}", percent_text(std::abs(*slower)),
                            *slower >= 0 ? "slower" : "faster");
    return text;
}

std::string goodput_line(const WatchedRun& watched) {
    const RunSeconds seconds = watched.run.seconds();
    std::string text =
        fmt::format("{} of {}", percent_text(watched.run.goodput()), duration_text(seconds.wall));
    std::string rest;
    for (const RunAccountOf& account : kAccounts) {
        const double share = seconds.*account.of / seconds.wall;
        if (account.of == &RunSeconds::steps || share < 0.001) continue;
        rest +=
            fmt::format("{}{} {}", rest.empty() ? "; " : ", ", account.words, percent_text(share));
    }
    text += rest;
    if (watched.forecast && watched.forecast->goodput)
        text += fmt::format("; predicted {}", percent_text(*watched.forecast->goodput));
    return text;
}

std::string run_text(const WatchedRun& watched, double now, const Console& console) {
    const FollowedRun& run = watched.run;
    std::string text = fmt::format("{}  {}", watched.name, name(run.state()));
    if (run.step() > 0 || run.steps())
        text += fmt::format("  step {}{}", whole_text(run.step()),
                            run.steps() ? " of " + whole_text(*run.steps()) : "");
    if (run.loss()) text += fmt::format("  loss {:.4f}", *run.loss());
    if (run.tokens_per_s())
        text += fmt::format("  {} tokens/s", whole_text(std::llround(*run.tokens_per_s())));
    if (run.mfu()) text += fmt::format("  MFU {}", percent_text(*run.mfu()));
    text = console.bold(text) + '\n';
    if (run.step_time_s()) text += labelled("step time", speed_line(watched));
    if (run.seconds().wall > 0 && run.step() > 0)
        text += labelled("goodput", goodput_line(watched));
    if (run.restarts() > 0 || run.checkpoint() > 0)
        text +=
            labelled("history",
                     fmt::format("started again {} {}, newest checkpoint {}",
                                 whole_text(run.restarts()), run.restarts() == 1 ? "time" : "times",
                                 run.checkpoint() > 0 ? "of step " + whole_text(run.checkpoint())
                                                      : std::string("none")));
    if (const auto rest = run.rest(); rest && !run.over() && run.state() != RunState::stalled)
        text +=
            labelled("left", fmt::format("{} ({} to {}), until {}", duration_text(rest->seconds),
                                         duration_text(rest->low_s), duration_text(rest->high_s),
                                         moment_text(now + rest->seconds)));
    for (const auto& [what, message] : run.ailments())
        text += labelled("wrong", what + (message.empty() ? "" : ": " + message));
    if (!run.message().empty()) text += labelled("said", run.message());
    if (const std::string problem = watched.source->problem(); !problem.empty())
        text += labelled("not read", problem);
    if (const std::int64_t unread = run.unread() + watched.source->dropped(); unread > 0)
        text +=
            labelled("not read", fmt::format("{} lines that are no events", whole_text(unread)));
    return text;
}

WatchJson optional(const std::optional<double>& value) {
    return value ? WatchJson(*value) : WatchJson(nullptr);
}

WatchJson run_json(const WatchedRun& watched, double now) {
    const FollowedRun& run = watched.run;
    const RunSeconds seconds = run.seconds();
    WatchJson json{{"run", watched.name},
                   {"state", name(run.state())},
                   {"over", run.over()},
                   {"step", run.step()},
                   {"steps", run.steps() ? WatchJson(*run.steps()) : WatchJson(nullptr)},
                   {"loss", optional(run.loss())},
                   {"tokens_per_s", optional(run.tokens_per_s())},
                   {"mfu", optional(run.mfu())},
                   {"step_time_s", optional(run.step_time_s())},
                   {"predicted", nullptr},
                   {"slower", optional(watched.slower())},
                   {"goodput", run.goodput()},
                   {"wall_s", seconds.wall}};
    if (watched.forecast)
        json["predicted"] = {{"step_time_s", watched.forecast->step_s},
                             {"interval_s", {watched.forecast->low_s, watched.forecast->high_s}},
                             {"goodput", optional(watched.forecast->goodput)}};
    for (const RunAccountOf& account : kAccounts)
        json["breakdown_s"][account.name] = seconds.*account.of;
    json["restarts"] = run.restarts();
    json["checkpoint"] = run.checkpoint();
    json["left"] = nullptr;
    if (const auto rest = run.rest(); rest && !run.over())
        json["left"] = {{"seconds", rest->seconds},
                        {"interval_s", {rest->low_s, rest->high_s}},
                        {"until_unix_s", now + rest->seconds}};
    json["ailments"] = WatchJson::array();
    for (const auto& [what, message] : run.ailments())
        json["ailments"].push_back({{"ailment", what}, {"message", message}});
    json["message"] = run.message();
    json["unread_lines"] = run.unread() + watched.source->dropped();
    json["problem"] = watched.source->problem();
    return json;
}

std::string label_text(const std::string& value) {
    std::string text;
    for (const char each : value) {
        if (each == '\\' || each == '"') text += '\\';
        text += each == '\n' ? std::string("\\n") : std::string(1, each);
    }
    return text;
}

// One family of metrics with its samples.
class MetricFamily {
  public:
    MetricFamily(std::string& text, std::string name, const char* type, const char* unit,
                 const char* help)
        : text_(text), name_("orrery_run_" + std::move(name)), is_counter_(type[0] == 'c') {
        text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
        if (unit[0] != 0) text_ += fmt::format("# UNIT {} {}\n", name_, unit);
    }
    void add(const WatchedRun& run, double value, const std::string& labels = "") {
        text_ += fmt::format("{}{}{{run=\"{}\"{}}} {}\n", name_, is_counter_ ? "_total" : "",
                             label_text(run.name), labels, value);
    }

  private:
    std::string& text_;
    std::string name_;
    bool is_counter_;
};

using Measure = std::function<std::optional<double>(const WatchedRun&)>;
struct Gauge {
    const char* name;
    const char* unit;
    const char* help;
    Measure of;
};

std::optional<double> number_of(const std::optional<std::int64_t>& whole) {
    return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

const std::vector<Gauge>& gauges() {
    static const std::vector<Gauge> all = {
        {"step", "", "Newest step that counts.",
         [](const WatchedRun& of) { return static_cast<double>(of.run.step()); }},
        {"steps", "", "Steps of the whole run.",
         [](const WatchedRun& of) { return number_of(of.run.steps()); }},
        {"loss", "", "Loss of the newest step.",
         [](const WatchedRun& of) { return of.run.loss(); }},
        {"tokens_per_second", "", "Tokens of the newest step over its time.",
         [](const WatchedRun& of) { return of.run.tokens_per_s(); }},
        {"mfu_ratio", "ratio", "Model FLOP utilisation of the newest step.",
         [](const WatchedRun& of) { return of.run.mfu(); }},
        {"step_time_seconds", "seconds", "Median of the newest steps.",
         [](const WatchedRun& of) { return of.run.step_time_s(); }},
        {"predicted_step_time_seconds", "seconds", "What the simulator says of a step.",
         [](const WatchedRun& of) {
             return of.forecast ? std::optional(of.forecast->step_s) : std::nullopt;
         }},
        {"goodput_ratio", "ratio", "Time in steps that count over the time since the run began.",
         [](const WatchedRun& of) { return of.run.goodput(); }},
        {"left_seconds", "seconds", "Until all steps are made, as expected.",
         [](const WatchedRun& of) {
             const auto rest = of.run.rest();
             return rest && !of.run.over() ? std::optional(rest->seconds) : std::nullopt;
         }},
        {"checkpoint_step", "", "Step of the newest checkpoint.",
         [](const WatchedRun& of) { return static_cast<double>(of.run.checkpoint()); }},
        {"heard_timestamp_seconds", "seconds", "When the run last said something.",
         [](const WatchedRun& of) { return of.run.heard_s(); }},
    };
    return all;
}

constexpr std::array kStates = {RunState::waiting,     RunState::starting,   RunState::running,
                                RunState::stalled,     RunState::restarting, RunState::ended,
                                RunState::interrupted, RunState::failed};

}  // namespace

std::string watch_text(const std::vector<WatchedRun>& runs, double now, const Console& console) {
    std::string text;
    for (const WatchedRun& run : runs)
        text += run_text(run, now, console);
    return text;
}

std::string watch_json(const std::vector<WatchedRun>& runs, double now) {
    WatchJson json{{"unix_s", now}, {"runs", WatchJson::array()}};
    for (const WatchedRun& run : runs)
        json["runs"].push_back(run_json(run, now));
    return json.dump(-1, ' ', false, WatchJson::error_handler_t::replace) + '\n';
}

std::string watch_metrics(const std::vector<WatchedRun>& runs) {
    std::string text;
    for (const Gauge& gauge : gauges()) {
        MetricFamily family(text, gauge.name, "gauge", gauge.unit, gauge.help);
        for (const WatchedRun& run : runs)
            if (const auto value = gauge.of(run); value && std::isfinite(*value))
                family.add(run, *value);
    }
    MetricFamily state(text, "state", "gauge", "", "1 for the state that the run is in.");
    for (const WatchedRun& run : runs)
        for (const RunState each : kStates)
            state.add(run, run.run.state() == each ? 1 : 0,
                      fmt::format(",state=\"{}\"", name(each)));
    MetricFamily account(text, "account_seconds", "gauge", "seconds",
                         "Where the time since the run began went.");
    for (const WatchedRun& run : runs)
        for (const RunAccountOf& each : kAccounts)
            account.add(run, run.run.seconds().*each.of, fmt::format(",account=\"{}\"", each.name));
    MetricFamily restarts(text, "restarts", "counter", "", "Times that it was started again.");
    for (const WatchedRun& run : runs)
        restarts.add(run, static_cast<double>(run.run.restarts()));
    MetricFamily ailing(text, "ailing", "gauge", "", "1 for each thing that is wrong now.");
    for (const WatchedRun& run : runs)
        for (const auto& [what, message] : run.run.ailments())
            ailing.add(run, 1, fmt::format(",ailment=\"{}\"", label_text(what)));
    return text + "# EOF\n";
}

}  // namespace orrery::cli
