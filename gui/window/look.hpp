// Colours of the timeline and the charts. Work has those of the text timeline: the palette of Okabe
// and Ito (2008), which people with any of the usual kinds of colour blindness tell apart; waiting
// and the ground follow light and dark.
#pragma once

#include <QColor>
#include <QPalette>

#include "gui/timeline/kind.hpp"
#include "plan/ir/plan.hpp"
#include "sim/fleet/run_outcome.hpp"

namespace orrery::gui {

struct Look {
    bool dark = false;
    QColor ground, ink, faint, line, band, selection;

    static Look of(const QPalette& palette);

    QColor fill(Kind kind) const;
    // Of the parts of a step and of a run in the report, and of what memory holds.
    QColor fill(trace::Account account) const;
    QColor fill(sim::RunAccount account) const;
    QColor fill(plan::MemoryCategory category) const;
    // Black or white, whichever is easier to read on it (WCAG 2.1's relative luminance).
    static QColor ink_on(const QColor& fill);
};

}  // namespace orrery::gui
