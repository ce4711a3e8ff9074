// Which cluster a run needs, as `orrery size` answers it, on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "cli/sizing.hpp"
#include "gui/scenario/answer.hpp"
#include "gui/scenario/background_run.hpp"

namespace orrery::gui {

struct SizeFound {
    cli::ScenarioInput input;
    cli::SizeQuestion question;
    cli::Sizing sizing;
    std::string failure;  // why there is no result
};
// Whoever shows it judges its options anew, by another deadline or budget.
using SizeFoundPtr = std::shared_ptr<SizeFound>;

class SizeRun : public BackgroundRun {
    Q_OBJECT

  public:
    explicit SizeRun(QObject* parent = nullptr) : BackgroundRun(parent) {}

    // One at a time.
    void start(const ScenarioText& scenario, const cli::SizeQuestion& question);

  Q_SIGNALS:
    void found(orrery::gui::SizeFoundPtr found);
};

}  // namespace orrery::gui
