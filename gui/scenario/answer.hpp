// What the program says of a scenario's text: its errors, or the prediction with everything that
// `orrery simulate` and `orrery explain` print of it, by their own code.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/explain.hpp"
#include "cli/report.hpp"
#include "gui/scenario/offers.hpp"
#include "gui/timeline/timeline.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"
#include "sim/search/layout_pricer.hpp"

namespace orrery::gui {

struct ScenarioText {
    std::string text;
    std::string path;  // of its file; empty: it has none yet
    // Every rank is simulated, instead of one for all that do the same.
    bool unfolded = false;
};

// Shared between threads, and never changed once it is there.
struct Answer {
    ScenarioText asked;
    plan::ReadResult read;
    std::vector<plan::Diagnostic> errors;    // of reading, or a fault that showed in pricing
    std::vector<std::vector<Offer>> offers;  // by error: ways out that the reader accepts
    std::string failure;                     // anything else, in words
    std::unique_ptr<const sim::Profile> profile;
    std::shared_ptr<const sim::Prediction> prediction;  // null where there are errors
    std::shared_ptr<const Timeline> timeline;           // of the prediction

    bool predicted() const { return prediction != nullptr; }
};
using AnswerPtr = std::shared_ptr<const Answer>;

// What messages call the text of a scenario.
std::string name_of(const ScenarioText& scenario);

// What is said of a step before it has been simulated, where that may take seconds: as `orrery
// search` estimates it.
struct Estimate {
    AnswerPtr read;  // with what was asked and read alone
    sim::LayoutEstimate layout;
    sim::EstimateBounds bounds;
    std::shared_ptr<const Timeline> timeline;
};
using ToldEstimate = std::function<void(const Estimate&)>;

// Reads, estimates where anybody is to be told, and simulates. `stop` becomes true: throws
// sim::Stopped.
AnswerPtr answer_of(const ScenarioText& scenario, const std::atomic<bool>& stop,
                    const ToldEstimate& told = {});

// What takes longer, of an answer with a prediction: it refers to the answer, which lives on in it.
struct Reasons {
    AnswerPtr answer;
    cli::ScenarioInput arguments;
    sim::FixSearch fixes;
    std::string report;                           // the text of `orrery simulate`
    std::optional<cli::Explanation> explanation;  // whole where there is no failure
    std::string failure;                          // why there is no more
};
using ReasonsPtr = std::shared_ptr<const Reasons>;

ReasonsPtr reasons_of(const AnswerPtr& answer, const std::atomic<bool>& stop);

// The page that `orrery report` writes; without a failure.
std::string page_of(const Reasons& reasons);

}  // namespace orrery::gui
