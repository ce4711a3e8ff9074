// A picture of a view, as PNG or SVG.
#pragma once

#include <functional>

#include <QPainter>
#include <QRect>
#include <QString>

namespace orrery::gui {

// What `paint` draws of this size, by the ending of `path`: .png, twice as dense, or .svg. Empty,
// or why not.
QString export_picture(const QString& path, const QSize& size, const QString& title,
                       const std::function<void(QPainter& painter, const QRect& whole)>& paint);

}  // namespace orrery::gui
