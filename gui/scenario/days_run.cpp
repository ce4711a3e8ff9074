#include "gui/scenario/days_run.hpp"

#include <cmath>

#include "cli/run_goodput.hpp"

namespace orrery::gui {
namespace {

void predict(Days& days, const std::atomic<bool>& stop) {
    cli::ScenarioInput input;
    input.file = name_of(days.answer->asked);
    input.given = days.answer->asked.text;
    input.own_profile = cli::OwnProfile::find;
    days.assumed = cli::assumed_reliability(*days.answer->read.scenario);
    if (!days.assumed.empty()) input.sets.push_back("reliability=" + days.assumed);
    days.read = input.read_all_with({});
    if (!days.read.scenario) {
        days.failure = plan::format_text(days.read.errors);
        return;
    }
    days.without_length = sim::steps_of_run(*days.read.scenario) <= 0;
    if (days.without_length) return;
    sim::GoodputOptions options = days.options;
    options.stop = &stop;
    days.goodput = cli::run_goodput(input, *days.read.scenario, *days.answer->prediction, options);
}

}  // namespace

cli::GoodputReport Days::report() const {
    return {*read.scenario, *answer->prediction, *goodput, options, assumed, false, true};
}

DaysPtr days_of(const AnswerPtr& answer, const std::atomic<bool>& stop) {
    auto days = std::make_shared<Days>();
    days->answer = answer;
    try {
        predict(*days, stop);
    } catch (const sim::Stopped&) {
        throw;
    } catch (const std::exception& error) {
        days->failure = error.what();
    }
    return days;
}

double proposed_tokens(const sim::Prediction& prediction) {
    const double tokens = 20 * static_cast<double>(prediction.conserved.parameters);
    const double digit = std::pow(10, std::floor(std::log10(std::max(1.0, tokens))) - 1);
    return std::round(tokens / digit) * digit;
}

void DaysRun::ask(const AnswerPtr& answer) {
    asked_ = answer;
    if (is_running())
        stop();
    else
        start();
}

void DaysRun::cancel() {
    asked_ = nullptr;
    stop();
}

void DaysRun::start() {
    const auto days = std::make_shared<DaysPtr>();
    perform(
        [days, answer = asked_, this] {
            try {
                *days = days_of(answer, stopped());
            } catch (const sim::Stopped&) {  // another is asked about, or none
            }
        },
        [days, this] {
            if (!asked_) return;
            if (*days == nullptr || (*days)->answer != asked_) return start();
            asked_ = nullptr;
            Q_EMIT found(*days);
        });
}

}  // namespace orrery::gui
