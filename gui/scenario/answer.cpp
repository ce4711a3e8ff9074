#include "gui/scenario/answer.hpp"

#include <filesystem>
#include <sstream>

#include "cli/machine_files.hpp"
#include "cli/page/page.hpp"
#include "gui/scenario/days_run.hpp"
#include "sim/cuda_graphs.hpp"
#include "trace/critical_path.hpp"

namespace orrery::gui {
namespace {

namespace fs = std::filesystem;

plan::ReadResult read_text(const ScenarioText& scenario, const std::vector<std::string>& sets) {
    const std::string folder = fs::path(scenario.path).parent_path().string();
    // Nothing is measured because someone types.
    return plan::read_scenario_text(scenario.text, name_of(scenario), folder.empty() ? "." : folder,
                                    sets, cli::library_folder(), cli::MachineFiles(nullptr));
}

// What is wrong, if anything is, the simulation says: an estimate is never in its way.
void tell_estimate(const Answer& answer, const ToldEstimate& told) {
    const plan::Scenario& scenario = *answer.read.scenario;
    std::optional<sim::EstimatedStep> estimate;
    try {
        estimate = sim::estimate_step(scenario, *answer.profile);
    } catch (const std::exception&) {
        return;
    }
    if (!estimate) return;
    auto read = std::make_shared<Answer>();
    read->asked = answer.asked;
    read->read = answer.read;
    told({std::move(read), estimate->layout, sim::estimate_bounds(scenario),
          Timeline::of_estimate(std::move(estimate->trace))});
}

void predict(Answer& answer, const std::atomic<bool>& stop, const ToldEstimate& told) {
    const plan::Scenario& scenario = *answer.read.scenario;
    answer.profile = std::make_unique<const sim::Profile>(sim::load_profiles(scenario.cluster));
    if (told) tell_estimate(answer, told);
    sim::SimulateOptions options;
    options.stop = &stop;
    options.unfolded = answer.asked.unfolded;
    auto prediction = std::make_shared<sim::Prediction>(
        sim::simulate(scenario, *answer.profile, options, answer.read.resolved_json));
    if (!prediction->stuck.empty()) {
        answer.failure = "the plan deadlocks:\n" + prediction->stuck;
        return;
    }
    answer.timeline = std::make_shared<const Timeline>(
        std::shared_ptr<const trace::Trace>(prediction, &prediction->trace));
    answer.prediction = std::move(prediction);
}

// A step that is asked for again must not run to its end where nobody waits for it any more.
auto stopping(const std::atomic<bool>& stop) {
    return [&stop] {
        if (stop.load()) throw sim::Stopped();
    };
}

}  // namespace

std::string name_of(const ScenarioText& scenario) {
    return scenario.path.empty() ? "scenario" : scenario.path;
}

AnswerPtr answer_of(const ScenarioText& scenario, const std::atomic<bool>& stop,
                    const ToldEstimate& told) {
    auto answer = std::make_shared<Answer>();
    answer->asked = scenario;
    answer->read = read_text(scenario, {});
    answer->errors = answer->read.errors;
    const auto check_stop = stopping(stop);
    if (!answer->read.scenario) {
        answer->offers = offers_for(scenario.text, name_of(scenario), answer->errors,
                                    [&](const std::string& text) {
                                        check_stop();
                                        return read_text({text, scenario.path}, {}).errors;
                                    });
        return answer;
    }
    try {
        predict(*answer, stop, told);
    } catch (const sim::Stopped&) {
        throw;
    } catch (const plan::ScenarioError& error) {
        answer->errors.push_back(error.diagnostic());
    } catch (const std::exception& error) {
        answer->failure = error.what();
    }
    return answer;
}

ReasonsPtr reasons_of(const AnswerPtr& answer, const std::atomic<bool>& stop) {
    auto reasons = std::make_shared<Reasons>();
    reasons->answer = answer;
    reasons->arguments.file = answer->asked.path;
    const plan::Scenario& scenario = *answer->read.scenario;
    const sim::Profile& profile = *answer->profile;
    const sim::Prediction& prediction = *answer->prediction;
    const auto read_with = [&](const std::vector<std::string>& changes) {
        return read_text(answer->asked, changes).scenario;
    };
    const auto check_stop = stopping(stop);
    reasons->fixes = sim::find_fixes(scenario, profile, prediction, read_with, check_stop);
    check_stop();
    const cli::ReportInput input{
        scenario,
        profile,
        prediction,
        reasons->arguments,
        answer->read.resolved_json,
        reasons->fixes,
        sim::stack_needs(scenario, answer->read.resolved_json, profile, cli::library_folder()),
        sim::unused_keys(answer->read, prediction)};
    std::ostringstream out, err;
    const cli::Console console{out, err};
    reasons->report = cli::report_text(input, console);
    check_stop();

    cli::Explanation& explanation =
        reasons->explanation.emplace(cli::Explanation{input, {}, {}, {}, {}});
    explanation.path =
        trace::critical_path(prediction.trace, sim::host_issue(scenario, profile.hardware));
    explanation.parts = trace::parts_of(prediction.trace, explanation.path);
    explanation.answers = sim::ask_what_ifs(scenario, profile, prediction, check_stop);
    check_stop();
    explanation.balanced = sim::balanced_layers(scenario, profile, prediction, read_with);
    return reasons;
}

std::string page_of(const Reasons& reasons) {
    const std::atomic<bool> never{false};
    const DaysPtr days = days_of(reasons.answer, never);
    if (!days->goodput || !days->assumed.empty())
        return cli::page_html({*reasons.explanation, nullptr});
    cli::GoodputReport run = days->report();
    run.timeline = false;  // its data is that of goodput --json
    return cli::page_html({*reasons.explanation, nullptr, &run});
}

}  // namespace orrery::gui
