// A search over layouts, as `orrery search` does it, on a thread of its own: with progress, and
// stopped when it is not wanted any more.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <QObject>

#include "cli/layout_search.hpp"

namespace orrery::gui {

struct SearchFound {
    cli::ScenarioInput input;
    cli::LayoutSearch search;  // its bases and profiles, which the result refers to
    sim::SearchResult result;
    std::string report;   // the text of `orrery search`
    std::string failure;  // why there is no result
};
using SearchFoundPtr = std::shared_ptr<const SearchFound>;

class SearchRun : public QObject {
    Q_OBJECT

  public:
    explicit SearchRun(QObject* parent = nullptr) : QObject(parent) {}
    ~SearchRun() override;  // stops it and waits

    // Of the scenario in a file; one at a time.
    void start(const std::string& path);
    void stop() { stop_ = true; }
    bool is_running() const { return running_; }

  Q_SIGNALS:
    void progressed(double share);  // of the layouts that are priced
    void found(orrery::gui::SearchFoundPtr found);

  private:
    std::thread thread_;
    std::atomic<bool> stop_{false};
    bool running_ = false;
};

}  // namespace orrery::gui
