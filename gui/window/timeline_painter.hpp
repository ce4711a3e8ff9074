// Draws a scene. Visits what is visible and nothing else.
#pragma once

#include <array>
#include <map>

#include <QCoreApplication>
#include <QPainter>
#include <QPixmap>
#include <QStaticText>

#include "gui/window/look.hpp"
#include "gui/window/timeline_scene.hpp"

namespace orrery::gui {

class TimelinePainter {
    Q_DECLARE_TR_FUNCTIONS(TimelinePainter)

  public:
    TimelinePainter(QPainter& painter, const Scene& scene, const SceneLayout& layout,
                    const Look& look);

    // `minimap`: a picture that minimap_picture made, or null to draw it anew.
    void paint(const QPixmap* minimap);

    static QPixmap minimap_picture(const Scene& scene, const QSize& size, double ratio,
                                   const Look& look);

  private:
    void paint_minimap(const QPixmap* picture);
    void paint_axis();
    void paint_rows();
    void paint_name(const Row& row, const QRect& place);
    void paint_lane(const Row& row, const QRect& place);
    void paint_rank(const Row& row, const QRect& place);
    void paint_overlaid(const Row& row, const QRect& own);
    void paint_laid_over();
    void paint_strips(const Lane& lane, const std::vector<Strip>& strips, const QRect& place,
                      const Lane* parts = nullptr);
    void paint_span(Kind kind, const Strip& strip, const QRect& place);
    void paint_shares(const QRectF& box, const std::vector<Kind>& kinds, const Picoseconds* sums,
                      Picoseconds time);
    bool reaches_a_pixel(const QRectF& band) const;
    static QRectF waiting_part(const QRectF& box);
    static QRectF box_of(const Strip& strip, const QRect& place);
    static QString legend_text(Kind kind);
    void paint_numbers(const Row& row, const std::vector<Strip>& actions, const QRect& place);
    void paint_number(const QString& number, const QRectF& place);
    void paint_op_names(const Row& row, const std::vector<Strip>& strips, const QRect& place);
    void paint_box(const BoxPlace& box, const QPen& pen);
    void paint_pointed_at();
    void paint_dependency();
    void paint_path();
    void paint_arrivals();
    void paint_arrow(const QPointF& from, const QPointF& head, const QPen& pen);
    double middle_of(const OpPlace& op) const;
    void paint_area();
    void paint_uprights();
    void paint_memory();
    void paint_legend();
    std::vector<Kind> kinds_shown() const;
    std::optional<QRectF> place_of(const BoxPlace& box) const;

    QPainter& p_;
    const Scene& scene_;
    const SceneLayout& layout_;
    const Look& look_;
    QTransform to_device_;
    bool whole_pixels_;                 // are filled: neither parts of them nor shapes of a file
    std::array<QColor, kKinds> fills_;  // of the look
    // Of micro-batches, laid out once: most stand on each row twice.
    std::map<QString, QStaticText> numbers_;
};

}  // namespace orrery::gui
