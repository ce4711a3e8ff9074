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

SearchRun::~SearchRun() {
    stop();
    if (thread_.joinable()) thread_.join();
}

void SearchRun::start(const std::string& path) {
    if (running_) return;
    if (thread_.joinable()) thread_.join();
    running_ = true;
    stop_ = false;
    thread_ = std::thread([this, path] {
        auto found = std::make_shared<SearchFound>();
        found->input.file = path;
        sim::SearchOptions options;
        options.stop = &stop_;
        options.progress = [this](double done) {
            QMetaObject::invokeMethod(
                this, [this, done] { Q_EMIT progressed(done); }, Qt::QueuedConnection);
        };
        try {
            perform(*found, options);
        } catch (const std::exception& error) {
            found->failure = error.what();
        }
        QMetaObject::invokeMethod(
            this,
            [this, found] {
                running_ = false;
                Q_EMIT this->found(found);
            },
            Qt::QueuedConnection);
    });
}

}  // namespace orrery::gui
