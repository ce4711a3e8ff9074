#include "gui/window/look.hpp"

#include <array>
#include <cmath>

namespace orrery::gui {
namespace {

const QColor kSkyBlue(86, 180, 233);
const QColor kYellow(240, 228, 66);
const QColor kOrange(230, 159, 0);
const QColor kBlue(0, 114, 178);
const QColor kGreen(0, 158, 115);
const QColor kVermilion(213, 94, 0);
const QColor kPurple(204, 121, 167);
const QColor kGrey(140, 140, 148);

double linear(double channel) {
    return channel <= 0.03928 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& colour) {
    return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) +
           0.0722 * linear(colour.blueF());
}

}  // namespace

Look Look::of(const QPalette& palette) {
    Look look;
    look.ground = palette.color(QPalette::Base);
    look.ink = palette.color(QPalette::Text);
    look.dark = luminance(look.ground) < luminance(look.ink);
    look.faint = look.dark ? QColor(160, 164, 172) : QColor(95, 99, 106);
    look.line = look.dark ? QColor(62, 66, 74) : QColor(222, 224, 228);
    look.band = look.dark ? QColor(38, 41, 47) : QColor(246, 247, 249);
    look.selection = palette.color(QPalette::Highlight);
    return look;
}

QColor Look::fill(Kind kind) const {
    switch (kind) {
        case Kind::forward:
            return kSkyBlue;
        case Kind::recompute:
            return kYellow;
        case Kind::backward:
        case Kind::input_gradient:
            return kOrange;
        case Kind::weight_gradient:
            return kBlue;
        case Kind::optimizer:
            return kGreen;
        case Kind::exposed_tensor:
        case Kind::exposed_context:
        case Kind::exposed_expert:
        case Kind::exposed_data:
        case Kind::exposed_pipeline:
        case Kind::collective:
            return kVermilion;
        case Kind::bubble:
        case Kind::idle:
            return dark ? QColor(54, 57, 64) : QColor(232, 233, 236);
        case Kind::imbalance:
        case Kind::launch:
        case Kind::other:
            return kPurple;
        case Kind::transfer:
        case Kind::host:
            return kGrey;
        case Kind::half:
            return dark ? QColor(92, 184, 255) : QColor(0, 92, 158);
        case Kind::shorter:
            return dark ? QColor(58, 126, 190) : QColor(86, 160, 214);
        case Kind::little_shorter:
            return dark ? QColor(46, 82, 122) : QColor(176, 210, 236);
        case Kind::as_long:
            return dark ? QColor(82, 85, 93) : QColor(206, 207, 211);
        case Kind::little_longer:
            return dark ? QColor(122, 84, 46) : QColor(250, 212, 164);
        case Kind::longer:
            return dark ? QColor(192, 116, 38) : QColor(236, 148, 60);
        case Kind::twice:
            return dark ? QColor(255, 168, 72) : QColor(178, 72, 0);
        case Kind::alone:
            return dark ? QColor(224, 226, 230) : QColor(66, 69, 76);
        case Kind::copy:
            break;
    }
    return dark ? QColor(150, 132, 104) : QColor(176, 158, 128);
}

// The exposed parts share a hue and differ in how light they are.
QColor Look::fill(trace::Account account) const {
    using trace::Account;
    switch (account) {
        case Account::compute:
            return kSkyBlue;
        case Account::recompute:
            return kYellow;
        case Account::optimizer:
            return kGreen;
        case Account::exposed_tensor:
            return kVermilion;
        case Account::exposed_context:
            return kVermilion.lighter(118);
        case Account::exposed_expert:
            return kVermilion.lighter(136);
        case Account::exposed_data:
            return kVermilion.darker(125);
        case Account::exposed_pipeline:
            return kVermilion.darker(150);
        case Account::bubble:
            return dark ? QColor(112, 116, 124) : QColor(190, 193, 199);
        case Account::imbalance:
            return kPurple;
        case Account::launch:
            return kPurple.lighter(120);
        case Account::other:
            break;
    }
    return kPurple.darker(130);
}

// As the page of `orrery report` has them.
QColor Look::fill(sim::RunAccount account) const {
    using sim::RunAccount;
    switch (account) {
        case RunAccount::steps:
            return kSkyBlue;
        case RunAccount::data:
            return {165, 140, 95};
        case RunAccount::lost_work:
            return dark ? QColor(239, 83, 80) : QColor(198, 40, 40);
        case RunAccount::saving:
            return kYellow;
        case RunAccount::detection:
            return kGreen;
        case RunAccount::diagnosis:
            return dark ? QColor(99, 212, 174) : QColor(0, 86, 63);
        case RunAccount::restart:
            return kOrange;
        case RunAccount::waiting:
            return {138, 99, 184};
        case RunAccount::degraded:
            break;
    }
    return kBlue;
}

QColor Look::fill(plan::MemoryCategory category) const {
    static const std::array<QColor, 7> kFills = {kBlue,    kVermilion, kGreen, kOrange,
                                                 kSkyBlue, kPurple,    kYellow};
    return kFills[static_cast<std::size_t>(category) % kFills.size()];
}

QColor Look::ink_on(const QColor& fill) {
    const double light = luminance(fill);
    return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? QColor(Qt::white) : QColor(Qt::black);
}

}  // namespace orrery::gui
