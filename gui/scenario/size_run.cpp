#include "gui/scenario/size_run.hpp"

namespace orrery::gui {

void SizeRun::start(const ScenarioText& scenario, const cli::SizeQuestion& question) {
    auto found = std::make_shared<SizeFound>();
    found->input.file = name_of(scenario);
    found->input.given = scenario.text;
    found->question = question;
    sim::SearchOptions options;
    options.stop = &stopped();
    options.progress = [this](double done) { tell(done); };
    perform(
        [found, options] {
            try {
                found->question.require_sense();
                found->sizing = cli::size_clusters(found->input, found->question, options);
                found->failure = plan::format_text(found->sizing.errors);
            } catch (const std::exception& error) {
                found->failure = error.what();
            }
        },
        [this, found] { Q_EMIT this->found(found); });
}

}  // namespace orrery::gui
