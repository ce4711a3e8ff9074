#include "cli/watch/alerts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ostream>
#include <thread>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

struct AlertWord {
    const char* word;
    const char* event;  // what FollowedRun calls it; empty: it is looked at here
    bool has_percent;
    const char* when;
};

constexpr std::array<AlertWord, 9> kAlertWords = {{
    {"stall", "stall", false, "the run is silent for longer than its steps explain"},
    {"slow", "", true, "its steps take more than so many percent longer than predicted"},
    {"diverging", "diverging", false, "its loss rises"},
    {"not-finite", "not finite", false, "its loss or gradient is no number"},
    {"straggler", "straggler", false, "a rank computes slower than its peers"},
    {"restart", "restart", false, "its supervisor starts it again"},
    {"goodput", "", true, "steps that count have taken less than so many percent of the time"},
    {"error", "error", false, "it has failed"},
    {"end", "end", false, "it has ended"},
}};

const AlertWord* find_word(std::string_view word) {
    const auto found = std::find_if(kAlertWords.begin(), kAlertWords.end(),
                                    [&](const AlertWord& one) { return word == one.word; });
    return found == kAlertWords.end() ? nullptr : &*found;
}

AlertCondition condition_of(const std::string& text) {
    const std::size_t sign = text.find('=');
    AlertCondition condition{text.substr(0, sign), 0};
    const AlertWord* word = find_word(condition.word);
    if (word == nullptr)
        throw UsageError(
            fmt::format("--alert {}: no such condition; there are:\n{}", text, alert_words()));
    if (word->has_percent != (sign != std::string::npos))
        throw UsageError(word->has_percent
                             ? fmt::format("--alert {0}: how much? as {0}=10, in percent", text)
                             : fmt::format("--alert {}: {} takes no number", text, word->word));
    if (!word->has_percent) return condition;
    const char* const end = text.data() + text.size();
    const auto [at, fault] = std::from_chars(text.data() + sign + 1, end, condition.percent);
    if (fault != std::errc{} || at != end || !std::isfinite(condition.percent) ||
        condition.percent < 0)
        throw UsageError(
            fmt::format("--alert {}: a percentage is expected, as {}=10", text, word->word));
    return condition;
}

}  // namespace

std::vector<AlertCondition> alert_conditions(const std::vector<std::string>& words) {
    std::vector<AlertCondition> conditions;
    for (const std::string& word : words)
        conditions.push_back(condition_of(word));
    if (words.empty())
        for (const AlertWord& word : kAlertWords)
            if (!word.has_percent) conditions.push_back({word.word, 0});
    return conditions;
}

std::string alert_words() {
    std::string text;
    for (const AlertWord& word : kAlertWords)
        text += fmt::format("  {:<12}{}\n", std::string(word.word) + (word.has_percent ? "=N" : ""),
                            word.when);
    return text;
}

Alerts::Alerts(std::vector<AlertCondition> conditions, std::string command, std::ostream& err)
    : conditions_(std::move(conditions)), command_(std::move(command)), err_(err) {}

bool Alerts::wants(std::string_view word) const {
    return std::any_of(conditions_.begin(), conditions_.end(),
                       [&](const AlertCondition& one) { return one.word == word; });
}

std::optional<double> Alerts::percent_of(std::string_view word) const {
    for (const AlertCondition& one : conditions_)
        if (one.word == word) return one.percent;
    return std::nullopt;
}

void Alerts::look(WatchedRun& run) {
    reap();
    for (const RunNews& news : run.run.news())
        for (const AlertWord& word : kAlertWords)
            if (news.what == word.event && wants(word.word)) tell(run, word.word, news.message);
    if (const auto most = percent_of("slow"); most && run.slower())
        tell_once(run, "slow", *run.slower() > *most / 100,
                  fmt::format("steps take {}, {} longer than predicted",
                              seconds_text(*run.run.step_time_s()), percent_text(*run.slower())));
    if (const auto least = percent_of("goodput"); least && run.run.step() > 0)
        tell_once(run, "goodput", run.run.goodput() < *least / 100,
                  fmt::format("{} of the time went to steps that count",
                              percent_text(run.run.goodput())));
}

void Alerts::tell_once(WatchedRun& run, const std::string& word, bool is_so,
                       const std::string& message) {
    if (!is_so)
        run.told.erase(word);
    else if (run.told.insert(word).second)
        tell(run, word, message);
}

// What a run has said reaches the command as values of variables alone, never as part of its text.
void Alerts::tell(const WatchedRun& run, const std::string& word, const std::string& message) {
    err_ << fmt::format("orrery watch: {}: {}: {}\n", run.name, word, message) << std::flush;
    if (command_.empty()) return;
    if (hooks_.size() >= kMostAtOnce) {
        err_ << fmt::format("orrery watch: --on-alert is not run for this: {} still go on\n",
                            hooks_.size());
        return;
    }
    try {
        hooks_.push_back({ShellCommand(command_,
                                       {{"ORRERY_ALERT", word},
                                        {"ORRERY_ALERT_RUN", run.name},
                                        {"ORRERY_ALERT_MESSAGE", message},
                                        {"ORRERY_ALERT_STATE", std::string(name(run.run.state()))},
                                        {"ORRERY_ALERT_STEP", std::to_string(run.run.step())}},
                                       ShellOutput::on_stderr),
                          std::chrono::steady_clock::now() + kPatience});
    } catch (const UsageError& error) {
        err_ << "orrery watch: --on-alert " << error.what() << '\n';
    }
}

void Alerts::reap() {
    for (auto hook = hooks_.begin(); hook != hooks_.end();) {
        const auto code = hook->command.exit_code();
        const bool is_late = !code && std::chrono::steady_clock::now() > hook->until;
        if (code.value_or(0) != 0)
            err_ << fmt::format("orrery watch: --on-alert ended with {}\n", *code);
        if (is_late)
            err_ << fmt::format("orrery watch: --on-alert took longer than {} s and was ended\n",
                                kPatience.count());
        hook = code || is_late ? hooks_.erase(hook) : std::next(hook);
    }
}

void Alerts::finish() {
    while (!hooks_.empty()) {
        reap();
        if (!hooks_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

}  // namespace orrery::cli
