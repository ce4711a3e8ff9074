#include "gui/window/json_editor.hpp"

#include <algorithm>

#include <QFontDatabase>
#include <QHelpEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QTextBlock>
#include <QToolTip>

#include "gui/scenario/json_places.hpp"
#include "gui/window/look.hpp"

namespace orrery::gui {

// The margin beside the text; it is the editor that knows what to draw.
class LineNumbers : public QWidget {
  public:
    explicit LineNumbers(JsonEditor* editor) : QWidget(editor), editor_(editor) {}
    QSize sizeHint() const override { return {editor_->number_width(), 0}; }

  protected:
    void paintEvent(QPaintEvent* event) override { editor_->paint_numbers(event); }

  private:
    JsonEditor* editor_;
};

void JsonColours::highlightBlock(const QString& line) {
    static const QRegularExpression token(QStringLiteral(
        R"re(("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)re"));
    const auto* editor = qobject_cast<QPlainTextEdit*>(parent()->parent());
    const Look look = Look::of(editor != nullptr ? editor->palette() : QPalette());
    const QColor key = look.dark ? QColor(138, 190, 255) : QColor(0, 84, 150);
    const QColor text = look.dark ? QColor(160, 208, 140) : QColor(20, 110, 60);
    const QColor number = look.dark ? QColor(240, 180, 100) : QColor(160, 80, 0);
    for (auto found = token.globalMatch(line); found.hasNext();) {
        const QRegularExpressionMatch match = found.next();
        if (match.capturedLength(2) > 0)
            setFormat(static_cast<int>(match.capturedStart(1)),
                      static_cast<int>(match.capturedLength(1)), key);
        else
            setFormat(static_cast<int>(match.capturedStart()),
                      static_cast<int>(match.capturedLength()),
                      match.capturedLength(1) > 0 ? text : number);
    }
}

JsonEditor::JsonEditor(QWidget* parent) : QPlainTextEdit(parent), numbers_(new LineNumbers(this)) {
    setAccessibleName(tr("Scenario as JSON"));
    setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    setLineWrapMode(NoWrap);
    setTabChangesFocus(true);  // everything can be reached by Tab
    new JsonColours(document());
    connect(this, &QPlainTextEdit::blockCountChanged, this,
            [this] { setViewportMargins(number_width(), 0, 0, 0); });
    connect(this, &QPlainTextEdit::updateRequest, this, [this](const QRect& place, int dy) {
        if (dy != 0)
            numbers_->scroll(0, dy);
        else
            numbers_->update(0, place.y(), numbers_->width(), place.height());
    });
    setViewportMargins(number_width(), 0, 0, 0);
}

int JsonEditor::number_width() const {
    const auto digits = QString::number(std::max(1, blockCount())).size();
    return 14 + fontMetrics().horizontalAdvance(QLatin1Char('9')) *
                    static_cast<int>(std::max<qsizetype>(2, digits));
}

void JsonEditor::resizeEvent(QResizeEvent* event) {
    QPlainTextEdit::resizeEvent(event);
    const QRect inside = contentsRect();
    numbers_->setGeometry(inside.left(), inside.top(), number_width(), inside.height());
}

void JsonEditor::changeEvent(QEvent* event) {
    QPlainTextEdit::changeEvent(event);
    if (event->type() != QEvent::PaletteChange) return;
    for (auto* colours : document()->findChildren<JsonColours*>())
        colours->rehighlight();
}

void JsonEditor::paint_numbers(QPaintEvent* event) {
    const Look look = Look::of(palette());
    QPainter painter(numbers_);
    painter.fillRect(event->rect(), look.band);
    painter.setFont(font());
    QTextBlock block = firstVisibleBlock();
    double top = blockBoundingGeometry(block).translated(contentOffset()).top();
    for (; block.isValid() && top <= event->rect().bottom(); block = block.next()) {
        const double height = blockBoundingRect(block).height();
        painter.setPen(block.blockNumber() == textCursor().blockNumber() ? look.ink : look.faint);
        painter.drawText(QRectF(0, top, numbers_->width() - 6, height),
                         Qt::AlignRight | Qt::AlignVCenter,
                         QString::number(block.blockNumber() + 1));
        top += height;
    }
}

void JsonEditor::replace_text(const QString& text) {
    const QString before = toPlainText();
    if (before == text) return;
    // Only what differs, so that cursor and scroll position stay where they are.
    qsizetype first = 0, last = 0;
    const qsizetype most = std::min(before.size(), text.size());
    while (first < most && before[first] == text[first])
        ++first;
    while (last < most - first && before[before.size() - 1 - last] == text[text.size() - 1 - last])
        ++last;
    QTextCursor cursor(document());
    cursor.beginEditBlock();
    cursor.setPosition(static_cast<int>(first));
    cursor.setPosition(static_cast<int>(before.size() - last), QTextCursor::KeepAnchor);
    cursor.insertText(text.mid(first, text.size() - last - first));
    cursor.endEditBlock();
}

// Places are bytes of UTF-8, positions of the document UTF-16.
std::optional<std::pair<int, int>> JsonEditor::place_of(const plan::Diagnostic& diagnostic) const {
    if (diagnostic.line > 0) {
        const QTextBlock block = document()->findBlockByNumber(diagnostic.line - 1);
        if (!block.isValid()) return std::nullopt;
        const int column = std::clamp(diagnostic.column - 1, 0, block.length() - 1);
        const int begin = block.position() + std::max(0, column - 1);
        return std::pair{begin, std::min(begin + 2, document()->characterCount() - 1)};
    }
    const std::string text = toPlainText().toStdString();
    const std::optional<JsonPlace> place = nearest_place(text, diagnostic.pointer);
    if (!place) return std::nullopt;
    const auto units = [&](std::size_t bytes) {
        return static_cast<int>(
            QString::fromUtf8(text.data(), static_cast<qsizetype>(bytes)).size());
    };
    // Of an object or an array its name is enough.
    const bool large = text[place->begin] == '{' || text[place->begin] == '[';
    const std::size_t end =
        large ? (place->key < place->begin ? place->begin : place->begin + 1) : place->end;
    return std::pair{units(place->key), units(end)};
}

void JsonEditor::mark(const std::vector<plan::Diagnostic>& diagnostics, const QString& file) {
    QList<QTextEdit::ExtraSelection> underlined;
    marked_.clear();
    for (const plan::Diagnostic& diagnostic : diagnostics) {
        if (QString::fromStdString(diagnostic.file) != file) continue;
        const auto place = place_of(diagnostic);
        if (!place) continue;
        QTextEdit::ExtraSelection selection;
        selection.cursor = QTextCursor(document());
        selection.cursor.setPosition(place->first);
        selection.cursor.setPosition(place->second, QTextCursor::KeepAnchor);
        selection.format.setUnderlineStyle(QTextCharFormat::WaveUnderline);
        selection.format.setUnderlineColor(QColor(220, 60, 40));
        QColor veil(220, 60, 40);
        veil.setAlpha(36);
        selection.format.setBackground(veil);
        underlined.push_back(selection);
        marked_.push_back({place->first, place->second,
                           QString::fromStdString(diagnostic.code + ": " + diagnostic.message)});
    }
    setExtraSelections(underlined);
}

void JsonEditor::go_to(const plan::Diagnostic& diagnostic) {
    const auto place = place_of(diagnostic);
    if (!place) return;
    QTextCursor cursor(document());
    cursor.setPosition(place->first);
    cursor.setPosition(place->second, QTextCursor::KeepAnchor);
    setTextCursor(cursor);
    ensureCursorVisible();
    setFocus();
}

bool JsonEditor::viewportEvent(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QPlainTextEdit::viewportEvent(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int at = cursorForPosition(help->pos()).position();
    const auto found = std::find_if(marked_.begin(), marked_.end(), [&](const Marked& marked) {
        return marked.begin <= at && at <= marked.end;
    });
    if (found == marked_.end())
        QToolTip::hideText();
    else
        QToolTip::showText(help->globalPos(), found->text, this);
    return true;
}

}  // namespace orrery::gui
