#include "gui/scenario/comparison_run.hpp"

#include "gui/scenario/comparison.hpp"

namespace orrery::gui {
namespace {

std::string text_of(const TwoSteps& steps, const trace::Alignment& alignment) {
    if (steps.answer) return comparison_text(*steps.held, *steps.answer, alignment);
    const trace::Trace& shown = steps.shown->trace();
    if (shown.origin == trace::Origin::measured)
        return comparison_text(*steps.held, shown, steps.file);
    return {};
}

}  // namespace

void ComparisonRun::ask(TwoSteps steps) {
    asked_ = std::make_shared<const TwoSteps>(std::move(steps));
    if (is_running())
        stop();
    else
        start();
}

void ComparisonRun::cancel() {
    asked_ = nullptr;
    stop();
}

void ComparisonRun::start() {
    const auto aligned = std::make_shared<AlignedSteps>();
    perform(
        [aligned, asked = asked_, this] {
            try {
                aligned->alignment = std::make_shared<const trace::Alignment>(
                    asked->held->timeline->trace(), asked->shown->trace(), &stopped());
                if (stopped()) return;  // others are asked about, or none
                aligned->text = text_of(*asked, *aligned->alignment);
            } catch (const std::exception& error) {
                aligned->text = error.what();
            }
            aligned->steps = asked;
        },
        [aligned, this] {
            if (!asked_) return;
            if (aligned->steps != asked_) return start();
            asked_ = nullptr;
            Q_EMIT compared(*aligned);
        });
}

}  // namespace orrery::gui
