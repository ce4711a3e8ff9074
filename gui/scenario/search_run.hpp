// A search over layouts, as `orrery search` does it, on a thread of its own: with progress, and
// stopped when it is not wanted any more.
#pragma once

#include <memory>
#include <string>

#include "cli/layout_search.hpp"
#include "gui/scenario/background_run.hpp"

namespace orrery::gui {

struct SearchFound {
    cli::ScenarioInput input;
    cli::LayoutSearch search;  // its bases and profiles, which the result refers to
    sim::SearchResult result;
    std::string report;   // the text of `orrery search`
    std::string failure;  // why there is no result
};
using SearchFoundPtr = std::shared_ptr<const SearchFound>;

class SearchRun : public BackgroundRun {
    Q_OBJECT

  public:
    explicit SearchRun(QObject* parent = nullptr) : BackgroundRun(parent) {}

    // Of the scenario in a file; one at a time.
    void start(const std::string& path);

  Q_SIGNALS:
    void found(orrery::gui::SearchFoundPtr found);
};

}  // namespace orrery::gui
