// Text that is as high as it needs to be for its width: in a scroll area a plain label's last lines
// are cut off when its text changes.
#pragma once

#include <algorithm>

#include <QLabel>

namespace orrery::gui {

class WrappedLabel : public QLabel {
  public:
    explicit WrappedLabel(const QString& text = {}) : QLabel(text) {
        setWordWrap(true);
        setTextInteractionFlags(Qt::TextSelectableByMouse);
    }
    void say(const QString& text) {
        setText(text);
        fit();
    }

  protected:
    void resizeEvent(QResizeEvent* event) override {
        QLabel::resizeEvent(event);
        fit();
    }

  private:
    void fit() { setMinimumHeight(std::max(0, heightForWidth(width()))); }
};

}  // namespace orrery::gui
