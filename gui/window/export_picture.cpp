#include "gui/window/export_picture.hpp"

#include <QBuffer>
#include <QCoreApplication>
#include <QImage>
#include <QSvgGenerator>

#include "gui/window/export_file.hpp"

namespace orrery::gui {

// Drawn in memory first, so that a full disk leaves what was there.
QString export_picture(const QString& path, const QSize& size, const QString& title,
                       const std::function<void(QPainter& painter, const QRect& whole)>& paint) {
    const QRect whole(QPoint(), size);
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    if (path.endsWith(QLatin1String(".svg"))) {
        QSvgGenerator svg;
        svg.setOutputDevice(&buffer);
        svg.setSize(size);
        svg.setViewBox(whole);
        svg.setTitle(title);
        svg.setDescription(kPictureMark);
        QPainter painter(&svg);
        paint(painter, whole);
        painter.end();
        return write_export(path, svg_file(), buffer.data());
    }
    if (path.endsWith(QLatin1String(".png"))) {
        constexpr int kScale = 2;  // for print and dense screens
        QImage picture(size * kScale, QImage::Format_RGB32);
        picture.setDevicePixelRatio(kScale);
        QPainter painter(&picture);
        paint(painter, whole);
        painter.end();
        picture.setText(QStringLiteral("Title"), title);
        picture.setText(QStringLiteral("Comment"), kPictureMark);
        picture.save(&buffer, "PNG");
        return write_export(path, png_file(), buffer.data());
    }
    return QCoreApplication::translate("ExportPicture", "the name must end in .png or .svg");
}

}  // namespace orrery::gui
