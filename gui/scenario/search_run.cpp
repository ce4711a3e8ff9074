#include "gui/scenario/search_run.hpp"

#include <chrono>
#include <sstream>

#include "cli/search_report.hpp"

namespace orrery::gui {
namespace {

void perform(SearchFound& found, sim::SearchOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    found.search = cli::layout_search(found.input, {});
    if (!found.search.errors.empty()) {
        found.failure = plan::format_text(found.search.errors);
        return;
    }
    found.result = sim::search(found.search.bases, options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::ostringstream out, err;
    found.report = cli::search_text(
        {found.input, found.search, options, found.result, took.count(), std::nullopt, false},
        {out, err});
}

}  // namespace

void SearchRun::start(const std::string& path) {
    auto found = std::make_shared<SearchFound>();
    found->input.file = path;
    sim::SearchOptions options;
    options.stop = &stopped();
    options.progress = [this](double done) { tell(done); };
    BackgroundRun::perform(
        [found, options]() mutable {
            try {
                gui::perform(*found, options);
            } catch (const std::exception& error) {
                found->failure = error.what();
            }
        },
        [this, found] { Q_EMIT this->found(found); });
}

}  // namespace orrery::gui
