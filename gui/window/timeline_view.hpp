// The timeline on the screen. What its keys do are actions, which a menu and the sheet of shortcuts
// show; what the mouse does is said in the sheet as well (mouse_help).
#pragma once

#include <memory>
#include <vector>

#include <QAbstractScrollArea>
#include <QAction>

#include "gui/window/timeline_painter.hpp"

namespace orrery::gui {

class TimelineView : public QAbstractScrollArea {
    Q_OBJECT

  public:
    explicit TimelineView(QWidget* parent = nullptr);

    // Keeps the stretch that is shown, as a share of the step, where `keep_view`.
    void show_timeline(std::shared_ptr<const Timeline> timeline, bool keep_view);
    const Timeline* timeline() const { return timeline_.get(); }
    // What stands where a timeline would, as long as there is none: why.
    void set_empty_text(const QString& text);
    const QString& empty_text() const { return empty_text_; }
    const std::shared_ptr<const Timeline>& shared_timeline() const { return timeline_; }
    const Scene& scene() const { return scene_; }
    // Its size is that of the widget; the cursor is left out.
    void paint_scene(QPainter& painter, const QRect& whole);

    // In the order of the menu; enabled while there is a timeline.
    const std::vector<QAction*>& timeline_actions() const { return actions_; }
    // What the mouse does, and where.
    static std::vector<std::pair<QString, QString>> mouse_help();

    void set_title(const QString& title);  // empty: "whole step"
    const QString& title() const { return title_; }
    // What is shown, counted from the start of the step: so that two steps can be held against each
    // other. `reach`: how long after the start it may go on, though the step be shorter.
    Stretch shown_of_step() const;
    void show_of_step(const Stretch& stretch);
    void set_reach(Picoseconds reach);
    // Of the step that is shown, by stays on one rank each; drawn while its action is checked.
    void set_path(std::shared_ptr<const std::vector<cli::PathStay>> path);
    const std::shared_ptr<const std::vector<cli::PathStay>>& path() const { return path_; }
    // Of the ops of this timeline in another step; null: it is held against none, or, where that
    // has a title, not aligned with it yet.
    void set_counterparts(std::shared_ptr<const Counterparts> counterparts,
                          const QString& title_of_others = {});
    // Of the selection; nothing where it has none.
    std::optional<OpPlace> counterpart() const;
    // Shows an op that is selected in another step.
    void point_at(std::optional<OpPlace> op);
    // Boxes by how much longer or shorter they are than their counterparts, while there are any.
    void colour_by_difference(bool wanted);
    // The other step's ops over the rows of this one, while there are counterparts.
    void lay_over(bool wanted);
    // Marks, counted from the start of the step.
    std::vector<Picoseconds> marks() const;
    void set_marks(const std::vector<Picoseconds>& of_step);
    void select(std::optional<BoxPlace> box);
    void select_area(std::optional<Area> area);
    // Opens the op's rank, selects the op and brings it into view.
    void go_to(const OpPlace& place);
    // What is selected, of a rank's own row its first kernel or the next one.
    std::optional<OpPlace> selected_op() const;
    // Of the selection; nothing where there is none.
    std::optional<Details> details() const;

    // For tests, and for whoever points at something: where a box is in the viewport.
    QRect place_of_rows() const { return layout_.rows; }

  Q_SIGNALS:
    void selection_changed();
    void view_changed();
    void marks_changed();  // by the user
    void counterpart_wanted(const OpPlace& op);
    void coloured_by_difference(bool wanted);  // by the user
    void laid_over(bool wanted);               // likewise
    void hovered(const QString& text);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    bool viewportEvent(QEvent* event) override;
    void scrollContentsBy(int dx, int dy) override;

  private:
    static constexpr double kZoomStep = 1.35;  // of a key, and of a notch of the wheel

    enum class Drag { none, area, pan, minimap };

    void make_actions();
    QAction* add_action(const QString& text, const QList<QKeySequence>& keys,
                        void (TimelineView::*does)());
    void zoom_in();
    void zoom_out();
    void pan_left();
    void pan_right();
    void focus_selection();
    void show_whole_step();
    void mark();
    void clear();
    void area_of_selection();
    void next_on_row();
    void previous_on_row();
    void to_blocker();
    void to_waiting();
    void toggle_rank();
    void toggle_group();
    void open_all();
    void close_all();
    void toggle_path();
    void to_counterpart();
    void toggle_difference();
    void toggle_overlay();
    static QString without_counterparts();

    void step_on_row(int by);
    void zoom(double factor, double x);
    void changed();
    void lay_out();
    void drop_minimap();
    std::optional<BoxPlace> box_at(const QPoint& place) const;
    // What lies there of another step.
    std::optional<Laid> laid_at(const QPoint& place) const;
    std::optional<OpPlace> op_of(const BoxPlace& box) const;
    Details details_of(const BoxPlace& box) const;
    bool is_below(const Row& row, const QPoint& place) const;
    QString hover_text(const QPoint& place) const;
    std::optional<Laid> laid_over_box(const BoxPlace& box) const;
    void find_laid_over();
    void make_overlaid(bool all);
    Area area_between(const QPoint& a, const QPoint& b) const;
    std::optional<Stretch> selected_stretch() const;
    void centre_minimap(int x);
    double x_of_cursor() const;

    std::shared_ptr<const Timeline> timeline_;
    std::unique_ptr<Rows> rows_;
    Scene scene_;
    SceneLayout layout_{QRect()};
    QString title_;
    QString empty_text_;
    QPixmap minimap_;
    std::shared_ptr<const std::vector<cli::PathStay>> path_;
    QAction* shows_path_ = nullptr;
    std::shared_ptr<const Counterparts> counterparts_;
    QAction* shows_difference_ = nullptr;
    QAction* lays_over_ = nullptr;
    std::vector<QAction*> actions_;
    Drag drag_ = Drag::none;
    QPoint pressed_, last_;
};

}  // namespace orrery::gui
