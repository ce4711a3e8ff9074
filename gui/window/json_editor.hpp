// The scenario as text: line numbers, colours of JSON, places of errors underlined. Undo and redo
// are those of the document.
#pragma once

#include <vector>

#include <QPlainTextEdit>
#include <QSyntaxHighlighter>

#include "plan/scenario/diagnostic.hpp"

namespace orrery::gui {

class JsonColours : public QSyntaxHighlighter {
    Q_OBJECT

  public:
    using QSyntaxHighlighter::QSyntaxHighlighter;

  protected:
    void highlightBlock(const QString& line) override;
};

class JsonEditor : public QPlainTextEdit {
    Q_OBJECT

  public:
    explicit JsonEditor(QWidget* parent = nullptr);

    // Replaces the whole text as one step that can be undone; the cursor stays near where it was.
    void replace_text(const QString& text);
    // Underlines the values that these are about; `file` is what they call the text.
    void mark(const std::vector<plan::Diagnostic>& diagnostics, const QString& file);
    // Selects the value of a diagnostic, and shows it.
    void go_to(const plan::Diagnostic& diagnostic);

  protected:
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    friend class LineNumbers;

    struct Marked {
        int begin = 0, end = 0;  // positions in the document
        QString text;
    };

    int number_width() const;
    void paint_numbers(QPaintEvent* event);
    std::optional<std::pair<int, int>> place_of(const plan::Diagnostic& diagnostic) const;

    QWidget* numbers_;
    std::vector<Marked> marked_;
};

}  // namespace orrery::gui
